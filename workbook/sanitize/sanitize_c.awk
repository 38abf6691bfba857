# sanitize_c.awk - what AddressSanitizer, UBSan or ThreadSanitizer wrote about a C program, in the form of the check
# build's reports (cpu/check/findings.cpp). Prints the first finding, or nothing if there is none.

function short_path(path)
{
    if (path ~ /:[0-9]+:[0-9]+$/) sub(/:[0-9]+$/, "", path) # the column
    if (index(path, pwd "/") == 1) path = substr(path, length(pwd) + 2)
    return path
}

# The function and the place of a frame "    #0 0x55 in row_max /here/problems/01/x.c:50:9", as "row_max" and
#                                            "problems/01/x.c:50".
function read_frame(line,    n, word)
{
    sub(/ \([^()]*\)( \(BuildId: .*\))?$/, "", line)
    n = split(line, word, " ")
    frame_place = short_path(word[n])
    frame_name = word[2] ~ /^0x/ ? word[4] : word[2]
    return frame_place ~ /^[^\/(].*:[0-9]+$/ && frame_place !~ /\.\.\//
}

function source_of(place,    file, line, n, text)
{
    file = place; sub(/:[0-9]+$/, "", file)
    line = place; sub(/.*:/, "", line)
    # The report may be a liar's: nothing but sources of the workbook is shown.
    if (file !~ /^[A-Za-z0-9_]+\// || file ~ /\.\.\//) return ""
    for (n = 1; (getline text < file) > 0; n++)
        if (n == line + 0) break
    close(file)
    sub(/^[ \t]+/, "", text)
    return n == line + 0 ? text : ""
}

BEGIN { sides = 0; kind = "" }

/ERROR: AddressSanitizer: / {
    if (kind) next
    what = $0; sub(/.*AddressSanitizer: /, "", what); sub(/ .*/, "", what)
    kind = what ~ /use-after/ ? "use after free" : what ~ /SEGV|BUS/ ? "wild or null pointer" : \
        what ~ /overflow|underflow/ ? "out of bounds" : what
    where = what ~ /stack/ ? "the stack: a local array" : what ~ /heap/ ? "memory from malloc" : \
        what ~ /global/ ? "a global array" : ""
    missing = kind != "out of bounds" ? "look at where the pointer comes from." : \
        "a condition, or a loop that ends in time: which elements exist at a ragged end?"
    section = "Outside of the memory"
    next
}
/runtime error: / {
    if (kind) next
    kind = /out of bounds|insufficient space/ ? "out of bounds" : /misaligned/ ? "misaligned access" : \
        "undefined arithmetic"
    where = $0; sub(/.*runtime error: /, "", where)
    missing = kind == "undefined arithmetic" ? "a wider type, or a check before: the result is not defined in C." : \
        "an index or address that is valid on this line."
    section = kind == "out of bounds" ? "Outside of the memory" : "Problem 01"
    sides = 1; verb[1] = "does it"
    place[1] = $1; sub(/:$/, "", place[1]); place[1] = short_path(place[1])
    next
}
/WARNING: ThreadSanitizer: / {
    if (kind) next
    kind = /data race/ ? "race" : $0; sub(/.*ThreadSanitizer: /, "", kind); sub(/ \(pid.*/, "", kind)
    missing = "one owner of each element, a mutex, or an atomic: nothing orders these two threads."
    section = "Races"
    next
}
/^SUMMARY: |^  Location is |is located / {
    if (/is located |Location is/ && !where_done) {
        text = $0
        sub(/^ *(0x[0-9a-f]+ is |Location is )/, "", text)
        sub(/ \[0x.*| at 0x.*/, "", text)
        sub(/^located /, "", text)
        sub(/to the right of|after/, "behind a", text)
        sub(/to the left of|before/, "before a", text)
        where = text
        where_done = 1
    }
    if (/^SUMMARY/) over = 1
    in_side = 0
    next
}
kind && !over && tolower($0) ~ /^ *(previous )?(atomic )?(read|write) of size [0-9]+ at / {
    sides++
    verb[sides] = (tolower($0) ~ /write of size/ ? "writes" : "reads")
    who[sides] = "the main thread"
    if (match($0, /thread T[0-9]+/) && $0 !~ /thread T0/) who[sides] = substr($0, RSTART, RLENGTH)
    in_side = 1
    next
}
kind && !over && in_side && /^ *#[0-9]+ / {
    if (!place[sides]) {
        if (read_frame($0)) { place[sides] = frame_place; name[sides] = frame_name }
    } else { # who called that, for it may be given code
        if (read_frame($0)) caller[sides] = frame_place
        in_side = 0
    }
}
kind && !over && !sides && /^ *#[0-9]+ / && read_frame($0) {
    sides = 1; place[1] = frame_place; name[1] = frame_name; verb[1] = "touches it"
}

END {
    if (!kind) exit
    printf "sanitize: %s%s\n", kind, name[1] ? " in " name[1] : ""
    if (kind == "race")
        print "   Two threads access the same memory, at least one of them writes, and nothing orders the two accesses."
    if (where) printf "   memory   %s\n", where
    for (i = sides; i >= 1; i--) { # the first is the one now
        if (!place[i]) continue
        printf "   %-8s %s%s%s at %s\n", i == 1 ? "now" : "before", who[i], who[i] ? " " : "", verb[i], place[i]
        text = source_of(place[i])
        if (text) printf "               | %s\n", text
        text = caller[i] ? source_of(caller[i]) : ""
        if (text) printf "            called at %s\n               | %s\n", caller[i], text
    }
    printf "   missing  %s\n", missing
    printf "   read     problems/when-it-is-wrong-but-runs.md, \"%s\"\n", section
}
