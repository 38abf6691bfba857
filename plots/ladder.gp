# ladder.gp - the ladder of problems/ladder.md: a step a row, TFLOP/s from left to right, and other libraries as lines.
#   gnuplot -e "term='svg'; out='plots/ladder'" plots/ladder.gp     from plots/data/h100/ladder.tsv
if (!exists("table")) table = 'plots/data/h100/ladder.tsv'
speed_data = ''; memory_data = ''; peer_data = ''
load 'plots/common.gp'

said(name) = system(sprintf("sed -n 's/^# %s: //p' '%s'", name, table))
# Of the steps, in their order, or of other libraries: number, name, TFLOP/s.
rows(D, mask) = sprintf("< awk -F'\\t' '/^#/ { next } $1 == \"step\" { print; next } !($1 in n) { n[$1] = ++steps } " \
    ."$2 == %d && $3 == \"%s\" && $1 !~ /^(fa|cudnn)/ { print n[$1] \"\\t\" $1 \"\\t\" $5 }' '%s'", D, mask, table)
peer(name) = real("0".system(sprintf("awk -F'\\t' '$1 == \"%s\" && $2 == 128 && $3 == \"full\" " \
    ."{ printf \"%%.1f\", $5 }' '%s'", name, table)))  # with a point: gnuplot reads 0360 as octal

where = sprintf("%s, %s, commit %s", said("gpu"), said("date"), said("commit"))
set title "Attention forward, 4 x 16 heads, N = 4096, bf16: TFLOP/s".source_line(where)
unset logscale x
set logscale x 10
set xrange [2.5:6500]
set format x "%g"
set xtics (3, 10, 30, 100, 300, 1000)
set yrange [13.7:0.3]
set ytics ("1  one thread per query" 1, "2  one warp per query" 2, "3  keys in shared memory" 3, \
    "4  tiles in registers" 4, "5  tensor cores" 5, "6  padding" 6, "7  two buffers" 7, \
    "8  lazy maximum" 8, "9  TMA and wgmma" 9, "10  overlap" 10, "11  ping-pong order" 11, \
    "12  order of blocks" 12, "13  persistent blocks" 13)
set lmargin 26
set rmargin 3
set bmargin 6
set offsets 0, 0, 0, 0
set key bmargin center horizontal maxrows 2
top = real(word(said("roof"), 1))
set arrow 1 from top, graph 0 to top, graph 1 nohead linestyle 4
set label 1 sprintf("roof, %.0f", top) at top, 0.75 left offset 0.4, 0 font ",11"
n = 1
do for [name in "fa2 cudnn fa3 fa4"] {
    n = n + 1
    at = peer(name)
    if (at > 0) {
        set arrow n from at, graph 0 to at, graph 1 nohead linestyle style_of(name)
        set label n sprintf("%s, %.0f", name_of(name), at) at top, n + 0.2 left offset 0.4, 0 \
            textcolor linestyle style_of(name) font ",11"
    }
}
if (term eq "dumb") { unset output } else { set output out.".".term }
plot rows(128, "full") using 3:1 with linespoints linestyle 3 title "D = 128, full", \
     rows(128, "causal") using 3:1 with points linestyle 8 pointtype 2 pointsize 1.1 title "the same, causal", \
     rows(64, "full") using 3:1 with linespoints linestyle 1 title "D = 64, full", \
     rows(64, "causal") using 3:1 with points linestyle 19 title "the same, causal"
unset output
