# 14_flash_decode_int8.gp - speed, time, memory and error of problem 14. Drawn by plot.sh.
load 'plots/common.gp'

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
