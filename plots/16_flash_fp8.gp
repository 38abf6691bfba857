# 16_flash_fp8.gp - speed and memory of problem 16. Drawn by plot.sh.
load 'plots/common.gp'

x_column = "Nq"
x_title = "sequence length N"

chart_title = "16 flash fp8: causal, D = 128, 16 heads, 16384 tokens in a batch, e4m3"
where = "D=128,Hq=16,causal=1"
y_column = "tflops"
y_factor = 1
y_title = "TFLOP/s of visible pairs, higher is better"
roof_name = "roof_gemm"
roof_title = "cuBLAS in bf16: %.0f TFLOP/s"
room = 1.6
bf16_is = "10, in bf16"
load 'plots/speed.gp'

on_gpu = count(memory_data, "", "B=1,Hq=16,D=64") > 1
where = on_gpu ? "B=1,Hq=16,D=64" : "B=1,Hq=2,D=64"
chart_title = sprintf("16 flash fp8: D = 64, %s of K and V, e4m3", on_gpu ? "16 heads over 2" : "2 heads over 1")
fit_from = 256
load 'plots/memory.gp'

load 'plots/errors_fp8.gp'
