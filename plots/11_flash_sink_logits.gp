# 11_flash_sink_logits.gp - time, speed and memory of problem 11. Drawn by plot.sh.
load 'plots/common.gp'

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
