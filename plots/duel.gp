# duel.gp - how far ahead or behind the library is in shapes drawn by chance: the ratios sorted, a line a kind; and
# each against its work. Drawn by duel.sh, which sets, besides term and out, chart_data (tables of reference/duel.py)
# and source.
speed_data = ''; memory_data = ''; peer_data = ''
load 'plots/common.gp'

# Of a kind: share of its shapes, GFLOP, ratio, in order.
points(kind) = sprintf("< awk -F'\\t' -v kind=%s '$1 == \"kind\" { for (i = 1; i <= NF; i++) at[$i] = i } " \
    ."$1 == kind && $at[\"ratio\"] != \"-\" { print $at[\"ratio\"] \"\\t\" $at[\"gflop\"] }' %s | sort -n | " \
    ."awk -F'\\t' '{ line[NR] = $2 \"\\t\" $1 } END { print \"share\\tgflop\\tratio\"; for (i = 1; i <= NR; i++) print 100 * (i - 0.5) / NR \"\\t\" line[i] }'", kind, chart_data)
kinds = system(sprintf("awk -F'\t' '$1 == \"kind\" { for (i = 1; i <= NF; i++) at[$i] = i; next } !/^#/ && $at[\"ratio\"] != \"-\" { seen[$1] } " \
    ."END { n = split(\"forward backward same_bits window_forward window_backward sinks_forward sinks_backward logits_forward logits_backward " \
    ."decode int8 mask\", k, \" \"); for (i = 1; i <= n; i++) if (k[i] in seen) printf \"%%s \", k[i] }' %s", chart_data))
styles = "3 20 2 8 19 23 1 7 5 21 6 22"
style(k) = int(word(styles, k))
ours = "best other / ours: above 1 the library is ahead"

unset logscale x
set logscale y 2
set format y "%g"
set ytics 2
set ylabel ours
set key horizontal maxrows 4
set bmargin 10
set xrange [0:100]
set xtics 10
set xlabel "shapes of a kind, %, the worst first"
set title "Shapes drawn by chance: the library beside the fastest other".source_line(source).unit_line(ours)
eval output_to("sorted")
plot 1 with lines linestyle 4 notitle, for [k = 1:words(kinds)] points(word(kinds, k)) using 1:3 with lines linestyle style(k) title spaced(word(kinds, k))
unset output

set xrange [*:*]
set logscale x 10
set xtics autofreq
set format x "10^{%L}"
set xlabel "work, 10^9 floating-point operations"
set title "The same, against the work of a shape".source_line(source).unit_line(ours)
eval output_to("work")
plot 1 with lines linestyle 4 notitle, for [k = 1:words(kinds)] points(word(kinds, k)) using 2:3 with points linestyle style(k) title spaced(word(kinds, k))
unset output
