#!/bin/sh
# lesson.sh TABLE - the table of the capstone's lesson, of what table.sh has measured: a row for each kernels, those
# that training shows least first. "hidden": their mean loss is no further above that of the right keys than the
# losses of these are apart from seed to seed; "faint": up to three times as far. tests/train.sh holds the lesson
# against it.
awk -F '\t' '
    /^#/ || $1 == "kernels" { next }
    $2 == "trained" { problem[$1] = $4; gradient[$1] = $6 " of layer " $5; error[$1] = $7; bound[$1] = $8; next }
    {
        if (!($1 in seeds)) names[++count] = $1
        seeds[$1]++
        losses[$1] = losses[$1] " " ($3 ~ /ended/ ? "NaN at step " substr($3, 10) "," : sprintf("%.3f", $3))
        if ($3 ~ /ended/) ended[$1] = 1
        sum[$1] += $3
        if ($1 == "right" && (seeds[$1] == 1 || $3 > most)) most = $3
        if ($1 == "right" && (seeds[$1] == 1 || $3 < least)) least = $3
    }
    function what(name,    tell, line) {
        if (name == "naive") return "naive attention"
        if (name == "right") return "the reference solutions"
        if (name == "untouched") return "untouched skeletons: no attention at all"
        tell = "train/wrong.sh - " name
        tell | getline line
        close(tell)
        sub(/\.$/, "", line)
        return line
    }
    END {
        sorted = "sort -t \"\t\" -k 1,1n -k 2,2g | cut -f 3-"
        printf "| kernels | what is wrong | held-out loss, seeds 1, 2, 3 | in the curve | "
        print "furthest off, with | off by | may be off by |"
        print "|---|---|---|---|---|---|---|"
        for (i = 1; i <= count; i++) {
            name = names[i]
            above = (sum[name] - sum["right"]) / 3
            first = name == "naive" ? 1 : name == "right" ? 2 : 3
            seen = above <= most - least ? "hidden" : above <= 3 * (most - least) ? "faint" : "shows"
            if (above < 0) seen = "hidden, better"
            if (name in ended) seen = "ends it"
            if (first < 3) seen = ""
            order = first "\t" (name in ended ? 99 : above)
            text = losses[name]
            sub(/^ /, "", text)
            sub(/,$/, "", text)
            off = "| | | |"
            if (name in error)
                off = sprintf("| %s: %s | %.2g | %.2g |", problem[name], gradient[name], error[name], bound[name])
            printf "%s\t| `%s` | %s | %s | %s %s\n", order, name, what(name), text, seen, off | sorted
        }
        close(sorted)
    }' "$1"
