# 05_flash_gqa.gp - speed and memory of problem 05. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "05 flash gqa: causal, D = 128, 16 heads over 2 of K and V, 16384 tokens in a batch, bf16"
where = "D=128,Hq=16,Hkv=2"
load 'plots/speed.gp'

where = among("B=1,Hq=16,D=16", "B=1,Hq=2,D=16")
chart_title = sprintf("05 flash gqa: D = 16, %s of K and V, bf16", on_gpu ? "16 heads over 2" : "2 heads over 1")
load 'plots/memory.gp'
