# memory.gp - draws a memory chart on two logarithmic axes, if memory_data is given: memory that grows like N^k is a
# straight line of slope k, fitted and printed in the key. beside_title and beside_bytes, an expression of columns: a
# line of what something else would take. What an implementation takes beyond inputs and outputs, its workspace, is a
# thin line by itself. Set before: chart_title, where, x_column, x_title, fit_from (the N that a fit starts at);
# memory_with_peers, if the peers' table has bytes that can be compared; memory_kind, the second word of a second
# chart's name.

# Implementations with a workspace (naive's is nearly all it has); of those that differ by less than 5 % one.
workspaces(file, where) = \
    system(sprintf("awk -f plots/series.awk -v of=workspaces -v impl= -v where='%s' '%s'", where, file))

if (!exists("beside_bytes")) { beside_bytes = "NaN"; beside_title = "" }
# As in speed.gp: what a block is given by @ has to be there before the block.
memory_peers = !exists("memory_with_peers") || peer_data eq "" || memory_data ne speed_data || term eq "dumb" ? "" \
    : present(peer_data, peers_where.where)
memory_peer_lines = memory_peers eq "" ? "" \
    : "for [impl in memory_peers] rows(peer_data, impl, peers_where.where) using " \
    ."(column(x_column)):(column(\"peak_bytes\")) with linespoints linestyle style_of(impl) title name_of(impl),"
if (memory_data ne "") {
    impls = system(sprintf("echo '%s' | sed 's/alone//'", present(memory_data, where)))  # it has times only
    lent = workspaces(memory_data, where)
    set title chart_title.source_line(memory_source).unit_line("peak memory, inputs and outputs included")
    set xlabel x_title
    set ylabel "peak memory, inputs and outputs included"
    array slope[29]
    array slope_of_workspace[29]
    do for [i = 1:29] { slope[i] = NaN; slope_of_workspace[i] = NaN }
    do for [impl in impls] {
        if (count(memory_data, impl, where) > 2) { stats rows(memory_data, impl, where) \
            using (column(x_column) >= fit_from ? log(column(x_column)) \
                : NaN):(log(column("peak_bytes"))) nooutput; slope[style_of(impl)] = STATS_slope }
    }
    do for [impl in lent] {  # which may be the same for every N
        if (count(memory_data, impl, where) > 2) { stats rows(memory_data, impl, where) \
            using (column(x_column) >= fit_from ? log(column(x_column)) \
                : NaN):(log(column("peak_bytes") - column("io_bytes"))) nooutput
            slope_of_workspace[style_of(impl)] = floor(100 * STATS_slope + 0.5) / 100.0 }  # no -0.00
    }
    set logscale y 2
    set yrange [*:*]
    set ytics ("1 KiB" 2**10)
    do for [k = 12:40:2] { set ytics add (sprintf("%d %s", 2**(k % 10), word("KiB MiB GiB TiB", k / 10)) 2**k) }
    if (words(impls) > 2) { set bmargin 7.2; set key maxrows 2 }  # a second line of names
    if (words(lent) > 0 && term ne "dumb") {  # too many for that
        set bmargin 4
        set key top left inside vertical maxrows 9 samplen 3
        names = words(impls.lent.memory_peers)
        set offsets graph 0.03, graph 0.03, graph (0.075 * names > 0.3 ? 0.1 * names : 0.3), graph 0.05
    }
    beside = beside_title ne "" && term ne "dumb" ? word(impls, 1) : ""
    eval output_to(exists("memory_kind") ? memory_kind : "memory")
    if (!exists("letter")) { letter = "N" }  # what stands below
    legend = term eq "dumb" ? "%s: like ".letter."^%.2f" : "%s ∝ ".letter."^{%.2f}"
    growing(name, slope) = slope == slope ? sprintf(legend, name, slope) : name  # two points have none
    plot for [impl in impls] rows(memory_data, impl, where) using (column(x_column)):(column("peak_bytes")) \
             with linespoints linestyle style_of(impl) title growing(name_of(impl), slope[style_of(impl)]), \
         for [impl in lent] rows(memory_data, impl, where) \
             using (column(x_column)):(column("peak_bytes") - column("io_bytes")) \
             with linespoints linestyle style_of(impl) linewidth 1.5 dashtype 3 pointsize 0.5 \
                 title growing("workspace of ".name_of(impl), slope_of_workspace[style_of(impl)]), \
         @memory_peer_lines \
         for [impl in beside] rows(memory_data, impl, where) using (column(x_column)):(@beside_bytes) \
             with linespoints linestyle 6 title beside_title
    unset output
}
