# mask.gp - which query sees which key, and what that makes of each tile: the picture of make mask-NN. data: its rows
# (workbook/mask/mask.c), of one mask or of several; out: the SVG.
set datafile separator tab
line(n, column) = system(sprintf("awk -F'\\t' 'NF == 4 && ++n == %d { print $%d }' '%s'", n, column, data))
rows(n) = sprintf("< awk -F'\\t' 'NF == 4 { n++ } NF == 5 && n == %d' '%s'", n, data)
masks = int(system("awk -F'\\t' 'NF == 4' '".data."' | wc -l"))
across = masks > 1 ? 2 : 1
down = (masks + 1) / 2

set terminal svg size 552 * across, 588 * down dynamic noenhanced font "DejaVu Sans,11" background rgb "white"
set output out
set multiplot layout down, across margins screen 0, 1, 0, 1
set border 15 linecolor rgb "#404040" linewidth .7
set tics scale 0
unset xtics
set x2label "keys" offset 0, -.6
set ylabel "queries" offset 1.5
set grid x2tics ytics front linetype 1 linecolor rgb "#404040" linewidth .7
set style fill solid 1 noborder
array color[3] = ["#e3edf6", "#6ba6d8", "#0b5fa5"]
array means[3] = ["masked away", "visible", "full: no mask"]
do for [n = 1:masks] {
    x = (n - 1) % 2 / real(across)
    y = 1 - (n - 1) / 2 / real(down)
    set lmargin at screen x + 56. / 552 / across
    set rmargin at screen x + 536. / 552 / across
    set tmargin at screen y - 64. / 588 / down
    set bmargin at screen y - 544. / 588 / down
    N = line(n, 2) + 0
    set x2range [0:N]
    set xrange [0:N]
    set yrange [N:0]
    set x2tics line(n, 4) + 0 offset 0, -.4
    set ytics line(n, 3) + 0 offset .6
    set key at screen x + 50. / 552 / across, screen y - 550. / 588 / down left top horizontal Left reverse \
        samplen 1 width 4
    set label 1 line(n, 1) at graph 0, screen y - 18. / 588 / down font ",13"
    plot for [k = 2:0:-1] NaN with boxes linecolor rgb color[k + 1] title means[k + 1], \
        NaN with boxes linecolor rgb "white" fillstyle solid border rgb "#404040" title "skipped: never loaded", \
        for [k = 0:2] rows(n) using (($1 + $2) / 2):($5 == k ? ($3 + $4) / 2 : NaN):1:2:3:4 \
            with boxxyerror linecolor rgb color[k + 1] notitle
}
unset multiplot
