# errors_fp8.gp - draws what reference/peers_fp8.py has of problem 16 and of others, if error_data is given: the
# relative error of O against the number of keys.

if (exists("error_data") && error_data ne "") {
    set title "16 flash fp8: how far O in e4m3 is off, 192 queries of one head, D = 128".source_line(error_source).unit_line("relative error")
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
    plot rows(error_data, "one_level", "input=mean_one") using (column("Nk")):(column("error")) with linespoints linestyle 1 title "V of mean 1, one level", \
         rows(error_data, "two_levels", "input=mean_one") using (column("Nk")):(column("error")) with linespoints linestyle 3 title "V of mean 1, two levels", \
         rows(error_data, "two_levels", "input=outliers") using (column("Nk")):(column("error")) with linespoints linestyle 7 title "outliers", \
         rows(error_data, "hadamard", "input=outliers") using (column("Nk")):(column("error")) with linespoints linestyle 8 title "outliers, Hadamard", \
         rows(error_data, "hadamard", "input=column") using (column("Nk")):(column("error")) with linespoints linestyle 19 title "large column of K, Hadamard", \
         rows(error_data, "two_levels", "input=normal") using (column("Nk")):(column("error")) with linespoints linestyle 6 title "standard normal", \
         for [peer in has(error_data, "fa3", "input=outliers")] rows(error_data, peer, "input=mean_one") using (column("Nk")):(column("error")) with linespoints linestyle 5 title "V of mean 1, FlashAttention-3", \
         for [peer in has(error_data, "fa3", "input=outliers")] rows(error_data, peer, "input=outliers") using (column("Nk")):(column("error")) with linespoints linestyle 21 title "outliers, FlashAttention-3", \
         for [peer in has(error_data, "cudnn", "input=outliers")] rows(error_data, peer, "input=normal") using (column("Nk")):(column("error")) with linespoints linestyle 22 title "standard normal, cuDNN", \
         rows(error_data, "bf16", "input=normal") using (column("Nk")):(column("error")) with linespoints linestyle 23 title "standard normal, in bf16"
    unset output
}
