# time.gp - draws a chart of times on two logarithmic axes, if speed_data is given: time that grows like N^k is a
# straight line of slope k, fitted and printed in the key. Set before: chart_title, where, x_column, x_title,
# time_fit_from (the N that a fit starts at), peers_where as for speed.gp.

if (speed_data ne "") {
    peers = peer_data eq "" || term eq "dumb" ? "" : present(peer_data, peers_where.where)
    impls = present(speed_data, where)  # last: present() names the variants, which have their styles by it
    set title chart_title.source_line(speed_source).unit_line("milliseconds, lower is better")
    set xlabel x_title
    set ylabel "milliseconds, lower is better"
    set logscale y 10
    set yrange [*:*]
    set format y "%g"
    set ytics autofreq
    set fit quiet nolog
    array slope[29]
    do for [impl in impls] {
        power = 1.5
        intercept = -5
        fit intercept + power * x rows(speed_data, impl, where) \
            using (column(x_column) >= time_fit_from ? log(column(x_column)) : NaN):(log(column("ms"))) via power, \
                intercept
        slope[style_of(impl)] = power
    }
    if (words(impls.peers) > 3) { set bmargin 7.2; set key maxrows 2 }  # a second line of names
    if (words(impls.peers) > 6) { set bmargin 9 }
    eval output_to("time")
    if (term eq "dumb") { set bmargin words(impls) + 5; set key vertical maxrows 9 }
    legend = term eq "dumb" ? "%s: like N^%.2f" : "%s ∝ N^{%.2f}"
    plot for [impl in term eq "dumb" ? "" : impls] rows(speed_data, impl, where) \
        using (column(x_column)):(column("ms")):(column("ms_p10")):(column("ms_p90")) \
             with yerrorbars linestyle 10 + style_of(impl) notitle, \
         for [impl in impls] rows(speed_data, impl, where) using (column(x_column)):(column("ms")) \
             with linespoints linestyle style_of(impl) title sprintf(legend, name_of(impl), slope[style_of(impl)]), \
         for [impl in peers] rows(peer_data, impl, peers_where.where) using (column(x_column)):(column("ms")) \
             with linespoints linestyle style_of(impl) title name_of(impl)
    unset output
    set bmargin 5.5
    set key horizontal maxrows 1
}
