# 07_flash_sinks.gp - time and memory of problem 07. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "07 flash sinks: W = 128, 4 sinks, D = 64, 64 heads over 8 of K and V, bf16"
where = "B=1,Hq=64,D=64"
load 'plots/time.gp'

where = among("B=1,Hq=16,D=16", "B=1,Hq=2,D=16")
chart_title = sprintf("07 flash sinks: W = %d, %d sinks, D = 16, %s of K and V, bf16", on_gpu ? 128 : 64, on_gpu \
    ? 8 : 4, on_gpu ? "16 heads over 2" : "2 heads over 1")
load 'plots/memory.gp'
