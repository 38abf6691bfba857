# 08_flash_gqa_backward.gp - speed and memory of problem 08. Drawn by plot.sh.
load 'plots/common.gp'

chart_title = "08 flash gqa backward: causal, D = 128, 16 heads, 16384 tokens in a batch, bf16"
where = "D=128,Hq=16,Hkv=16"
y_title = "TFLOP/s of 5 matrix products, higher is better"
load 'plots/speed.gp'

# What needs a workspace is for D = 64 and 128; older tables have D = 16 alone.
D = count(memory_data, "", "B=1,Nq=1024,D=64") > 0 ? 64 : 16
on_gpu = count(memory_data, "", sprintf("B=1,Hq=16,Hkv=8,D=%d", D)) > 1
where = sprintf(on_gpu ? "B=1,Hq=16,Hkv=8,D=%d" : "B=1,Hq=2,D=%d", D)
chart_title = sprintf("08 flash gqa backward: D = %d, %s of K and V, bf16", D, on_gpu ? "16 heads over 8" \
    : "2 heads over 1")
load 'plots/memory.gp'
