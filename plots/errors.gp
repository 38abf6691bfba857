# errors.gp - draws, if error_data is given, the relative error of O of 14 against the length of the cache.

if (exists("error_data") && error_data ne "") {
    set title "14 flash decode int8: how far O is off, 4 sequences, 8 heads over 2 of K and V, D = 128".source_line(error_source).unit_line("relative error")
    set xlabel "keys of each sequence"
    set ylabel "relative error of O, lower is better"
    set logscale y 10
    set yrange [1e-3:0.2]
    set format y "%g"
    set ytics autofreq
    set offsets graph 0.03, graph 0.03, 0, 0
    set bmargin 9
    set key at screen 0.5, screen 0.02 bottom center vertical maxrows 4 Left reverse samplen 4 width 1 height 1
    eval output_to("errors")
    if (term eq "dumb") { set bmargin 8; set key vertical maxrows 9 }
    plot rows(error_data, "int8", "input=outliers") using (column("Nk")):(column("error")) with linespoints linestyle 1 title "int8, one column 20 times as large", \
         rows(error_data, "int8", "input=normal") using (column("Nk")):(column("error")) with linespoints linestyle 3 title "int8, all columns alike", \
         rows(error_data, "bf16", "input=outliers") using (column("Nk")):(column("error")) with linespoints linestyle 7 title "bf16, one column 20 times as large", \
         rows(error_data, "bf16", "input=normal") using (column("Nk")):(column("error")) with linespoints linestyle 6 title "bf16, all columns alike"
    unset output
}
