# 10_flash_hopper.gp - speed and memory of problem 10. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "10 flash hopper: causal, D = 128, 16 heads, 16384 tokens in a batch, bf16"
where = "D=128,Hq=16,causal=1"
load 'plots/speed.gp'

where = among("B=1,Hq=16,D=64", "B=1,Hq=2,D=64")
chart_title = sprintf("10 flash hopper: D = 64, %s of K and V, bf16", on_gpu ? "16 heads over 2" : "2 heads over 1")
load 'plots/memory.gp'
