# series.awk - the header row and the rows of a bench TSV that belong to one line of a chart.
#   awk -f plots/series.awk -v impl=key -v where=B=1,D=128 file.tsv
# An empty impl means any but the roofs. A condition compares a column with a value, or with another column: rows=cols.
# -v of=variants: instead, of those rows, the implementations that are neither ours, the key, the library, a quantiser
# nor a peer: variants of the key, by the names of their files, in the order of the rows.
# -v of=workspaces: those that take memory beyond inputs and outputs; not naive, and of those that differ by less than
# 5 % at every N that both have the one that takes most.
BEGIN {
    FS = "\t"
    none = "naive yours key library torch_ring_cudnn torch_allgather_cudnn ulysses_cudnn fa2 fa3 fa4 cudnn flex" \
        " flashinfer bf16 torch quantise quantise_hadamard ring one_gpu"
    conditions = split(where, condition, ",")
}
/^#/ { next }
$1 == "problem" {
    for (i = 1; i <= NF; i++) at[$i] = i
    if (!of) print
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
    if (!of) print
    else if (of == "workspaces") note($2, $at["Nq"] " " $at["Nk"])
    else if ($2 !~ /_fa2$/ && index(" " none " ", " " $2 " ") == 0 && !seen[$2]++) printf "%s ", $2
}
function note(impl, length_here) {
    if (impl == "naive") return
    if (!(impl in any)) names[++count] = impl
    any[impl] += bytes[impl, length_here] = $at["peak_bytes"] - $at["io_bytes"]
    lengths[length_here]
}
function alike(a, b,    n) {
    for (n in lengths)
        if ((a, n) in bytes && (b, n) in bytes && (bytes[a, n] - bytes[b, n]) ^ 2 > (0.05 * bytes[a, n]) ^ 2) return 0
    return 1
}
END {
    for (k = 1; k <= count; k++)
        for (o = 1; o <= count; o++) {
            first = any[names[k]] == any[names[o]] ? o < k : any[names[o]] > any[names[k]]
            if (any[names[k]] <= 0 || (first && alike(names[k], names[o]))) less[k] = 1
        }
    for (k = 1; k <= count; k++)
        if (!less[k]) printf "%s ", names[k]
}
