# 14_flash_decode_int8.gp - speed, time, memory and error of problem 14. Drawn by plot.sh.
load 'plots/common.gp'

x_column = "Nk"
x_title = "keys of each sequence"

chart_title = "14 flash decode int8: 32 sequences, 64 heads over 8 of K and V, D = 128, pages of 64"
where = "B=32,Hq=64,Nq=1,D=128,page=64,lens=same"
y_column = "gbps"
y_factor = 1
y_title = "GB/s, the cache read once, higher is better"
roof_name = "roof_copy"
roof_title = "copy in device memory: %.0f GB/s"
load 'plots/speed.gp'
time_fit_from = 4096
load 'plots/time.gp'

on_gpu = count(memory_data, "", where) > 1
where = on_gpu ? where : "B=4,Hq=8,Nq=1,D=64,page=64,lens=same"
chart_title = on_gpu ? chart_title : "14 flash decode int8: 4 sequences, 8 heads over 2 of K and V, D = 64"
fit_from = on_gpu ? 2048 : 512
# What the same cache has in bf16, without scales: K and V of all pages, as workbook/pages.c counts them.
pages(B, Nk, page) = B * ceil(Nk / page) + floor(B * ceil(Nk / page) / 16.0) + 2
beside_title = "inputs and outputs of 13, with the cache in bf16"
beside_bytes = "column('io_bytes') + pages(column('B'), column('Nk'), column('page')) " \
    ."* column('page') * column('Hkv') * (2 * column('D') - 8)"
load 'plots/memory.gp'

# The relative error of O against the length of the cache.
if (exists("error_data") && error_data ne "") {
    set title "14 flash decode int8: error of O, 4 sequences, 8 heads over 2 of K and V, D = 128" \
        .source_line(error_source).unit_line("relative error")
    set xlabel "keys of each sequence"
    set ylabel "relative error of O, lower is better"
    set logscale y 10
    set yrange [1e-3:0.2]
    set format y "%g"
    set ytics autofreq
    set offsets graph 0.03, graph 0.03, 0, 0
    set bmargin 9
    set key at screen 0.5, screen 0.02 bottom center vertical maxrows 4 Left reverse samplen 4 width 1 height 1
    eval output_to("errors")
    if (term eq "dumb") { set bmargin 8; set key vertical maxrows 9 }
    plot rows(error_data, "int8", "input=outliers") using (column("Nk")):(column("error")) \
        with linespoints linestyle 1 title "int8, one column 20 times as large", \
         rows(error_data, "int8", "input=normal") using (column("Nk")):(column("error")) \
             with linespoints linestyle 3 title "int8, all columns alike", \
         rows(error_data, "bf16", "input=outliers") using (column("Nk")):(column("error")) \
             with linespoints linestyle 7 title "bf16, one column 20 times as large", \
         rows(error_data, "bf16", "input=normal") using (column("Nk")):(column("error")) \
             with linespoints linestyle 6 title "bf16, all columns alike"
    unset output
}
