# memory.gp - draws a memory chart on two logarithmic axes, if memory_data is given: memory that grows like N^k is a straight line
# of slope k, fitted and printed in the key. Set before: chart_title, where, x_column, x_title, fit_from (the N that a fit starts at).

if (memory_data ne "") {
    impls = present(memory_data, where)
    set title chart_title.source_line(memory_source).unit_line("peak memory, inputs and outputs included")
    set xlabel x_title
    set ylabel "peak memory, inputs and outputs included"
    set logscale y 2
    set yrange [*:*]
    set ytics ("1 KiB" 2**10)
    do for [k = 12:40:2] { set ytics add (sprintf("%d %s", 2**(k % 10), word("KiB MiB GiB TiB", k / 10)) 2**k) }
    set fit quiet nolog
    array slope[29]
    do for [impl in impls] {
        power = 1.5
        intercept = 5
        fit intercept + power * x rows(memory_data, impl, where) \
            using (column(x_column) >= fit_from ? log(column(x_column)) : NaN):(log(column("peak_bytes"))) via power, intercept
        slope[style_of(impl)] = power
    }
    if (words(impls) > 2) { set bmargin 7.2; set key maxrows 2 }  # a second line of names
    eval output_to("memory")
    legend = term eq "dumb" ? "%s: like N^%.2f" : "%s ∝ N^{%.2f}"
    plot for [impl in impls] rows(memory_data, impl, where) using (column(x_column)):(column("peak_bytes")) \
             with linespoints linestyle style_of(impl) title sprintf(legend, name_of(impl), slope[style_of(impl)])
    unset output
}
