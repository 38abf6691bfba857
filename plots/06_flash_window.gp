# 06_flash_window.gp - time and memory of problem 06. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "06 flash window: W = 128, D = 64, 64 heads over 8 of K and V, bf16"
where = "B=1,Hq=64,D=64"
load 'plots/time.gp'

where = among("B=1,Hq=16,D=16", "B=1,Hq=2,D=16")
chart_title = sprintf("06 flash window: W = %d, D = 16, %s of K and V, bf16", on_gpu ? 128 : 64, on_gpu \
    ? "16 heads over 2" : "2 heads over 1")
load 'plots/memory.gp'
