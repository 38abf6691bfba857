# duel.gp - how far ahead or behind the library is in shapes drawn by chance, a panel a kind: the ratios sorted; each
# against its work; and what was predicted of each kernel (workbook/predict.h), a dot a shape and kernel. Drawn by
# plot.sh, which sets, besides term and out, chart_data (tables of reference/duel.py) and source.
speed_data = ''; memory_data = ''; peer_data = ''
load 'plots/common.gp'

kinds = system(sprintf("awk -F'\t' '$1 == \"kind\" { for (i = 1; i <= NF; i++) at[$i] = i; next } " \
    ."!/^#/ && $at[\"ratio\"] != \"-\" { seen[$1] } " \
    ."END { n = split(\"forward backward same_bits window_forward window_backward sinks_forward" \
    ." sinks_backward logits_forward logits_backward decode int8 mask\", k, \" \");" \
    ." for (i = 1; i <= n; i++) if (k[i] in seen) printf \"%%s \", k[i] }' %s", \
        chart_data))
# Of a kind: share of its shapes, work, ratio, in order.
points(kind) = sprintf("< awk -F'\\t' -v kind=%s '$1 == \"kind\" { for (i = 1; i <= NF; i++) at[$i] = i } " \
    ."$1 == kind && $at[\"ratio\"] != \"-\" { print $at[\"ratio\"] \"\\t\" $at[\"gflop\"] }' %s | sort -n | " \
    ."awk -F'\\t' '{ line[NR] = $2 \"\\t\" $1 } END { print \"share\\tgflop\\tratio\"" \
    ."; for (i = 1; i <= NR; i++) print 100 * (i - 0.5) / NR \"\\t\" line[i] }'", kind, chart_data)
# How many lie beyond the panel, and which is the farthest.
beyond(kind, sign) = system(points(kind)[3:]." | awk -v sign=".sign." 'NR > 1 && sign * log($3) > log(2)" \
    ." { n++; if (sign * $3 > sign * x || !x) x = $3 } " \
    ."END { if (n) printf \"; %d beyond, to %.3g\", n, x }'")

within(x) = x > 2 ? 2 : x < 0.5 ? 0.5 : x

unset key
unset logscale x
set offsets 0, 0, 0, 0
set logscale y 2
set yrange [0.48:2.1]
set ytics ("0.5" 0.5, "0.7" 0.7, "1" 1, "1.4" 1.4, "2" 2)
set xrange [0:100]
set xtics 0, 25
set tmargin 1.5
set bmargin 2
rows = words(kinds) ? (words(kinds) + 2) / 3 : 4
if (term eq "svg") { set terminal svg size 840,90+180*rows dynamic font "DejaVu Sans,12" background rgb "white" }
if (term eq "png") { set terminal pngcairo size 1260,1.5*(90+180*rows) font "DejaVu Sans,12" fontscale 1.3 \
    linewidth 1.5 background rgb "white" }

do for [chart in "sorted work"] {
    eval output_to(chart)
    if (chart eq "work") { set logscale x 10; set xrange [1e-2:1e5]; set xtics 1e-2, 100; set format x "10^{%L}" }
    heading = chart eq "work" \
        ? "Fastest other / ours, above 1 ours is faster; against the work of a shape, 10^9 operations" \
                              : "Fastest other / ours, above 1 ours is faster; random shapes, %, the worst first"
    if (term ne "dumb") { set multiplot layout rows,3 title heading.source_line(source)."\n" }
    do for [kind in kinds] {
        set title spaced(kind).beyond(kind, "1").beyond(kind, "-1") offset 0,-0.7
        plot 1 with lines linestyle 4, points(kind) using (column(chart eq "work" ? 2 : 1)):(within(column(3))) \
            with points linestyle 3
    }
    if (term ne "dumb") { unset multiplot }
    unset output
}

# Of a kind: microseconds, and predicted, of each kernel in each shape.
dots(kind) = sprintf("< awk -F'\\t' -v kind=%s '" \
    ."$1 == \"kind\" { split(\"\", at); for (i = 1; i <= NF; i++) at[$i] = i } " \
    ."$1 == kind && at[\"predicted\"] { n = split($at[\"all\"], a, \",\"); split($at[\"predicted\"], p, \",\"); " \
    ."for (i = 1; i <= n; i++) { sub(/.*:/, \"\", a[i]); sub(/.*:/, \"\", p[i]); " \
    ."print 1000 * a[i] \"\\t\" p[i] } }' %s", kind, chart_data)
predicted = system(sprintf("awk -F'\t' '/\tpredicted/ { p = 1 } " \
    ."!/^#/ && p && $1 != \"kind\" && !seen[$1]++ { printf \"%%s \", $1 }' %s", chart_data))
if (words(predicted) > 0) {
    eval output_to("predicted")
    set logscale x 10
    set xrange [1:1e6]
    set xtics 1, 100
    set format x "10^{%L}"
    heading = "Predicted / measured, against microseconds measured".source_line(source)."\n"
    if (term ne "dumb") { set multiplot layout rows,3 title heading }
    do for [kind in predicted] {
        set title spaced(kind) offset 0,-0.7
        plot 1 with lines linestyle 4, dots(kind) using 1:(within($2 / $1)) with points pointtype 7 pointsize 0.2
    }
    if (term ne "dumb") { unset multiplot }
    unset output
}
