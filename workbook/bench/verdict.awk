# verdict.awk - what the figures of a bench's table mean (plots/README.md, "The roofline verdict"): awk -f
# workbook/bench/verdict.awk FILE.tsv. Nothing of problem 01, which runs on the host, and of a table without a device's
# times.
BEGIN { FS = "\t"; width = 24; SHORT = 8192; TIMES = 4 }

/^# [a-z_]+: / { name = substr($1, 3, index($1, ":") - 3); fact[name] = substr($1, index($1, ":") + 2); next }
/^#/ { next }
!columns {
    for (i = 1; i <= NF; i++) at[$i] = i
    columns = NF
    by_bytes = "page" in at || fact["problem"] ~ /^02/
    next
}
!("bound" in at) || $2 ~ /^roof_/ || $at["ms"] !~ /^[0-9]/ { next }
{
    timed = 1
    sub(/^key$/, "reference", $2)
    alike = $2 ", " $at["shape"]
    sub(/ N[0-9]+/, "", alike)
    if ($at["W"] != "-") ms[alike, $at["Nq"]] = $at["ms"]
    if ($at["W"] != "-" && $at["Nq"] == SHORT) { grown[++grows] = alike; text[grows] = $2 ", " $at["shape"] }
}
$2 == "naive" { next }
{
    shape = $at["shape"]
    if (!(shape in bound)) {
        shapes[++count] = shape
        bound[shape] = sprintf(" %10.4g  %-12s %9.4g", $at["flops_a_byte"], $at["bound"], $at["at_most"])
        if (length(shape) > width) width = length(shape)
    }
    if (!known[$2]++) impl[++impls] = $2
    if (!((shape, $2) in reached))
        reached[shape, $2] = sprintf("  %9.4g  (%3.0f %%)", $at[by_bytes ? "gbps" : "tflops"], 100 * $at["fraction"])
}

END {
    if (!timed || fact["problem"] ~ /^01/ || fact["gpu"] == "none") exit
    for (i = 1; i <= grows; i++) {
        from = ms[grown[i], SHORT]; to = ms[grown[i], TIMES * SHORT]
        if (!to) continue
        printf "%s: %.4g ms; at N = %d %.4g ms, %.1f times as much ", text[i], from, TIMES * SHORT, to, to / from
        printf "(as N W: %d times, as N^2: %d times)\n", TIMES, TIMES * TIMES
    }
    printf "roofline %s on %s: ", fact["problem"], fact["gpu"]
    tflops = fact["peak_tflops"] + 0; mma = fact["peak_mma_sync_tflops"] + 0; gbps = fact["peak_gbps"] + 0
    if (!tflops) {
        print "no verdict: the peaks of this GPU are unknown" \
            " (its compute capability is not in workbook/bench/roofline.c)."
        exit
    }
    printf "%.4g TFLOP/s of bf16 products", tflops
    if (mma && mma < 0.99 * tflops) printf " (about %.3g by mma.sync, which tile.cuh uses)", mma
    printf ", %.4g GB/s; the rooflines meet at %.0f FLOPs per byte\n", gbps, 1e3 * tflops / gbps
    if (!count) { print "  only the naive baseline was measured"; exit }
    printf "  %-" width "s %10s  %-12s %9s", "shape", "FLOPs/byte", "bound by", "at most"
    for (i = 1; i <= impls; i++) printf "  %17.17s", impl[i]
    print ""
    for (k = 1; k <= count; k++) {
        printf "  %-" width "s%s", shapes[k], bound[shapes[k]]
        for (i = 1; i <= impls; i++)
            printf "%s", (shapes[k], impl[i]) in reached ? reached[shapes[k], impl[i]] : sprintf("  %17s", "-")
        print ""
    }
    print "  (" (by_bytes ? "GB/s" : "TFLOP/s") ", and the fraction of what this roofline allows)"
}
