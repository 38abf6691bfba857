# errors.gp - the relative error of O against the number of keys, if error_data is given. Set before: error_title,
# x_title, most, the top of the chart, and error_rows, how many rows its key has; error_lines, a word "impl:input:style"
# a line, which is not drawn if the data have none; titles, an array.
if (exists("error_data") && error_data ne "") {
    set title error_title.source_line(error_source).unit_line("relative error")
    set xlabel x_title
    set ylabel "relative error of O, lower is better"
    set logscale y 10
    set yrange [1e-3:most]
    set format y "%g"
    set ytics autofreq
    set offsets graph 0.03, graph 0.03, 0, 0
    set bmargin error_rows + 5
    set key at screen 0.5, screen 0.02 bottom center vertical maxrows error_rows Left reverse samplen 4 width 1 height 1
    eval output_to("errors")
    if (term eq "dumb") { set bmargin 8; set key vertical maxrows 9 }
    of(line, n) = word(system(sprintf("echo '%s' | tr : ' '", word(error_lines, line))), n)
    there = ""
    do for [i = 1:words(error_lines)] {
        if (count(error_data, of(i, 1), "input=".of(i, 2)) > 0) { there = sprintf("%s %d", there, i) }
    }
    plot for [i in there] rows(error_data, of(int(i), 1), "input=".of(int(i), 2)) \
        using (column("Nk")):(column("error")) with linespoints linestyle int(of(int(i), 3)) title titles[int(i)]
    unset output
}
