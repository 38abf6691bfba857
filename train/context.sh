#!/bin/sh
# context.sh TABLE - of train_context.tsv, which record.sh writes, the table of train/README.md: a row for each length
# and kind of layers. tests/train.sh holds the text against it.
awk -F '\t' '
    /^#/ || $1 == "tokens" { next }
    {
        key = sprintf("%d,%d", $1, $2)
        if (!(key in seen)) { seen[key] = 1; keys[++count] = key }
        ms[key, $3] = $5; rate[key, $3] = $6; memory[key, $3] = $7
        if (!($3 in known)) { known[$3] = 1; all[++different] = $3 }
    }
    function seconds(x) {
        return x < 1000 ? sprintf("%.0f ms", x) : sprintf(x < 100000 ? "%.1f s" : "%.0f s", x / 1000)
    }
    function gpus(n) { return n == 1 ? "one GPU" : n " GPUs" }
    END {
        line = "| tokens | full attention |"; rule = "|---|---|"
        for (k = 1; k <= different; k++) {
            line = line " " gpus(all[k]) " |" (all[k] == 1 ? "" : " speedup |") " GB per GPU |"
            rule = rule "---|---|" (all[k] == 1 ? "" : "---|")
        }
        print line "\n" rule
        for (i = 1; i <= count; i++) {
            split(keys[i], part, ",")
            each = part[2] == 2 ? "second" : part[2] == 3 ? "third" : part[2] "th"
            line = sprintf("| %d | %s |", part[1], part[2] ? "every " each " layer" : "no layer")
            for (k = 1; k <= different; k++) {
                n = all[k]
                if (!((keys[i], n) in ms)) { line = line " | |" (n == 1 ? "" : " |"); continue }
                line = line " " seconds(ms[keys[i], n]) ", " int(rate[keys[i], n] / 1000 + 0.5) "k tokens/s |"
                if (n > 1) line = line ((keys[i], 1) in ms ? sprintf(" %.2f |", ms[keys[i], 1] / ms[keys[i], n]) : " |")
                line = line sprintf(" %.0f |", memory[keys[i], n])
            }
            print line
        }
    }' "$1"
