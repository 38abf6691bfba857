# 09_flash_sinks_backward.gp - time and memory of problem 09. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "09 flash sinks backward: W = 128, 4 sinks, D = 64, 64 heads over 8 of K and V, bf16"
where = "B=1,Hq=64,D=64"
load 'plots/time.gp'

where = among("B=1,Hq=16,Hkv=8,D=16", "B=1,Hq=2,D=16")
chart_title = sprintf("09 flash sinks backward: W = %d, 4 sinks, D = 16, %s of K and V, bf16", on_gpu ? 256 : 64, \
    on_gpu ? "16 heads over 8" : "2 heads over 1")
load 'plots/memory.gp'
