# origin.awk - the gaps of a file to which a report leads: awk -v of= -v lines=" 19 82" -f origin.awk FILE
# Those in which nothing is written; those that hold a line which it names; then the nearest that make what such a line,
# or a loop or condition around it, reads, or that stand in a function which it calls, through given code for three
# steps; last, the one that calls most often the function that such a line is in. A name is made where it is assigned
# or counted, in the same function, but a loop's own only inside; a member, through an object, in any. Behind a line
# that waits come those that let it go on. of=messages: before those that hold a line, the gap above it that lets a
# stream wait; what the line reads matters only where no gap holds it. of=copies: before those that hold a line, the
# one that waits for asynchronous copies. Prints "max|rescale|tail", at most three.
$1 == "//{" {
    gap = $0
    gsub(/^ *\/\/\{ *| *:.*/, "", gap)
    gaps[++gap_count] = gap
    begin[gap] = NR
}
{
    if (length($0) > longest) longest = length($0)
    line[NR] = $0
    sub(/ *\/\/.*/, "", line[NR])
    match($0, /^ */)
    indent[NR] = RLENGTH
    gap_of[NR] = gap
    function_of[NR] = functions + 0
    if (/^(template .*)?struct /) members[functions + 0]
    functions += /^}/
}
$1 == "//}" { gap = "" }
gap != "" && line[NR] !~ /^ *$/ { written[gap] }

# The next name of `rest`, which is taken from it; "" where there is none more. called: a bracket follows.
function next_name(  name) {
    if (!match(rest, /[A-Za-z_][A-Za-z_0-9]*/)) return ""
    name = substr(rest, RSTART, RLENGTH)
    rest = substr(rest, RSTART + RLENGTH)
    called = rest ~ /^\(/
    return name
}

# The functions around a gap: "(receive)(forward_kernel)".
function around(gap,  n, at, all, name) {
    at = indent[begin[gap]]
    for (n = begin[gap] - 1; n > 0; n--) {
        if (line[n] == "" || indent[n] > at || (indent[n] == at && !body)) continue
        at = indent[n]
        body = line[n] ~ /^ *{$/
        rest = line[n]
        if (rest ~ /= *\[/) sub(/ *=.*/, "(", rest)
        if (rest ~ /\[[&=]?\]/) continue  # it is handed to a function
        while ((name = next_name()) != "")
            if (called && name !~ /^(if|for|while|switch|each|__.*)$/) {
                all = all "(" name ")"
                break
            }
        if (at == 0 && !body) return all
    }
    return all
}

# A line is so many steps from the report, and with it the rest of its statement.
function reach(n, steps) {
    for (; n <= NR && !(n in reached); n++) {
        reached[n] = steps
        queue[++last] = n
        if (line[n] ~ /[;{}]$/ || line[n] == "") return
    }
}

# The loops and conditions around a line are as far from the report.
function reach_around(n, steps,  at) {
    for (at = indent[n]; at > 0 && --n > 0;) {
        if (line[n] == "" || indent[n] >= at) continue
        at = indent[n]
        if (line[n] ~ /^ *(}? *else )?(for|if|while) /) reach(n, steps)
    }
}

function note(gap, most) {
    if (gap == "" || gap in noted || notes >= most) return
    noted[gap]
    all = all (notes++ ? "|" : "") gap
}

# The gap that calls most often a function around another.
function caller(gap,  n, calls, best) {
    for (n = 1; n <= NR; n++) {
        rest = line[n]
        while ((name = next_name()) != "")
            if (called && gap_of[n] != "" && gap_of[n] != gap && index(inside[gap], "(" name ")")) calls[gap_of[n]]++
    }
    for (n = 1; n <= gap_count; n++) if (calls[gaps[n]] > calls[best]) best = gaps[n]
    return best
}

# Of the gaps without a named line, that of the last line before line n, in its function, that lets a stream wait.
function waits(n,  at) {
    for (at = function_of[n]; n > 0 && function_of[n] == at; n--)
        if (line[n] ~ /cudaStreamWaitEvent/ && !(gap_of[n] in holds)) return gap_of[n]
}

END {
    if (NR > 5000 || gap_count > 50 || longest > 1000) exit  # who writes such a file wants a grader to wait
    for (g = 1; g <= gap_count; g++) inside[gaps[g]] = around(gaps[g])
    for (g = 1; g <= gap_count; g++) if (!(gaps[g] in written)) note(gaps[g], 3)
    count = split(lines, named, " ")
    for (i = 1; i <= count; i++) holds[gap_of[named[i]]]
    alone = of == "messages"
    for (i = 1; i <= count && alone; i++) note(waits(named[i] + 0), 2)
    for (n = 1; n <= NR && of == "copies"; n++) if (line[n] ~ /wait_prior|loads_arrived/) note(gap_of[n], 2)
    for (i = 1; i <= count; i++) reach(named[i] + 0, 0)
    for (i = 1; i <= count; i++) reach_around(named[i] + 0, 0)
    for (i = 1; i <= last; i++) {
        n = queue[i]
        if (reached[n] && alone && notes) break
        note(gap_of[n], reached[n] ? 2 : 3)
        if (reached[n] == 3 || (reached[n] && gap_of[n] != "")) continue
        if (!reached[n] && match(line[n], /[A-Za-z_][A-Za-z_.]*(\[[^]]*\])?[.]wait\(/)) {
            signal = substr(line[n], RSTART, RLENGTH - 1)
            gsub(/(\[[^]]*\])?[.]/, "|", signal)  # or what it is a part of
            signal = "(" signal ")(\\[[^]]*\\])?[.](arrive|pass|send)"
            for (k = 1; k <= NR && (work++) < 1000000; k++) if (line[k] ~ signal) reach(k, 1)
        }
        rest = line[n]
        while ((name = next_name()) != "" && (work += NR) < 1000000) {
            for (g = 1; g <= gap_count && called; g++)
                if (index(inside[gaps[g]], "(" name ")") && gaps[g] != gap_of[n])
                    reach(begin[gaps[g]] + 1, reached[n] + 1)
            own = "(int|size_t|unsigned) " name " = "
            if (line[n] ~ own) continue
            made = "(^|[^A-Za-z0-9_.])" name "(\\[[^=;]*\\]|[.][a-z_]+)*( ([-+*/%|&^]|<<|>>)?= |[-+][-+])|[-+][-+]" name
            for (k = 1; k <= NR && function_of[n] in members; k++)
                if (!(k in reached) && line[k] ~ "[.]" name " = ") reach(k, reached[n] + 1)
            for (k = 1; k <= NR; k++)
                if (!(k in reached) && function_of[k] == function_of[n] && line[k] ~ made &&
                    (line[k] !~ "for .*" own || indent[k] < indent[n]))
                    reach(k, reached[n] + 1)
        }
    }
    for (i = 1; i <= count && !alone; i++) if (gap_of[named[i]] != "") note(caller(gap_of[named[i]]), 3)
    print all
}
