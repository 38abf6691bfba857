# workspaces.awk - of series.awk's rows, the implementations that take memory beyond inputs and outputs; not naive, and
# of those that differ by less than 5 % at every N that both have the one that takes most.
NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
$at["impl"] == "naive" { next }
{
    impl = $at["impl"]
    if (!(impl in any)) names[++count] = impl
    length_here = $at["Nq"] " " $at["Nk"]
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
