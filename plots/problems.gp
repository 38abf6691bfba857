# problems.gp - the charts of each problem: which shapes they show, and their labels. Drawn by plot.sh, which also sets
# `number`, of the problem. A section is a problem; make new-problem copies one.
load 'plots/common.gp'

# The shapes of most memory charts: of a GPU, or of the CPU backend; and what their titles say of the heads.
of_D(D) = among(sprintf("B=1,Hq=16,D=%d", D), sprintf("B=1,Hq=2,D=%d", D))
heads(kv) = on_gpu ? sprintf("16 heads over %d", kv) : "2 heads over 1"

# ------------------------ 01
if (number eq "01") {
    chart_title = "01 tiled attention on the CPU: D = 64, 8 heads, float32"
    where = "B=1,Hq=8,D=64,causal=0"
    y_factor = 1000
    y_title = "GFLOP/s, higher is better"
    roof_name = "roof_sgemm"
    roof_title = "OpenBLAS on one tile, times threads: %.0f GFLOP/s"
    load 'plots/speed.gp'

    chart_title = "01 tiled attention on the CPU: D = 64, one head, float32"
    where = "B=1,Hq=1,D=64,causal=0"
    fit_from = 2048  # below, the tiles of a few threads are not small yet
    load 'plots/memory.gp'
}
# ------------------------ 02
if (number eq "02") {
    where = "rows=cols"
    x_column = "cols"
    x_title = "N, of a matrix N x N"

    chart_title = "02 weighted row sum: y = x w, bf16"
    y_column = "gbps"
    y_title = "GB/s, higher is better"
    roof_name = "roof_copy"
    roof_title = "copy in device memory: %.0f GB/s"
    load 'plots/speed.gp'

    chart_title = "02 weighted row sum: the matrix is all there is"
    load 'plots/memory.gp'
}
# ------------------------ 03
if (number eq "03") {
    chart_title = "03 flash forward: D = 128, 16 heads, 16384 tokens in a batch, bf16"
    where = "D=128,Hq=16"
    y_title = "TFLOP/s, higher is better"
    load 'plots/speed.gp'

    where = of_D(16)
    chart_title = sprintf("03 flash forward: D = 16, %d heads, bf16", on_gpu ? 16 : 2)
    load 'plots/memory.gp'
}
# ------------------------ 04
if (number eq "04") {
    chart_title = "04 flash causal: D = 128, 16 heads, 16384 tokens in a batch, bf16"
    where = "D=128,Hq=16"
    load 'plots/speed.gp'

    where = of_D(16)
    chart_title = sprintf("04 flash causal: D = 16, %d heads, bf16", on_gpu ? 16 : 2)
    load 'plots/memory.gp'
}
# ------------------------ 05
if (number eq "05") {
    chart_title = "05 flash gqa: causal, D = 128, 16 heads over 2 of K and V, 16384 tokens in a batch, bf16"
    where = "D=128,Hq=16,Hkv=2"
    load 'plots/speed.gp'

    where = of_D(16)
    chart_title = sprintf("05 flash gqa: D = 16, %s of K and V, bf16", heads(2))
    load 'plots/memory.gp'
}
# ------------------------ 06
if (number eq "06") {
    chart_title = "06 flash window: W = 128, D = 64, 64 heads over 8 of K and V, bf16"
    where = "B=1,Hq=64,D=64"
    load 'plots/time.gp'

    where = of_D(16)
    chart_title = sprintf("06 flash window: W = %d, D = 16, %s of K and V, bf16", on_gpu ? 128 : 64, heads(2))
    load 'plots/memory.gp'
}
# ------------------------ 07
if (number eq "07") {
    chart_title = "07 flash sinks: W = 128, 4 sinks, D = 64, 64 heads over 8 of K and V, bf16"
    where = "B=1,Hq=64,D=64"
    load 'plots/time.gp'

    where = of_D(16)
    chart_title = sprintf("07 flash sinks: W = %d, %d sinks, D = 16, %s of K and V, bf16", on_gpu ? 128 : 64, \
        on_gpu ? 8 : 4, heads(2))
    load 'plots/memory.gp'
}
# ------------------------ 08
if (number eq "08") {
    chart_title = "08 flash gqa backward: causal, D = 128, 16 heads, 16384 tokens in a batch, bf16"
    where = "D=128,Hq=16,Hkv=16"
    y_title = "TFLOP/s of 5 matrix products, higher is better"
    load 'plots/speed.gp'

    # What needs a workspace is for D = 64 and 128; older tables have D = 16 alone.
    D = count(memory_data, "", "B=1,Nq=1024,D=64") > 0 ? 64 : 16
    on_gpu = count(memory_data, "", sprintf("B=1,Hq=16,Hkv=8,D=%d", D)) > 1
    where = sprintf(on_gpu ? "B=1,Hq=16,Hkv=8,D=%d" : "B=1,Hq=2,D=%d", D)
    chart_title = sprintf("08 flash gqa backward: D = %d, %s of K and V, bf16", D, heads(8))
    load 'plots/memory.gp'
}
# ------------------------ 09
if (number eq "09") {
    chart_title = "09 flash sinks backward: W = 128, 4 sinks, D = 64, 64 heads over 8 of K and V, bf16"
    where = "B=1,Hq=64,D=64"
    load 'plots/time.gp'

    where = among("B=1,Hq=16,Hkv=8,D=16", "B=1,Hq=2,D=16")
    chart_title = sprintf("09 flash sinks backward: W = %d, 4 sinks, D = 16, %s of K and V, bf16", on_gpu ? 256 : 64, \
        heads(8))
    load 'plots/memory.gp'
}
# ------------------------ 10
if (number eq "10") {
    chart_title = "10 flash hopper: causal, D = 128, 16 heads, 16384 tokens in a batch, bf16"
    where = "D=128,Hq=16,causal=1"
    load 'plots/speed.gp'

    where = of_D(64)
    chart_title = sprintf("10 flash hopper: D = 64, %s of K and V, bf16", heads(2))
    load 'plots/memory.gp'
}
# ------------------------ 11
if (number eq "11") {
    chart_title = "11 flash sink logits: W = 128, D = 64, 64 heads over 8 of K and V, bf16"
    where = "B=1,Hq=64,D=64,W=128"
    load 'plots/time.gp'

    chart_title = "11 flash sink logits: no window, D = 64, 64 heads over 8 of K and V, bf16"
    where = "B=1,Hq=64,D=64,W=Nq"
    load 'plots/speed.gp'

    where = among("B=1,Hq=64,D=64,W=128", "B=1,Hq=2,D=16")
    chart_title = sprintf("11 flash sink logits: W = %s of K and V, bf16", on_gpu ? "128, D = 64, 64 heads over 8" \
        : "64, D = 16, 2 heads over 1")
    fit_from = on_gpu ? 1024 : 256
    load 'plots/memory.gp'
}
# ------------------------ 12
if (number eq "12") {
    chart_title = "12 flash sink logits backward: W = 128, D = 64, 64 heads over 8 of K and V, bf16"
    where = "B=1,Hq=64,D=64,W=128"
    load 'plots/time.gp'

    where = among("B=1,Hq=16,Hkv=8,D=16", "B=1,Hq=2,D=16")
    chart_title = sprintf("12 flash sink logits backward: W = %d, D = 16, %s of K and V, bf16", on_gpu ? 256 : 64, \
        heads(8))
    load 'plots/memory.gp'
}
# ------------------------ 13
if (number eq "13") {
    x_column = "Nk"
    x_title = "keys of each sequence"

    chart_title = "13 flash decode: 32 sequences, 64 heads over 8 of K and V, D = 128, pages of 64"
    where = "B=32,Hq=64,Nq=1,D=128,page=64,lens=same"
    y_column = "gbps"
    y_title = "GB/s, the cache read once, higher is better"
    roof_name = "roof_copy"
    roof_title = "copy in device memory: %.0f GB/s"
    load 'plots/speed.gp'

    where = among(where, "B=4,Hq=8,Nq=1,D=64,page=64,lens=same")
    chart_title = on_gpu ? chart_title : "13 flash decode: 4 sequences, 8 heads over 2 of K and V, D = 64"
    fit_from = on_gpu ? 2048 : 512
    load 'plots/memory.gp'
}
# ------------------------ 14
if (number eq "14") {
    x_column = "Nk"
    x_title = "keys of each sequence"

    chart_title = "14 flash decode int8: 32 sequences, 64 heads over 8 of K and V, D = 128, pages of 64"
    where = "B=32,Hq=64,Nq=1,D=128,page=64,lens=same"
    y_column = "gbps"
    y_title = "GB/s, the cache read once, higher is better"
    roof_name = "roof_copy"
    roof_title = "copy in device memory: %.0f GB/s"
    load 'plots/speed.gp'
    load 'plots/time.gp'

    where = among(where, "B=4,Hq=8,Nq=1,D=64,page=64,lens=same")
    chart_title = on_gpu ? chart_title : "14 flash decode int8: 4 sequences, 8 heads over 2 of K and V, D = 64"
    fit_from = on_gpu ? 2048 : 512
    # What the same cache has in bf16, without scales: K and V of all pages, as workbook/pages.c counts them.
    pages(B, Nk, page) = B * ceil(Nk / page) + floor(B * ceil(Nk / page) / 16.0) + 2
    beside_title = "inputs and outputs of 13, with the cache in bf16"
    beside_bytes = "column('io_bytes') + pages(column('B'), column('Nk'), column('page')) " \
        ."* column('page') * column('Hkv') * (2 * column('D') - 8)"
    load 'plots/memory.gp'

    error_title = "14 flash decode int8: error of O, 4 sequences, 8 heads over 2 of K and V, D = 128"
    most = 0.2
    error_rows = 4
    error_lines = "int8:outliers:1 int8:normal:3 bf16:outliers:7 bf16:normal:6"
    array titles[4] = ["int8, one column 20 times as large", "int8, all columns alike", \
        "bf16, one column 20 times as large", "bf16, all columns alike"]
    load 'plots/errors.gp'
}
# ------------------------ 15
if (number eq "15") {
    chart_title = "15 flash block mask: packed documents, 1024 tokens on average, D = 128, 16 heads"
    where = "D=128,Hq=16,B=4,mask=documents/1024,q_tile=128"
    load 'plots/speed.gp'

    where = of_D(16)
    chart_title = sprintf("15 flash block mask: packed documents, D = 16, %s of K and V, bf16", heads(2))
    load 'plots/memory.gp'
}
# ------------------------ 16
if (number eq "16") {
    chart_title = "16 flash fp8: causal, D = 128, 16 heads, 16384 tokens in a batch, e4m3"
    where = "D=128,Hq=16,causal=1"
    roof_title = "cuBLAS in bf16: %.0f TFLOP/s"
    room = 1.6
    bf16_is = "10, in bf16"
    load 'plots/speed.gp'

    where = of_D(64)
    chart_title = sprintf("16 flash fp8: D = 64, %s of K and V, e4m3", heads(2))
    load 'plots/memory.gp'

    error_title = "16 flash fp8: error of O in e4m3, 192 queries of one head, D = 128"
    x_title = "keys"
    most = 0.5
    error_rows = 5
    error_lines = "one_level:mean_one:1 two_levels:mean_one:3 two_levels:outliers:7 hadamard:outliers:8" \
        ." hadamard:column:19 two_levels:normal:6 fa3:mean_one:5 fa3:outliers:21 cudnn:normal:22 bf16:normal:23"
    array titles[10] = ["V of mean 1, one level", "V of mean 1, two levels", "outliers", "outliers, Hadamard", \
        "large column of K, Hadamard", "standard normal", "V of mean 1, FlashAttention-3", \
        "outliers, FlashAttention-3", "standard normal, cuDNN", "standard normal, in bf16"]
    load 'plots/errors.gp'
}
# ------------------------ 17
if (number eq "17") {
    number_and_name = "17 flash ring"
    load 'plots/ring.gp'
}
# ------------------------ 18
if (number eq "18") {
    number_and_name = "18 flash ring backward"
    load 'plots/ring.gp'
}
# ------------------------ 19
if (number eq "19") {
    chart_title = "19 flash fragments: D = 128, 16 heads, 16384 tokens in a batch, bf16"
    where = "D=128,Hq=16"
    y_title = "TFLOP/s, higher is better"
    load 'plots/speed.gp'

    where = of_D(16)
    chart_title = sprintf("19 flash fragments: D = 16, %d heads, bf16", on_gpu ? 16 : 2)
    load 'plots/memory.gp'
}
