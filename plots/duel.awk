# duel.awk - what reference/duel.py has found, by kind: awk -f plots/duel.awk duel_seed1.tsv [duel_seed2.tsv...]
# A table in Markdown: of the shapes in which a peer answered, the share in which ours was ahead of the best one; the
# median of best peer / ours; what a tenth of the shapes lies below; the least. Exit status 1: no rows, or a result was
# WRONG or FAILED; these are named.
#   -v worst=10     the ten worst of each kind as well, and where another kernel of ours took less time by over 3 %
#   -v claim=1      a sentence on both passes instead, in lines of 100, for README.md
BEGIN {
    FS = "\t"
    title["forward"] = "forward"; title["backward"] = "backward"; title["same_bits"] = "backward, deterministic"
    title["window_forward"] = "window, forward"; title["window_backward"] = "window, backward"
    title["sinks_forward"] = "window and sink tokens, forward"
    title["sinks_backward"] = "window and sink tokens, backward"
    title["logits_forward"] = "window and sink logits, forward"
    title["logits_backward"] = "window and sink logits, backward"
    title["decode"] = "decoding"; title["int8"] = "decoding, int8"; title["mask"] = "masks as data"
    kinds = split("forward backward same_bits window_forward window_backward sinks_forward sinks_backward " \
                  "logits_forward logits_backward decode int8 mask", order, " ")
}
sub(/^# gpu: /, "") { gpu = $0; next }
sub(/^# driver: /, "") { driver = $0; next }
sub(/^# date: /, "") { date = substr($0, 1, 10); next }
sub(/^# commit: /, "") {
    of = substr($0, 1, 7)
    if (!(of in said)) { said[of]; commit = commit (commit == "" ? "" : ", ") of }
    next
}
sub(/^# seed: /, "") { seeds = seeds (seeds == "" ? "" : "; ") $0; next }
/^# FAILED/ { wrong[++wrongs] = $0 }
/^#/ { next }
$1 == "kind" { for (i = 1; i <= NF; i++) at[$i] = i; next }
function shape(    text) {
    text = "B" $at["B"] " " $at["Hq"] "/" $at["Hkv"] ($at["Nq"] == $at["Nk"] ? " N" : " Nq" $at["Nq"] " Nk") \
        $at["Nk"] " D" $at["D"]
    if ($at["lens"] != "-") return text " " $at["lens"] " page" $at["page"]
    return text " " $at["mask"] ($at["W"] == "-" ? "" : " W" $at["W"]) ($at["S"] == "-" ? "" : " S" $at["S"])
}
{
    rows++
    if ($at["verdict"] != "ok") wrong[++wrongs] = $1 " " shape() ": " $at["verdict"] ", error " $at["error"]
    of = "all" in at ? split($at["all"], own, ",") : 0
    best = ""
    for (i = 1; i <= of; i++) {
        split(own[i], figure, ":")
        if (best == "" || figure[2] < least) { best = figure[1]; least = figure[2] + 0 }
    }
    choices += of > 1
    if (of > 1 && least * 1.03 < $at["ours"])
        slower[++slowers] = sprintf("%.3f %s %s: %s %s, %s %s ms", \
                                    least / $at["ours"], $1, shape(), $at["kernel"], $at["ours"], best, least)
    if ($at["ratio"] == "-") next
    # In order from the least.
    for (i = ++n[$1]; i > 1 && ratio[$1, i - 1] > $at["ratio"] + 0; i--) {
        ratio[$1, i] = ratio[$1, i - 1]
        row[$1, i] = row[$1, i - 1]
    }
    ratio[$1, i] = $at["ratio"] + 0
    row[$1, i] = sprintf("%.3f %s %s: %s, %s %s ms",
        $at["ratio"], $1, shape(), $at["ours"], $at["best"], $at[$at["best"]])
    ahead[$1] += $at["ratio"] > 1
}
function percent(kind) { return sprintf("%.0f %%", 100 * ahead[kind] / n[kind]) }
function print_wrapped(text,    words, word, i, together, line) {
    words = split(text, word, " ")
    for (i = 1; i <= words; i++) {
        together = word[i]  # a figure and what belongs to it
        while (word[i + 1] ~ /^[%(]/) together = together " " word[++i]
        if (length(line " " together) > 100) { print line; line = "" }
        line = line (line == "" ? "" : " ") together
    }
    print line
}
END {
    for (i = 1; i <= wrongs; i++) print wrong[i] >"/dev/stderr"
    if (!rows) exit 1
    if (claim) {
        text = "On random shapes on an " gpu " (" date ", commit " \
            commit "), the library of this workbook was faster than the fastest other library in"
        for (k = 1; k <= 2; k++)
            if (n[order[k]])
                text = text (listed++ ? " and in" : "") sprintf(" %s of %d %s passes (at worst %.2f times as fast)", \
                    percent(order[k]), n[order[k]], title[order[k]], ratio[order[k], 1])
        print_wrapped(text ".")
        exit wrongs > 0
    }
    print "| | shapes | faster in | median | 10th percentile | minimum |\n|---|---|---|---|---|---|"
    for (k = 1; k <= kinds; k++) {
        kind = order[k]
        if (n[kind])
            printf "| %s | %d | %s | %.3f | %.2f | %.2f |\n", title[kind], n[kind], percent(kind),
                ratio[kind, int(n[kind] / 2) + 1], ratio[kind, int(n[kind] / 10) + 1], ratio[kind, 1]
    }
    print ""
    print_wrapped("Recorded on an " gpu ", driver " driver ", " date ", commit " commit ": seed " seeds ".")
    for (k = 1; k <= kinds && worst; k++) for (i = 1; i <= worst && i <= n[order[k]]; i++) print row[order[k], i]
    if (worst) {
        printf "\n%d of %d selected kernels took over 3 %% longer than another kernel of the library\n",
            slowers, choices
        for (i = 1; i <= slowers; i++) print slower[i]
    }
    exit wrongs > 0
}
