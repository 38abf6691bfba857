# timeline.gp - what the units of a Hopper GPU, or the ranks of a ring, do over time: the picture of make timeline-NN,
# drawn by workbook/timeline/timeline.sh. data: its trace events (timeline.awk); out: the SVG.
set datafile separator tab
of(what) = "< awk -v of=".what." -f plots/timeline.awk '".data."'"
say(what) = system("awk -v of=".what." -f plots/timeline.awk '".data."'")
stats of("lanes") using 1 name "lane" nooutput
stats of("bars") using 2 name "time" nooutput
stats of("bars") using 4 name "class" nooutput
ring = system("grep -c '\"rank 0 ' '".data."'") > 0

height = 28 * lane_max + 148
set terminal svg size 1094, height dynamic noenhanced font "DejaVu Sans,11" background rgb "white"
set output out
left = 100.0 / 1094
set margins at screen left, screen 1080.0 / 1094, screen 114.0 / height, screen 1 - 32.0 / height
set label 4 say("title") at screen left, screen 1 - 16.0 / height font ",13"
set border 0
set tics nomirror scale 0
set grid xtics linetype 1 linecolor rgb "#bbbbbb" linewidth .5
set xrange [0:time_max]
set yrange [lane_max + .5:.5]
set format x ring ? "%g ms" : "%g"
set key at screen left, screen 76.0 / height left center horizontal Left reverse samplen 1 maxrows 1 width 1
set style fill solid 1 border rgb "white"
set label 1 ring ? \
    "a number is the rank whose keys a product reads, or whose keys or their gradients come" : \
    "on the tensor cores: the products of warpgroups, K: scores, V: outputs; below, warpgroups at work on scores" \
    at screen left, screen 48.0 / height
set label 2 say("costs") at screen left, screen 30.0 / height textcolor rgb "#606060"
set label 3 say("at") at screen left, screen 14.0 / height textcolor rgb "#606060"
array color[9] = ["#8a8a8a", "#f3d3cf", "#e2786c", "#8a8a8a", "#0b5fa5", "#0b5fa5", "#c8651b", "#2e7d4f", "#7b4fa3"]
if (ring) color[1] = "#c8651b"
means(k) = ring \
    ? (k == 0 ? "messages" : k == 2 ? "a stream waits, or messages for another rank" \
        : k == 3 ? "other kernels, copies" : k == 4 ? "products" : "") \
    : (k == 0 ? "a tile is loaded" : k == 1 ? "waits for a product" : k == 2 ? "waits for something else" : "")
plot of("lanes") using (time_max / 2):1:(0):(time_max):($1 - .4):($1 + .4):ytic(2) \
        with boxxyerror linecolor rgb "#f4f4f4" notitle, \
    for [k = 0:class_max] of("bars") using (($1 + $2) / 2):($4 == k ? $3 : NaN):1:2:($3 - .4):($3 + .4) \
        with boxxyerror linecolor rgb color[k + 1] linewidth .5 title means(k), \
    of("bars") using (($1 + $2) / 2):3:5:($4 == 2 ? 0x202020 : 0xffffff) with labels textcolor rgb variable notitle
