# coverage.awk - which lines of a function's own source ran in no case of its suite, and which branches were decided one
# way in all of them, from what gcov -j -t -b says (coverage.sh). Prints a line, or nothing where there is nothing to
# say:
#
#     ran in no case: lines 41-43, 57; decided one way only: 40
#
# -v source=problems/03/flash_forward.cu   of that file, not of headers. Before it stands which lines name counters, or
#                                          say that they are others (#line)
# -v name=flash_forward -v served=212      the function was called in so many cases at least: where its counters know of
#                                          fewer calls, they were not handed over, or written to, and that is said
#
# A line ran if it ran in one instance of its template; a branch is looked for in all instances that have as many there.
# What calls throw is no branch, nor is the return in WB_CUDA(cuda...): no case has an error of the device.

BEGIN {
    blank = "([ \t]|/[*].*[*]/)*"
    hiding = "gcov|no_profile|define *WB_(CUDA|NCCL)|^" blank "(#|%:)" blank "(line|[0-9])"
    for (n = 1; (getline text < source) > 0; n++) {
        excused[n] = gsub(/WB_(CUDA\(cuda|NCCL\(nccl)[A-Z]/, "", text)
        if (text ~ hiding) hides = hides ", " n
    }
    RS = "{"
}

# The value of a field of an object, a number or a string.
function field(object, key) {
    if (!match(object, "\"" key "\": *(\"[^\"]*\"|[0-9]+)")) return ""
    object = substr(object, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
    gsub(/[ "]/, "", object)
    return object
}

# What stands in a file: a function, or a line, of which gcov says in which function it is where several instances of
# a template have it; of a lambda it says that not.
function take(file, object, ways,    line, part, k, size, way) {
    if (file != source) return
    if (part = field(object, "start_line")) {
        begins[field(object, "name")] = part
        ends[field(object, "name")] = field(object, "end_line")
        if (field(object, "name") == name) called = field(object, "execution_count")
        return
    }
    line = field(object, "line_number") + 0
    part = field(object, "function_name")
    code[line] = 1
    if (line > last) last = line
    if (field(object, "count") + 0) runs[line] = 1
    size = split(ways, way, " ")
    if (size) size_of[line, part] = size
    for (k = 1; k <= size; k++) {
        taken[line, part, k] += way[k]
        ran[line, part] += way[k]
    }
}

# A branch or call of a line, which may be followed by the rest of the line.
/"throw":|"returned":/ {
    if (/"throw": *false/) branches = branches " " field(substr($0, 1, index($0, "}")), "count")
    object = object substr($0, index($0, "}") + 1)
}
!/"throw":|"returned":/ { object = $0; branches = "" }
object ~ /"(line_number|start_line)":.*}/ { seen[++count] = object; ways[count] = branches }
# The name of a file stands before its functions and lines, or behind them.
object ~ /"file":/ {
    for (n = 1; n <= count; n++) take(object ~ /: *\[ *$/ ? file : field(object, "file"), seen[n], ways[n])
    count = 0
    file = field(object, "file")
}

# How many functions begin in the line in which the innermost around this line does: instances of a lambda.
function instances(line,    part, from, many) {
    for (part in begins)
        if (begins[part] + 0 <= line && line <= ends[part] + 0) {
            if (begins[part] + 0 > from) { from = begins[part] + 0; many = 0 }
            many += begins[part] + 0 == from
        }
    return many
}

END {
    for (n = 1; n <= count; n++) take(file, seen[n], ways[n])
    if (hides != "") print "what ran is told as it was counted, and these lines may change that: " substr(hides, 3)
    if (called < served) {
        print "what ran is not known: of " served " calls the counters have " called + 0
        exit
    }
    for (at in ran) {
        if (!ran[at]) continue
        split(at, key, SUBSEP)
        size = size_of[at]
        if (key[2] == "" && (many = instances(key[1] + 0)) && size % many == 0) size /= many
        alike = key[1] SUBSEP begins[key[2]] SUBSEP size
        sizes[alike] = size
        for (k = 1; k <= size_of[at]; k++) sum[alike, (k - 1) % size] += taken[at, k]
    }
    for (alike in sizes) {
        never = 0
        for (k = 0; k < sizes[alike]; k++) never += !sum[alike, k]
        split(alike, key, SUBSEP)
        if (debug) print "line " key[1] " never " never " of " sizes[alike] " excused " excused[key[1]] | "sort -k2n"
        if (never > 3 * excused[key[1]]) one_way[key[1]] = 1
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
