# 16_flash_fp8.gp - speed, memory and error of problem 16. Drawn by plot.sh.
load 'plots/common.gp'

x_column = "Nq"
x_title = "sequence length N"

chart_title = "16 flash fp8: causal, D = 128, 16 heads, 16384 tokens in a batch, e4m3"
where = "D=128,Hq=16,causal=1"
y_column = "tflops"
y_factor = 1
y_title = "TFLOP/s of visible pairs, higher is better"
roof_name = "roof_gemm"
roof_title = "cuBLAS in bf16: %.0f TFLOP/s"
room = 1.6
bf16_is = "10, in bf16"
load 'plots/speed.gp'

on_gpu = count(memory_data, "", "B=1,Hq=16,D=64") > 1
where = on_gpu ? "B=1,Hq=16,D=64" : "B=1,Hq=2,D=64"
chart_title = sprintf("16 flash fp8: D = 64, %s of K and V, e4m3", on_gpu ? "16 heads over 2" : "2 heads over 1")
fit_from = 256
load 'plots/memory.gp'

# What reference/peers.py errors has: the relative error of O against the number of keys.
if (exists("error_data") && error_data ne "") {
    set title "16 flash fp8: error of O in e4m3, 192 queries of one head, D = 128" \
        .source_line(error_source).unit_line("relative error")
    set xlabel "keys"
    set ylabel "relative error of O, lower is better"
    set logscale y 10
    set yrange [1e-3:0.5]
    set format y "%g"
    set ytics autofreq
    set offsets graph 0.03, graph 0.03, 0, 0
    set bmargin 10
    set key at screen 0.5, screen 0.02 bottom center vertical maxrows 5 Left reverse samplen 4 width 1 height 1
    eval output_to("errors")
    if (term eq "dumb") { set bmargin 8; set key vertical maxrows 9 }
    plot rows(error_data, "one_level", "input=mean_one") using (column("Nk")):(column("error")) \
        with linespoints linestyle 1 title "V of mean 1, one level", \
         rows(error_data, "two_levels", "input=mean_one") using (column("Nk")):(column("error")) \
             with linespoints linestyle 3 title "V of mean 1, two levels", \
         rows(error_data, "two_levels", "input=outliers") using (column("Nk")):(column("error")) \
             with linespoints linestyle 7 title "outliers", \
         rows(error_data, "hadamard", "input=outliers") using (column("Nk")):(column("error")) \
             with linespoints linestyle 8 title "outliers, Hadamard", \
         rows(error_data, "hadamard", "input=column") using (column("Nk")):(column("error")) \
             with linespoints linestyle 19 title "large column of K, Hadamard", \
         rows(error_data, "two_levels", "input=normal") using (column("Nk")):(column("error")) \
             with linespoints linestyle 6 title "standard normal", \
         for [peer in has(error_data, "fa3", "input=outliers")] rows(error_data, peer, "input=mean_one") \
             using (column("Nk")):(column("error")) with linespoints linestyle 5 \
             title "V of mean 1, FlashAttention-3", \
         for [peer in has(error_data, "fa3", "input=outliers")] rows(error_data, peer, "input=outliers") \
             using (column("Nk")):(column("error")) with linespoints linestyle 21 \
             title "outliers, FlashAttention-3", \
         for [peer in has(error_data, "cudnn", "input=outliers")] rows(error_data, peer, "input=normal") \
             using (column("Nk")):(column("error")) with linespoints linestyle 22 title "standard normal, cuDNN", \
         rows(error_data, "bf16", "input=normal") using (column("Nk")):(column("error")) \
             with linespoints linestyle 23 title "standard normal, in bf16"
    unset output
}
