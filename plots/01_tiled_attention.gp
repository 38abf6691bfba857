# 01_tiled_attention.gp - speed and memory of problem 01. Drawn by plot.sh.
load 'plots/common.gp'

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
