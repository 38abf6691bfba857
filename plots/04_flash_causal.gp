# 04_flash_causal.gp - speed and memory of problem 04. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "04 flash causal: D = 128, 16 heads, 16384 tokens in a batch, bf16"
where = "D=128,Hq=16"
load 'plots/speed.gp'

where = among("B=1,Hq=16,D=16", "B=1,Hq=2,D=16")
chart_title = sprintf("04 flash causal: D = 16, %d heads, bf16", on_gpu ? 16 : 2)
load 'plots/memory.gp'
