# coverage.awk - which lines of a function's own source ran in no case of its suite, and which branches were decided one
# way in all of them, from what gcov says, its JSON (coverage.sh). Prints nothing, or:
#
#     runs in no case: lines 41-43, 57
#     is decided the same way in every case: line 40
#
# -v source=problems/03/flash_forward.cu   of that file, not of headers
# -v own=" 40 41 42 43 57 "                of these lines alone: the others are given
# -v name=flash_forward -v served=212      the function was called in so many cases at least: if its counters know of
#                                          fewer calls, they were not handed over, or written to, and that is said
#
# A line ran if it ran in one instance of its template. What calls throw is no branch, nor is the return in
# WB_CUDA(cuda...): no case has an error of the device. Lines that may change what is counted are told.

BEGIN {
    blank = "([ \t]|/[*].*[*]/)*"
    for (n = 1; (getline text[n] < source) > 0; n++)
        if (mine(n) && text[n] ~ "gcov|no_profile|define *WB_(CUDA|NCCL)|^" blank "(#|%:)" blank "(line|[0-9])")
            hides = hides ", " n
    RS = "{"
}
function mine(line) { return index(own, " " line " ") }
function field(object, key) {
    if (!match(object, "\"" key "\": *(\"[^\"]*\"|[0-9]+)")) return ""
    object = substr(object, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    gsub(/[ "]/, "", object)
    return object
}

# A branch or call of a line, behind which the rest of it may come. That a call returned stands before what it throws.
/"(throw|returned)":/ {
    if (/"throw": *true/) sub(/ [0-9]+$/, "", branches)
    if (/"throw": *false/) branches = branches " " field($0, "count")
    object = object substr($0, index($0, "}") + 1)
}
!/"(throw|returned)":/ { object = $0; branches = "" }
object ~ /"start_line":.*}/ { functions[++count] = object }
object ~ /"line_number":.*}/ { lines[++count] = object; ways[count] = branches }
# Of which file they are stands behind them, or, from gcc 14 on, before.
object ~ /"file":/ {
    end_of(object ~ /\[ *$/ ? file : field(object, "file"))
    file = field(object, "file")
}
function end_of(file) {
    for (n in functions) if (file == source) {
        begin[field(functions[n], "start_line") + 0]++
        if (field(functions[n], "name") == name) called = field(functions[n], "execution_count")
    }
    for (n in lines) if (file == source) keep(lines[n], ways[n])
    split("", functions)
    split("", lines)
}
# Of a lambda's line gcov does not say in which instance it is: it gives all branches, one instance after the other.
function keep(object, ways,    line, size, alike, from, k, way) {
    line = field(object, "line_number") + 0
    if (line > last) last = line
    code[line] = 1
    ran[line] += field(object, "count") > 0
    size = alike = split(ways, way, " ")
    for (from = line; from && !begin[from]; from--) {}
    if (object !~ /"function_name"/ && from && size % begin[from] == 0) alike = size / begin[from]
    for (k = 0; k < size; k++) taken[line, alike, k % alike] += way[k + 1]
    if (size) sizes[line, alike]
}

END {
    end_of(file)
    if (hides != "") print "these lines may falsify the record of which lines ran: " substr(hides, 3)
    if (called < served) {
        print "what ran is unknown: of " served " calls the counters show only " called + 0
        exit
    }
    for (at in sizes) {
        split(at, key, SUBSEP)
        here = text[key[1]]
        never = -gsub(/WB_(CUDA\(cuda|NCCL\(nccl)[A-Z]/, "", here)
        for (k = 0; k < key[2]; k += 2) {
            seen = (taken[at, k] > 0) + (taken[at, k + 1] > 0)
            never += seen == 1 || (!seen && here ~ /switch/)
        }
        if (never > 0 && mine(key[1])) one_way[key[1]] = 1
    }
    for (line = 1; line <= last + 1; line++) {
        if (one_way[line] && ran[line]) decided = decided ", " line
        if (code[line] && !ran[line] && mine(line)) {
            if (!from) from = line
            to = line
        } else if (from && (code[line] || line > last)) {
            none = none ", " from (to > from ? "-" to : "")
            from = 0
        }
    }
    if (none != "") print "runs in no case: line" (none ~ /, .*,|-/ ? "s " : " ") substr(none, 3)
    if (decided != "")
        print "is decided the same way in every case: line" (decided ~ /, .*,/ ? "s " : " ") substr(decided, 3)
}
