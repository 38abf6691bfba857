# 04_flash_causal.gp - speed and memory of problem 04. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "04 flash causal: D = 128, 16 heads, 16384 tokens in a batch, bf16"
where = "D=128,Hq=16"
load 'plots/speed.gp'

heads = count(memory_data, "", "B=1,Hq=16,D=16") > 1 ? 16 : 2  # on a GPU, on the CPU layer
where = sprintf("B=1,Hq=%d,D=16", heads)
chart_title = sprintf("04 flash causal: D = 16, %d heads, bf16", heads)
load 'plots/memory.gp'
