# roofline.gp - the rate of each problem's main shape against its arithmetic intensity, under the roofs of the GPU.
# Drawn by plot.sh, which sets, besides term and out: chart_data (by roofline.awk), source, and the roofs
# peak_tflops, mma_tflops (0: not known) and peak_gbps.
cell(k, name) = system(sprintf("awk -F'\\t' '/^#/ { next }" \
                               ." $1 == \"problem\" { for (i = 1; i <= NF; i++) at[$i] = i; next }" \
                               ." ++n == %d { print $at[\"%s\"] }' '%s'", \
                               k, name, chart_data))
lines = int(system(sprintf("grep -c '^[0-9]' '%s'", chart_data)))
lowest = real(system(sprintf("awk -F'\\t' '/^[0-9]/ && (!n++ || $11 < y) { y = $11 } END { print y }' '%s'", \
    chart_data)))
extra_lines = lines + 1
speed_data = ''; memory_data = ''; peer_data = ''
load 'plots/common.gp'
set datafile missing "-"

has_e4m3 = int(system(sprintf("grep -c '^16' '%s'", chart_data)))  # its products take half as long
has_ring = int(system(sprintf("grep -c '^1[78]' '%s'", chart_data)))
x_from = 0.3; x_to = has_ring ? 300000.0 : 30000.0
y_from = lowest / 2 < 1 ? lowest / 2 : 1; y_to = (has_e4m3 ? 4 : 2.2) * peak_tflops
memory_roof(x) = 1e-3 * peak_gbps * x
ridge = 1e3 * peak_tflops / peak_gbps

set title "Roofline: which roofline limits each problem, and how close it comes".source_line(source)
set xlabel "FLOPs per byte, with each input read once and each output written once"
set ylabel "TFLOP/s"
set logscale x 10
set logscale y 10
set xrange [x_from:x_to]
set yrange [y_from:y_to]
set xtics 10
set ytics 10
set format x "%g"
set format y "%g"
set offsets 0, 0, 0, 0
set samples 500

# Where things stand, as parts of the picture: the chart, its key, and the lines of text below.
line_height = term eq "dumb" ? 1.0 : 19.0
all = term eq "dumb" ? 30.0 + extra_lines : 1.0 * chart_height
left = 0.09; right = 0.975
high = 1 - (term eq "dumb" ? 4 : 70) / all
low = 1 - (term eq "dumb" ? 24 : 415) / all
set lmargin at screen left
set rmargin at screen right
set bmargin at screen low
set tmargin at screen high
set key center at screen 0.53, screen 1 - (term eq "dumb" ? 28 : 490) / all horizontal maxrows 1
text_line(k) = 1 - (term eq "dumb" ? 29 : 515) / all - k * line_height / all

# The names of the roofs; the memory's climbs with its line.
memory_name = sprintf("device memory: %.3g TB/s", 1e-3 * peak_gbps)
if (term eq "dumb") {
    set label 1 memory_name at 20.0, memory_roof(20.0) right offset -3, 0
} else {
    slope = atan((high - low) * all / log10(y_to / y_from) / ((right - left) * 840 / log10(x_to / x_from))) * 180 / pi
    set label 1 memory_name at 10.0, memory_roof(10.0 * 10**0.17) center rotate by int(slope + 0.5)
}
set label 2 sprintf("bf16 products: %.0f TFLOP/s", peak_tflops) at x_to, peak_tflops right offset -0.5, 0.6
has_mma = mma_tflops > 0 && mma_tflops < 0.99 * peak_tflops
# right of the points
if (has_mma) { set label 3 sprintf("mma.sync: %.0f", mma_tflops) at 30 * ridge, mma_tflops left offset 0, \
    0.4 font ",11" }
if (has_e4m3) { set label 4 sprintf("e4m3 products: %.0f TFLOP/s", 2 * peak_tflops) at x_to, \
    2 * peak_tflops right offset -0.5, 0.6 }

# The lines of text: what the numbers on the chart stand for.
any(name) = int(system(sprintf("awk -F'\\t' '/^[0-9]/ && $%d != \"-\" { n++ } END { print n + 0 }' '%s'", \
    name eq "key" ? 6 : 8, chart_data))) > 0
impls = (any("key") ? "key " : "").(any("yours") ? "yours" : "")
small = term eq "dumb" ? "" : ",11"
grey = "#606060"
rate(k, name) = cell(k, name) eq "-" ? "-" : sprintf("%s  (%s%%)", cell(k, name), cell(k, name."_percent"))
column_at(name) = name eq "key" ? 0.84 : 0.97
set label 10 "main shape" at screen 0.38, screen text_line(0) font small textcolor rgb grey
do for [impl in impls] {
    set label impl eq "key" ? 11 : 12 (impl eq "key" ? "key: TFLOP/s (of its roof)" \
        : "yours") at screen column_at(impl), screen text_line(0) right font small textcolor rgb grey
}
do for [k = 1:lines] {
    set label 20 + k cell(k, "problem")."  ".cell(k, "name") at screen 0.09, screen text_line(k) font small noenhanced
    set label 40 + k cell(k, "shape") at screen 0.38, screen text_line(k) font small
    do for [impl in impls] {
        set label (impl eq "key" ? 60 : 80) + k rate(k, impl) at screen column_at(impl), \
            screen text_line(k) right font small \
            textcolor rgb (impl eq "key" ? key_color : yours_color)
    }
}

eval output_to("chart")
plot (x < ridge ? memory_roof(x) : peak_tflops) with lines linestyle 4 linewidth 2 notitle, \
     (has_e4m3 && x > ridge ? (x < 2 * ridge ? memory_roof(x) : 2 * peak_tflops) : NaN) \
         with lines linestyle 4 linewidth 1 notitle, \
     (has_mma && memory_roof(x) > mma_tflops ? mma_tflops : NaN) \
         with lines linestyle 9 linecolor rgb "#909090" dashtype (2,4) notitle, \
     for [impl in impls] chart_data \
         using (column("intensity")):(column(impl)):(column("label_x") - column("intensity")): \
         (1.25 * column("label_y") - column(impl)) with vectors nohead linewidth 0.8 linecolor rgb "#909090" notitle, \
     for [impl in impls] chart_data using (column("intensity")):(column(impl)) with points linestyle style_of(impl) \
         title name_of(impl), \
     chart_data using (column("label_x")):(column("label_y")):(strcol("problem")) with labels notitle
unset output
