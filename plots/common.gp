# common.gp - the one style of all charts, and the words that the charts are written in. plot.sh sets, with gnuplot -e:
#   term           svg, png or dumb
#   out            start of the output's name: build/plots/03_flash_forward
#   speed_data, speed_source, memory_data, memory_source      a bench TSV, and where it comes from; "" draws no such
#   chart
#   peer_data      reference/peers.py's table of the GPU that speed_data is from, or ""

set encoding utf8
set datafile separator tab
set datafile columnheaders

# -------------------------------------------------------------------------------------------- looks
# Every series differs from every other in dash and point as well as in colour. Styles 11 to 18, 29, 30 and 33 are the
# error bars of 1 to 8, 19, 20 and 23.

naive_color = "#c8500a"
yours_color = "#00805c"
key_color = "#0b5fa5"
variant_color = "#b45cff"
other_color = "#b02a50"
third_color = "#e07aa0"
library_color = "#107a8c"
set style line 1 linecolor rgb naive_color linewidth 2 dashtype (8,4) pointtype 4 pointsize 1.1  # open squares
set style line 2 linecolor rgb yours_color linewidth 2 dashtype (14,4,3,4) pointtype 9 pointsize 1.0  # filled triangles
set style line 3 linecolor rgb key_color linewidth 2 dashtype 1 pointtype 7 pointsize 0.6  # filled circles
set style line 4 linecolor rgb "#202020" linewidth 1.5 dashtype (2,4)  # the roof: dotted, no points
set style line 5 linecolor rgb "#707070" linewidth 1.5 dashtype (3,3) pointtype 8 pointsize 0.9  # open triangles
set style line 6 linecolor rgb "#000000" linewidth 1.5 dashtype (10,3,2,3) pointtype 2 pointsize 0.8  # crosses
set style line 7 linecolor rgb "#a06000" linewidth 1.5 dashtype (5,2) pointtype 12 pointsize 1.0  # open diamonds
set style line 8 linecolor rgb variant_color linewidth 2 dashtype (4,3) pointtype 6 pointsize 0.9  # open circles
# open triangles, point down
set style line 19 linecolor rgb other_color linewidth 2 dashtype (2,3) pointtype 10 pointsize 0.9
set style line 20 linecolor rgb library_color linewidth 2 dashtype 1 pointtype 5 pointsize 0.6  # filled squares
# open triangles, larger
set style line 21 linecolor rgb "#303030" linewidth 1.5 dashtype (6,2) pointtype 8 pointsize 1.1
set style line 22 linecolor rgb "#303030" linewidth 1.5 dashtype (1,4) pointtype 3 pointsize 0.8  # stars
set style line 23 linecolor rgb third_color linewidth 2 dashtype (6,2,2,2) pointtype 14 pointsize 0.9  # open pentagons
set style line 11 linecolor rgb naive_color linewidth 1.2 dashtype 1 pointtype 0
set style line 12 linecolor rgb yours_color linewidth 1.2 dashtype 1 pointtype 0
set style line 13 linecolor rgb key_color linewidth 1.2 dashtype 1 pointtype 0
set style line 18 linecolor rgb variant_color linewidth 1.2 dashtype 1 pointtype 0
set style line 29 linecolor rgb other_color linewidth 1.2 dashtype 1 pointtype 0
set style line 30 linecolor rgb library_color linewidth 1.2 dashtype 1 pointtype 0
set style line 33 linecolor rgb third_color linewidth 1.2 dashtype 1 pointtype 0
set style line 9 linecolor rgb "#d8d8d8" linewidth 1
style_of(impl) = \
    impl eq "naive" ? 1 : impl eq "yours" ? 2 : impl eq "key" ? 3 : impl eq "fa2" ? 5 \
    : impl eq "fa4" ? 21 : impl eq "fa4_same_bits" ? 22 : impl eq "cudnn" ? 6 : impl eq "flex" || impl eq "fa3" ? 7 \
    : impl eq "flashinfer" ? 22 : impl eq "bf16" ? 23 : impl eq "torch_ring_cudnn" ? 5 \
    : impl eq "torch_allgather_cudnn" ? 21 : impl eq "ulysses_cudnn" ? 22 : impl eq "library" ? 20 \
    : impl eq "alone" ? 6 : variants eq "" || impl eq word(variants, 1) ? 8 \
    : impl eq word(variants, 2) ? 19 : 23
