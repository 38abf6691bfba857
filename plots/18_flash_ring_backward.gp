# 18_flash_ring_backward.gp - speed and memory of problem 18 against the number of ranks. Drawn by plot.sh.
load 'plots/common.gp'

x_column = "ranks"
x_title = "ranks R, a GPU each"
letter = "R"
set xtics 1, 2

where = "Nq=131072,D=128,causal=1"
chart_title = "18 flash ring backward: causal, N = 131072, 32 heads on 8, D = 128"
y_column = "tflops"
y_factor = 1
y_title = "TFLOP/s of 5 products of a GPU, higher is better"
roof_name = ""
load 'plots/speed.gp'

on_gpu = count(memory_data, "", "Nq=131072,D=128,causal=1") > 1
where = on_gpu ? "Nq=131072,D=128,causal=1" : "Nq=512,D=64,causal=1"
chart_title = sprintf("18 flash ring backward: memory of a rank, causal, N = %s", on_gpu ? "131072, 32 heads on 8, D = 128" : "512, 4 heads on 2, D = 64")
fit_from = 1
load 'plots/memory.gp'
