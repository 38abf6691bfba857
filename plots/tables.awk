# tables.awk - recorded figures in the tables of texts. awk -f plots/tables.awk plots/data/h200/*.tsv
# plots/data/h200x2/*.tsv TEXT.md prints the text, its tables filled anew.
#
#   <!-- recorded: 08 TFLOP/s; shape, key, fa4, hopper_same_bits | library, key/fa4; causal -->
#   | | the key | ...
#   |---|---|...
#   | B4 H16 N4096 D128 | 234 | ...
#
# Before the first ; the problem, unless each row has its own in a column `problem`, and the unit; then what each
# column holds; then what is so in all rows. A cell is the median of an implementation as tables call it: `key`; `key
# of 13`; `hopper | library`, the first that was recorded; `key/fa4`, how many times faster the first is; `key GB/s`;
# `key share`, that to what a copy moved; `-` is left as it is. What was not recorded is empty. A shape is said in
# words like B4 H16 64/8 N4096 Nk8192 D64 W128 S4 "no window" causal full page16 zipf documents/1024 q_tile64 4096 x
# 4096 "2 GPUs", may begin with "the same" as the row before, may name another unit, and must fit one recorded row. A
# line "Recorded on ..." below a table says when. `key GB` is the most memory of a call.
BEGIN { FS = "\t" }

