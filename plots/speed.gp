# speed.gp - draws a speed chart, if speed_data is given. Set before: chart_title, where (the shapes), x_column,
# x_title, y_column, y_factor and y_title, roof_name and roof_title, room above it if it is no roof of this problem's;
# peers_where, which rows of peer_data are of this problem; names_at_ends, and not below; speed_kind, the second word
# of a second chart's name. (gnuplot puts @peer_lines into a block before it runs the block: hence its place.)

peers = speed_data eq "" || peer_data eq "" || term eq "dumb" ? "" : present(peer_data, peers_where.where)
peer_lines = peers eq "" ? "" : "for [impl in peers] rows(peer_data, impl, peers_where.where) using " \
    ."(column(x_column)):(rate(column(y_column))) with linespoints linestyle style_of(impl) title name_of(impl),"

if (speed_data ne "") {
    impls = present(speed_data, where)
    ceiling = y_factor * roof(speed_data, roof_name, y_column)
    rate(x) = y_factor * x
    set title chart_title.source_line(speed_source).unit_line(y_title)
    set xlabel x_title
    set ylabel y_title
    unset logscale y
    set format y "%g"
    set ytics autofreq
    set yrange [0:*]
    if (!exists("room")) { room = 1.15 }  # above the roof: times it
    if (ceiling > 0) { set yrange [0:(room*ceiling)] }
    if (ceiling > 0 && term ne "dumb") {
        # on the left lines are low
        set label 1 sprintf(roof_title, ceiling) at graph 0.02, first ceiling left offset 0, 0.6
    }
    if (words(impls.peers) > 3) { set bmargin 7.2; set key maxrows 2 }  # a second line of names
    if (words(impls.peers) > 6) { set bmargin 9 }
    # Many lines end close together: each is named there, behind its point, and not below.
    ends = ""
    if ((words(impls.peers) > 6 || exists("names_at_ends")) && term ne "dumb") {
        if (ceiling > 0) { top = room * ceiling } else { stats rows(speed_data, "", where) \
            using (rate(column(y_column))) nooutput; top = STATS_max }
        table(file, impl, where) = sprintf( \
            "echo '# %s'; awk -f plots/series.awk -v impl='%s' -v where='%s' '%s'; ", impl, impl, where, file)
        tables = ""
        do for [impl in impls] { tables = tables.table(speed_data, impl, where) }
        do for [impl in peers] { tables = tables.table(peer_data, impl, peers_where.where) }
        ends = system(sprintf("{ %s } | awk -f plots/ends.awk -v x=%s -v y=%s -v factor=%g -v least=%g", tables, \
            x_column, y_column, y_factor, 0.04 * top))
        do for [i = 1:words(ends) / 3] {
            name = word(ends, 3 * i - 2)
            set label 100 + i name_of(name) at first real(word(ends, 3 * i - 1)), \
                first real(word(ends, 3 * i)) left offset 1, 0 \
                textcolor linestyle style_of(name) font ",11" point linestyle style_of(name)
        }
        set rmargin 25
        set key off
        set bmargin 5.5
        set offsets 0, 0, 0, 0
    }
    eval output_to(exists("speed_kind") ? speed_kind : "speed")
    if (term eq "dumb") { set bmargin words(impls) + 5; set key vertical maxrows 9 }
    # A rate's spread comes from the time's: its low end is the slow 90th percentile.
    plot for [impl in term eq "dumb" ? "" : impls] rows(speed_data, impl, where) \
             using (column(x_column)):(rate(column(y_column))):\
             (rate(column(y_column)) * column("ms") / column("ms_p90")): \
             (rate(column(y_column)) * column("ms") / column("ms_p10")) \
             with yerrorbars linestyle 10 + style_of(impl) notitle, \
         for [impl in impls] rows(speed_data, impl, where) using (column(x_column)):(rate(column(y_column))) \
             with linespoints linestyle style_of(impl) title name_of(impl), \
         @peer_lines \
         (ceiling > 0 ? ceiling : NaN) with lines linestyle 4 \
             title (ceiling > 0 && term eq "dumb" ? sprintf(roof_title, ceiling) : "")
    unset output
    unset label
    set rmargin -1
    set key on
    set offsets graph 0.03, graph 0.03, 0, 0
    set bmargin 5.5
    set key horizontal maxrows 1
}