bf16_is = "13, cache in bf16"
spaced(name) = system(sprintf("echo '%s' | tr _ ' '", name))
name_of(impl) = \
    impl eq "key" ? "reference solution" : impl eq "fa2" ? "FlashAttention-2" \
    : impl eq "fa3" ? "FlashAttention-3" : impl eq "fa4" ? "FlashAttention-4" \
    : impl eq "fa4_same_bits" ? "FlashAttention-4, deterministic" : impl eq "cudnn" ? "cuDNN" \
    : impl eq "flex" ? "FlexAttention" : impl eq "flashinfer" ? "FlashInfer" : impl eq "bf16" ? bf16_is \
    : impl eq "library_one_level" ? "make lib, one level" : impl eq "library" ? "make lib" \
    : impl eq "torch_ring_cudnn" ? "PyTorch's ring" \
    : impl eq "torch_allgather_cudnn" ? "PyTorch's all-gather" : impl eq "ulysses_cudnn" ? "Ulysses, cuDNN" \
    : impl eq "alone" ? "a GPU alone" : impl eq "naive" || impl eq "yours" ? impl : "variant ".spaced(impl)

set border 3 linecolor rgb "#404040"
set grid linestyle 9
set tics nomirror textcolor rgb "#202020"
set key bmargin center horizontal maxrows 1 Left reverse samplen 4 width 1 height 1
set bmargin 5.5
set logscale x 2
set xtics 16, 2
set format x "%.0f"
set offsets graph 0.03, graph 0.03, 0, 0

if (!exists("extra_lines")) extra_lines = 0  # of text below a chart
chart_height = 520 + 19 * extra_lines
if (term eq "svg") {
    set terminal svg size 840,chart_height dynamic font "DejaVu Sans,14" background rgb "white"
} else { if (term eq "png") {
    set terminal pngcairo size 1260,1.5*chart_height font "DejaVu Sans,14" fontscale 1.3 \
        linewidth 1.5 pointscale 2 background rgb "white"
} else {
    set terminal dumb size 100,(30 + extra_lines)
    unset grid
} }
output_to(kind) = term eq "dumb" ? "unset output" : sprintf("set output '%s_%s.%s'", out, kind, term)
# The title's second line, small: where the numbers come from.
source_line(text) = term eq "dumb" ? "\n".text : "\n{/*0.72 ".text."}"
# A terminal has no room beside the axis, so what it measures is a third line; nor for lines that cross: peers are left
# to the other charts.
unit_line(text) = term eq "dumb" ? "\n".text : ""

# What most charts show, of time.gp, speed.gp and memory.gp; others set it anew.
x_column = "Nq"
x_title = "sequence length N"
y_column = "tflops"
y_factor = 1
y_title = "TFLOP/s of visible pairs, higher is better"
roof_name = "roof_gemm"
roof_title = "cuBLAS matrix product of 8192 x 8192: %.0f TFLOP/s"
time_fit_from = 4096
fit_from = 256

# --------------------------------------------------------------------------------------------- data

rows(file, impl, where) = sprintf("< awk -f plots/series.awk -v impl='%s' -v where='%s' '%s'", impl, where, file)
count(file, impl, where) = int(system(sprintf("awk -f plots/series.awk -v impl='%s' -v where='%s' '%s' | wc -l", \
                                              impl, where, file))) - 1
# Those of the implementations that the file has at these shapes.
has(file, impl, where) = count(file, impl, where) > 0 ? impl." " : ""
# Variants of the reference solution go by the names of their files; the first of a chart has a style of its own.
variants = ""
variant(file, where) = (variants = \
    system(sprintf("awk -f plots/series.awk -v of=variants -v impl= -v where='%s' '%s'", where, file)))
present(file, where) = has(file, "naive", where).has(file, "yours", where).has(file, "key", where) \
    .has(file, "library", where).has(file, "fa2", where).has(file, "fa3", where).has(file, "fa4", where) \
    .has(file, "cudnn", where).has(file, "flex", where).has(file, "flashinfer", where) \
    .has(file, "bf16", where) \
    .has(file, "torch_ring_cudnn", where).has(file, "torch_allgather_cudnn", where) \
    .has(file, "ulysses_cudnn", where) \
    .variant(file, where)
# The first of two choices of the memory's rows if there are any of a GPU, else the second; says which by on_gpu.
among(gpu, cpu) = (on_gpu = count(memory_data, "", gpu) > 1, on_gpu ? gpu : cpu)
# The value of a roof; 0 if there is none.
roof(file, name, column) = real(system(sprintf( \
    "awk -F'\\t' '$1 == \"problem\" { for (i = 1; i <= NF; i++) at[$i] = i }" \
    ." $2 == \"%s\" { x = $at[\"%s\"] } END { print x + 0 }' '%s'", \
    name, column, file)))
