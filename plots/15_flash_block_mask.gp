# 15_flash_block_mask.gp - speed and memory of problem 15. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "15 flash block mask: packed documents, 1024 tokens on average, D = 128, 16 heads"
where = "D=128,Hq=16,B=4,mask=documents/1024,q_tile=128"
load 'plots/speed.gp'

where = among("B=1,Hq=16,D=16", "B=1,Hq=2,D=16")
chart_title = sprintf("15 flash block mask: packed documents, D = 16, %s of K and V, bf16", on_gpu \
    ? "16 heads over 2" : "2 heads over 1")
load 'plots/memory.gp'
