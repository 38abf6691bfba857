# ring.gp - the charts of 17 and 18: against the number of ranks, and against N on as many ranks as there are rows of.
# Set before: number_and_name.
number_of_ranks(file) = int(system(sprintf("awk -f plots/series.awk -v impl=key -v where=D=128,causal=1 '%s' | " \
    ."awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } \
    $at[\"ranks\"] > most { most = $at[\"ranks\"] } END { print most + 0 }'", file)))
memory_with_peers = 1
names_at_ends = 1

letter = "R"
x_column = "ranks"
x_title = "ranks R, a GPU each"
set xtics 1, 2
where = "Nq=131072,D=128,causal=1"
chart_title = number_and_name.": causal, N = 131072, 32 heads on 8, D = 128"
y_title = "TFLOP/s a GPU, higher is better"
roof_name = ""
load 'plots/speed.gp'

where = among(where, "Nq=512,D=64,causal=1")
chart_title = sprintf("%s: memory of a rank, causal, N = %s", number_and_name, on_gpu \
    ? "131072, 32 heads on 8, D = 128" : "512, 4 heads on 2, D = 64")
fit_from = 1
load 'plots/memory.gp'

letter = "N"
x_column = "Nq"
x_title = "sequence length N"
set xtics 16, 4
speed_source = speed_source.long_source
most = speed_data eq "" ? 0 : number_of_ranks(speed_data)
where = sprintf("ranks=%d,D=128,causal=1", most)
chart_title = sprintf("%s on %d GPU%s: causal, 32 heads on 8, D = 128", number_and_name, most, most > 1 ? "s" : "")
speed_kind = "speed_by_length"
load 'plots/speed.gp'

where = on_gpu ? sprintf("ranks=%d,D=128,causal=1", number_of_ranks(memory_data)) : "ranks=4,D=64,causal=1"
chart_title = sprintf("%s: memory of one of %d ranks, causal, %s", number_and_name, on_gpu \
    ? number_of_ranks(memory_data) : 4, on_gpu ? "32 heads on 8, D = 128" : "4 heads on 2, D = 64")
set xtics 16, on_gpu ? 4 : 2
memory_source = on_gpu ? memory_source.long_source : memory_source
memory_kind = "memory_by_length"
load 'plots/memory.gp'
