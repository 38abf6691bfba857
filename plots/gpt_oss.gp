# gpt_oss.gp - losses of training gpt-oss with the workbook's attention and with eager, and how far both are from eager
# in float32. Drawn by plot.sh, which sets, besides term and out, chart_data (a table of reference/gpt_oss.py) and
# source.
speed_data = ''; memory_data = ''; peer_data = ''
load 'plots/common.gp'
unset logscale x

# Rows of one loss, beside them the loss in float32 at the same step.
losses(impl) = sprintf("< awk -F'\\t' 'BEGIN { print \"step\\tloss\\ttruth\" } $1 == \"loss\" {" \
                       ." if ($2 == \"float32\") t[$3] = $4; " \
                       ."if ($2 == \"%s\") print $3 \"\\t\" $4 \"\\t\" t[$3] }' '%s'", impl, chart_data)
ours = system(sprintf("awk -F'\t' '$1 == \"loss\" && $2 ~ /^(key|yours)$/ { print $2; exit }' '%s'", chart_data))
line_of(impl) = impl eq "float32" ? 5 : impl eq "eager" ? 1 : style_of(impl)
title_of(impl) = impl eq "float32" ? "eager, float32" : (impl eq "key" ? "reference solutions" : impl).", bf16"
impls = "float32 eager ".ours

set xtics 0, 5
set xrange [0:*]
set key maxrows 3
eval output_to("loss")
if (term eq "dumb") {
    set title "Your kernel, inside gpt-oss: loss of 20 steps of AdamW".source_line(source)
    plot for [impl in impls] losses(impl) using 1:2 with linespoints linestyle line_of(impl) title title_of(impl)
} else {
    set multiplot
    set lmargin at screen 0.1
    set title "Your kernel inside gpt-oss: 20 steps of AdamW on the workbook's lessons".source_line(source)
    set size 1, 0.54
    set origin 0, 0.46
    set bmargin 0.5
    unset key
    set format x ""
    set ylabel "loss, nats per byte"
    plot for [impl in impls] losses(impl) using 1:2 with linespoints linestyle line_of(impl) notitle
    set size 1, 0.46
    set origin 0, 0
    set bmargin 5.5
    set tmargin 0.5
    unset title
    set key bmargin center horizontal maxrows 1
    set format x "%.0f"
    set xlabel "step" offset 0, 0.5
    set ylabel "from float32, 10^{-3}"
    plot for [impl in impls] losses(impl) using 1:(1000 * ($2 - $3)) with linespoints linestyle line_of(impl) \
        title title_of(impl)
    unset multiplot
}
unset output
