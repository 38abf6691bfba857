# 16_flash_fp8.gp - speed, memory and error of problem 16. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "16 flash fp8: causal, D = 128, 16 heads, 16384 tokens in a batch, e4m3"
where = "D=128,Hq=16,causal=1"
roof_title = "cuBLAS in bf16: %.0f TFLOP/s"
room = 1.6
bf16_is = "10, in bf16"
load 'plots/speed.gp'

where = among("B=1,Hq=16,D=64", "B=1,Hq=2,D=64")
chart_title = sprintf("16 flash fp8: D = 64, %s of K and V, e4m3", on_gpu ? "16 heads over 2" : "2 heads over 1")
load 'plots/memory.gp'

error_title = "16 flash fp8: error of O in e4m3, 192 queries of one head, D = 128"
x_title = "keys"
most = 0.5
error_rows = 5
error_lines = "one_level:mean_one:1 two_levels:mean_one:3 two_levels:outliers:7 hadamard:outliers:8" \
    ." hadamard:column:19 two_levels:normal:6 fa3:mean_one:5 fa3:outliers:21 cudnn:normal:22 bf16:normal:23"
array titles[10] = ["V of mean 1, one level", "V of mean 1, two levels", "outliers", "outliers, Hadamard", \
    "large column of K, Hadamard", "standard normal", "V of mean 1, FlashAttention-3", "outliers, FlashAttention-3", \
    "standard normal, cuDNN", "standard normal, in bf16"]
load 'plots/errors.gp'
