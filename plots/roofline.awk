# roofline.awk - the points of roofline.gp, from bench's tables of one GPU, which plot.sh picks: a line for the
# main shape of each problem, and where its number stands on the chart. Distances there are differences of logarithms.
# Of 17 and 18 it is the longest causal one, D 128, on as many GPUs as there were: rates are of one of them.
BEGIN { FS = "\t"; GAP = 0.19; DROP = 0.25 }  # between two numbers; between a point and its number
FNR == 1 { columns = 0; shape = "" }
sub(/^# problem: [0-9]+ /, "") { name = $0; next }
sub(/^# main shape: /, "") { shape = $0; next }
sub(/^# peak_tflops: /, "") { peak = $0 + 0; next }
/^#/ { next }
!columns { split("", at); for (i = 1; i <= NF; i++) at[$i] = i; columns = NF; next }
("ranks" in at) && ($2 == "key" || $2 == "yours") && $at["D"] == 128 && $at["causal"] == 1 {
    size = 1e9 * $at["ranks"] + $at["Nq"]
    if (size <= most[$1, $2]) next
    most[$1, $2] = size
    intensity = 1e9 * $at["tflops"] * $at["ms"] / $at["io_bytes"]
    rate[$1, $2] = lowest_rate = $at["tflops"]
    if (($1, "key") in rate && rate[$1, "key"] < lowest_rate) lowest_rate = rate[$1, "key"]
    x[$1] = label_x[$1] = lg(intensity)
    lowest[$1] = lg(lowest_rate)
    what[$1] = name "\tB" $at["B"] " H" $at["Hq"] "/" $at["Hkv"] " N" $at["Nq"] " D128 causal, " \
        $at["ranks"] " GPUs\tarithmetic\t" \
        sprintf("%.5g", intensity)
}
("ranks" in at) { next }
shape != "" && $at["shape"] == shape && $at["bound"] != "-" && ($2 == "key" || $2 == "yours") && !(($1, $2) in rate) {
    rate[$1, $2] = $at["tflops"]
    percent[$1, $2] = sprintf("%.0f", 100 * $at["fraction"])
    x[$1] = label_x[$1] = lg($at["flops_a_byte"])
    if (!($1 in lowest) || lg(rate[$1, $2]) < lowest[$1]) lowest[$1] = lg(rate[$1, $2])
    sub(/, tiles of [0-9x ]*/, "", shape)  # 15's: the line has no room for it
    what[$1] = name "\t" shape "\t" $at["bound"] "\t" sprintf("%.5g", $at["flops_a_byte"])
    shape = $at["shape"]
}

function lg(value) { return log(value) / log(10) }

# Numbers that would touch are moved apart, to the left and to the right by as much.
function spread(    round, k, missing) {
    for (round = 0; round < 200; round++)
        for (k = 1; k < n; k++) {
            missing = GAP - (label_x[order[k + 1]] - label_x[order[k]])
            if (missing > 0) { label_x[order[k]] -= missing / 2; label_x[order[k + 1]] += missing / 2 }
        }
}

# Whether the number of problem p covers a point of problem q.
function covers(p, q,    i) {
    for (i = 1; i <= 2; i++)
        if (((q, impl[i]) in rate) && distance(label_x[p], x[q]) < 0.7 * GAP &&
            distance(label_y[p], lg(rate[q, impl[i]])) < 0.6 * DROP) return 1
    return 0
}
function distance(a, b) { return a < b ? b - a : a - b }

function columns_of(p, who) {
    if ((p, who) in most) percent[p, who] = peak ? sprintf("%.0f", 100 * rate[p, who] / peak) : "-"
    return (p, who) in rate ? sprintf("\t%.3g\t%s", rate[p, who], percent[p, who]) : "\t-\t-"
}

END {
    split("key yours", impl, " ")
    for (i = 1; i < 100; i++) {  # by their intensity
        p = sprintf("%02d", i)
        if (!(p in x)) continue
        number[++n] = p
        for (k = n; k > 1 && x[order[k - 1]] > x[p]; k--) order[k] = order[k - 1]
        order[k] = p
    }
    spread()
    for (i = 1; i <= n; i++) {  # under its own point, and under others that it would cover
        label_y[order[i]] = lowest[order[i]] - DROP
        for (k = 1; k <= n; k++)
            if (covers(order[i], order[k])) { label_y[order[i]] -= DROP / 5; k = 0 }
    }
    if (n) print "problem\tname\tshape\tbound\tintensity\tkey\tkey_percent\tyours\tyours_percent\tlabel_x\tlabel_y"
    for (i = 1; i <= n; i++)
        printf "%s\t%s%s%s\t%.5g\t%.5g\n", number[i], what[number[i]], columns_of(number[i], "key"),
            columns_of(number[i], "yours"),
            10 ^ label_x[number[i]], 10 ^ label_y[number[i]]
}