#   <!-- duel: -->     or     <!-- duel: claim -->     or     <!-- duel: h100 -->
#   what plots/duel.awk says of all duel_seed*.tsv recorded on an H200, or in data/h100: a table and a line "Recorded on
#   ...", or a paragraph
FNR == 1 { file = FILENAME; sub(/.*\//, "", file); columns = 0 }

# a recorded table
file ~ /^duel_seed/ && FNR == 1 { duels[FILENAME ~ /\/h100\//] = duels[FILENAME ~ /\/h100\//] " " FILENAME }
FILENAME ~ /\.tsv$/ {
    if (match($0, /^# (commit|date|gpu|gpus|driver): /)) {
        fact = substr($0, 3, RLENGTH - 4)
        heading[file, fact] = substr($0, RLENGTH + 1)
        next
    }
    if (/^#/) next
    if (!columns) { for (i = 1; i <= NF; i++) name[i] = $i; columns = NF; next }
    if (file == "torch_attention.tsv") { without_a_mask(); next }
    if (name[1] != "problem" || name[2] != "impl") next
    r = ++rows[$1, $2]
    source[$1, $2, r] = file
    for (i = 3; i <= columns; i++) value[$1, $2, r, name[i]] = $i
    if ($2 == "roof_copy") copy[$1] = value[$1, $2, r, "gbps"]
    next
}

# 08 has a mask; its kernel without one is timed as PyTorch's function: backward_ms, workbook, "B4 H16/16 N4096 D128
# causal=False", ms
function without_a_mask(    word, n, r, i) {
    if ($1 != "backward_ms" || $3 !~ / causal=False/) return
    r = ++rows["08", $2]
    source["08", $2, r] = file
    n = split($3, word, " ")
    for (i = 1; i <= n; i++) value["08", $2, r, substr(word[i], 1, 1)] = substr(word[i], 2)
    split(value["08", $2, r, "H"], word, "/")
    value["08", $2, r, "Hq"] = word[1]
    value["08", $2, r, "Hkv"] = word[2]
    value["08", $2, r, "Nq"] = value["08", $2, r, "Nk"] = value["08", $2, r, "N"]
    value["08", $2, r, "causal"] = 0
    value["08", $2, r, "ms"] = $4
    value["08", $2, r, "tflops"] = 10 * value["08", $2, r, "B"] * word[1] * \
        value["08", $2, r, "N"] ^ 2 * value["08", $2, r, "D"] / $4 / 1e9
}

# Adds to want[] what a text says of a shape, and the unit.
function understand(text,    word, n, i, heads) {
    gsub(/ = |=/, "", text)
    if (match(text, /[0-9]+ x [0-9]+/)) {
        split(substr(text, RSTART, RLENGTH), word, " x ")
        want["rows"] = word[1]; want["cols"] = word[2]
    }
    n = split(text, word, /[ ,:;()]+/)
    for (i = 1; i <= n; i++)
        if (word[i] ~ /^H?[0-9]+\/[0-9]+$/) {
            sub(/^H/, "", word[i])
            split(word[i], heads, "/")
            want["Hq"] = heads[1]; want["Hkv"] = heads[2]
        }
        else if (word[i] ~ /^H[0-9]+$/) want["Hq"] = want["Hkv"] = substr(word[i], 2)
        else if (word[i] ~ /^N[0-9]+$/) want["Nq"] = want["Nk"] = substr(word[i], 2)
        else if (match(word[i], /^(B|Nq|Nk|D|W|S|page|q_tile)[0-9]+$/)) {
            match(word[i], /[0-9]/)
            want[substr(word[i], 1, RSTART - 1)] = substr(word[i], RSTART)
        }
        else if (word[i] ~ /^[a-z]+\/[0-9]+$/) want["mask"] = word[i]
        else if (word[i] == "causal" || word[i] == "full") want["causal"] = word[i] == "causal"
        else if (word[i] == "zipf") want["lens"] = "zipf"
        else if (word[i] in column) want["unit"] = word[i]
    if (text ~ /no window/) want["W"] = want["Nq"]
    if (match(text, /[0-9]+ GPU/)) want["ranks"] = substr(text, RSTART, RLENGTH - 4)
}
BEGIN { column["ms"] = "ms"; column["TFLOP/s"] = "tflops"; column["GB/s"] = "gbps" }

# Of an implementation's rows the one that fits; 0: none.
function fitting(problem, impl,    r, found) {
    for (r = 1; r <= rows[problem, impl]; r++) {
        if (!fits(problem, impl, r)) continue
        if (found) fault("two rows of " problem " " impl " fit '" shape "'")
        found = r
    }
    return found
}
function fits(problem, impl, r,    k) {  # "-" in a table: it has no meaning there
    for (k in want)
        if (k != "unit" && value[problem, impl, r, k] != "-" && value[problem, impl, r, k] "" != want[k] "") return 0
    return 1
}

# "hopper | library of 08": the first that was recorded; what a column of its table says.
function figure(item, problem, what,    choice, n, i, word, r) {
    n = split(item, choice, / *\| */)
    for (i = 1; i <= n; i++) {
        if (split(choice[i], word, " of ") < 2) word[2] = problem
        if (!(r = fitting(word[2], word[1]))) continue
        use(source[word[2], word[1], r])
        any = 1
        copied = copy[word[2]]
        return value[word[2], word[1], r, what]
    }
    return ""
}

function use(file,    i) {
    for (i = 1; i <= files; i++) if (used[i] == file) return
    used[++files] = file
}

function digits(x) {
    return sprintf(x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : x >= 1 ? "%.2f" : x >= 0.1 ? "%.3f" : "%.4f", x)
}

function cell(item, problem,    pair, first, second) {
    if (sub(/ share$/, "", item)) {
        first = figure(item, problem, "gbps")
        return first == "" ? "" : sprintf("%.0f %%", 100 * first / copied)
    }
    if (sub(/ GB\/s$/, "", item)) first = figure(item, problem, "gbps")
    else if (sub(/ GB$/, "", item)) first = (first = figure(item, problem, "peak_bytes")) == "" ? "" : first / 1e9
    else if (split(item, pair, "/") == 2) {
        first = figure(pair[1], problem, "ms")
        second = figure(pair[2], problem, "ms")
        return first == "" || second == "" ? "" : sprintf(second < 10 * first ? "%.2f" : "%.1f", second / first)
    } else
        first = figure(item, problem, column[want["unit"]])
    return first == "" ? "" : digits(first)
}

function fault(what) { print FILENAME ":" FNR ": " what >"/dev/stderr"; bad = 1 }

# a text
/^<!-- duel: ((claim|h100) )?-->$/ {
    print
    command = "awk -f plots/duel.awk -v claim=" (/claim/ ? 1 : 0) duels[/h100/]
    while ((command | getline line) > 0) print line
    close(command)
    line = 0
    gone = /claim/ ? "^[^ ]" : "^[|]|^$|^Recorded on"
    next
}
gone != "" && $0 ~ gone { if (/^Recorded on/) gone = "."; next }  # to the end of its paragraph
{ gone = "" }
/<!-- recorded:/ { # which may go on in the next lines
    for (asked = $0; asked !~ /-->/ && (getline more) > 0; asked = asked " " more) {
        print
        $0 = more
    }
}
/-->/ && match(asked, /<!-- recorded: .*; .*; .*-->/) {
    split(substr(asked, RSTART + 15, RLENGTH - 18), part, / *; */)
    items = split(part[2], item, / *, */)
    problem = substr(part[1], 1, 2) ~ /[0-9][0-9]/ ? substr(part[1], 1, 2) : ""
    always = part[1] " " part[3]
    line = files = 0
    asked = ""
}
items && /^\|/ && ++line > 2 {
    split($0, old, / *\| */)
    any = 0
    for (i = 1; i <= items; i++) {
        if (item[i] == "problem" && match(old[i + 1], /[0-9][0-9]/)) problem = substr(old[i + 1], RSTART, 2)
        if (item[i] == "shape") shape = old[i + 1]
    }
    if (shape !~ /the same/) { delete want; understand(always) }
    understand(shape)
    row = "|"
    for (i = 1; i <= items; i++) row = row " " (item[i] ~ /^(-|problem|shape)$/ ? old[i + 1] : \
        cell(item[i], problem)) " |"
    gsub(/\|  \|/, "| |", row); gsub(/\|  \|/, "| |", row)
    if (!any) fault("nothing recorded fits '" shape "'")
    $0 = row
}
items && line && !/^\|/ && !/^$/ {
    items = 0
    if (/^Recorded on/) {
        for (text = caption(); length(text) > 100; text = substr(text, i + 1)) {
            for (i = 101; substr(text, i, 1) != " "; i--) {}
            print substr(text, 1, i - 1)
        }
        print text
        gone = "."
        next
    }
}
function runs(when,    first, last, text) { # the numbers of its problems: ", 02 to 06, 08"
    for (first = 1; first < 100; first++) {
        if (!((when, first) in number)) continue
        for (last = first; (when, last + 1) in number; last++) continue
        text = text sprintf(last == first ? ", %02d" : last == first + 1 ? ", %02d, %02d" : ", %02d to %02d",
            first, last)
        first = last
    }
    return text
}
function caption(    i, file, when, named, n, order, text) {
    split("", number)
    for (i = 1; i <= files; i++) {
        file = used[i]
        when = substr(heading[file, "date"], 1, 10) ", commit " substr(heading[file, "commit"], 1, 7)
        if (!(when in named)) { order[++n] = when; named[when] = "" }
        text = file
        sub(/(_[a-z0-9_]+)?\.tsv$/, "", text)
        if (text ~ /^[0-9][0-9]$/) number[when, text + 0]
        else named[when] = named[when] ", " text
    }
    for (i = 1; i <= n; i++) named[order[i]] = substr(runs(order[i]) named[order[i]], 3)
    text = "Recorded on " (heading[file, "gpus"] > 1 ? heading[file, "gpus"] " " : "an ") \
        heading[file, "gpu"] (heading[file, "gpus"] > 1 ? "s" : "") ", driver " heading[file, "driver"]
    for (i = 1; i <= n; i++) {
        when = order[i]
        if (i > 1 && substr(when, 1, 10) == substr(order[i - 1], 1, 10)) when = substr(when, 13)  # the same day
        text = text (i > 1 ? "; " : ": ") when " (" (named[order[i]] ~ /,/ ? "records " : "record ") named[order[i]] ")"
    }
    return text "."
}
{ print }
END { exit bad }
