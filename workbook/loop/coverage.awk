# coverage.awk - which lines of a function's own source ran in no case of its suite, and which branches were decided one
# way in all of them, from what gcov -t -b -c says of each of its workers (coverage.sh). Prints one line, or nothing
# where there is nothing to say:
#
#     ran in no case: lines 41-43, 57; decided one way only: 40
#
# -v source=problems/03/flash_forward.cu   of that file, not of headers
# -v name=flash_forward -v served=212      the function was called in so many cases at least: where its counters know of
#                                          fewer calls, they were not handed over, or written to, and that is said
#
# gcov gives a template's lines once for all instances, without branches, and again for each, under a line "function".
# A line ran if it ran in one instance; a branch is looked for in all that have as many in that line. What calls throw
# is no branch, nor is the return in WB_CUDA(...): no case has an error of the device.

BEGIN { for (n = 1; (getline text < source) > 0; n++) excused[n] = gsub(/WB_CUDA\(/, "", text) }
/^ *-: *0:Source:/ { own = substr($0, index($0, "Source:") + 7) == source; next }
!own { next }
/^function / { part = $2; start = 0; if ($2 == name) called += $4; next }
/^branch / {
    at = line SUBSEP part
    if ($2 >= size[at]) size[at] = $2 + 1
    if ($3 == "taken") { ran[at] = 1; taken[at, $2] += $4 }
    if (/\(throw\)/) throws[at, $2] = 1
    next
}
/^ *[^ :]+: *[0-9]+:/ {
    split($0, field, ":")
    line = field[2] + 0
    if (!start) begins[part] = start = line
    if (field[1] ~ /-/) next
    code[line] = 1
    if (line > last) last = line
    if (field[1] ~ /[1-9]/) runs[line] = 1
}

END {
    if (called < served) {
        print "what ran is not known: of " served " calls the counters have " called + 0
        exit
    }
    for (at in ran) {
        split(at, key, SUBSEP)
        alike = key[1] SUBSEP begins[key[2]] SUBSEP size[at]
        sizes[alike] = size[at]
        for (k = 0; k < size[at]; k++) ways[alike, k] += taken[at, k] + throws[at, k]
    }
    for (alike in sizes) {
        never = 0
        for (k = 0; k < sizes[alike]; k++) never += !ways[alike, k]
        split(alike, key, SUBSEP)
        if (never > excused[key[1]]) one_way[key[1]] = 1
    }
    for (line = 1; line <= last + 1; line++) {
        if (one_way[line] && runs[line]) decided = decided ", " line
        if (code[line] && !runs[line]) {
            if (!from) from = line
            to = line
        } else if (from && (runs[line] || line > last)) {
            none = none ", " from (to > from ? "-" to : "")
            from = 0
        }
    }
    said = none == "" ? "" : "ran in no case: line" (none ~ /-|, .*,/ ? "s " : " ") substr(none, 3)
    if (decided != "") said = said (said == "" ? "" : "; ") "decided one way only: " substr(decided, 3)
    if (said != "") print said
}
