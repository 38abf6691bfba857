# 13_flash_decode.gp - speed and memory of problem 13. Drawn by plot.sh.
load 'plots/common.gp'

x_column = "Nk"
x_title = "keys of each sequence"

chart_title = "13 flash decode: 32 sequences, 64 heads over 8 of K and V, D = 128, pages of 64"
where = "B=32,Hq=64,Nq=1,D=128,page=64,lens=same"
y_column = "gbps"
y_title = "GB/s, the cache read once, higher is better"
roof_name = "roof_copy"
roof_title = "copy in device memory: %.0f GB/s"
load 'plots/speed.gp'

where = among(where, "B=4,Hq=8,Nq=1,D=64,page=64,lens=same")
chart_title = on_gpu ? chart_title : "13 flash decode: 4 sequences, 8 heads over 2 of K and V, D = 64"
fit_from = on_gpu ? 2048 : 512
load 'plots/memory.gp'
