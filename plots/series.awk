# series.awk - the header row and the rows of a bench TSV that belong to one line of a chart.
#   awk -f plots/series.awk -v impl=key -v where=B=1,D=128 file.tsv
# An empty impl means any but the roofs. A condition compares a column with a value, or with another column: rows=cols.
# With -v variants=1, of those rows: the implementations that are neither ours, the key, the library, a quantiser nor a
# peer: variants of the key, by the names of their files, in the order of the rows.
BEGIN {
    FS = "\t"
    none = "naive yours key library torch_ring_cudnn torch_allgather_cudnn ulysses_cudnn fa2 fa3 fa4 cudnn flex" \
        " flashinfer bf16 torch quantise quantise_hadamard ring one_gpu"
    conditions = split(where, condition, ",")
}
/^#/ { next }
$1 == "problem" {
    for (i = 1; i <= NF; i++) at[$i] = i
    if (!variants) print
    next
}
impl != "" && $at["impl"] != impl { next }
impl == "" && $at["impl"] ~ /^roof_/ { next }
{
    for (i = 1; i <= conditions; i++) {
        split(condition[i], pair, "=")
        value = pair[2] in at ? $at[pair[2]] : pair[2]
        if ($at[pair[1]] != value) next
    }
    if (!variants) print
    else if ($2 !~ /_fa2$/ && index(" " none " ", " " $2 " ") == 0 && !seen[$2]++) printf "%s ", $2
}
