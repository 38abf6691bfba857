# report.awk - what AddressSanitizer, UBSan or ThreadSanitizer wrote about a C program, in the form of the check build's
# reports (cpu/check/findings.cpp). Prints the first finding; nothing if there is none. pwd: the folder without which
# places are shown; record: the file for what it is of (layer_requests.h). Their words differ a little between versions:
# a line that is not understood is left out.

function below(path) { return index(path, pwd "/") == 1 ? substr(path, length(pwd) + 2) : path }

function source_of(place,    file, line, n, text)
{
    file = line = place
    sub(/:[0-9]+$/, "", file)
    sub(/.*:/, "", line)
    # The report may be a liar's: nothing but sources of the workbook is shown.
    if (file !~ /^[A-Za-z0-9_]+\// || file ~ /\.\.\//) return ""
    for (n = 1; (getline text < file) > 0; n++)
        if (n == line + 0) break
    close(file)
    sub(/^[ \t]+/, "", text)
    return n == line + 0 ? text : ""
}

function short_path(path)
{
    if (path ~ /:[0-9]+:[0-9]+$/) sub(/:[0-9]+$/, "", path) # the column
    return below(path)
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

/ERROR: AddressSanitizer: / {
    if (kind) next
    what = $0; sub(/.*AddressSanitizer: /, "", what); sub(/ .*/, "", what)
    kind = what ~ /use-after/ ? "use after free" : what ~ /SEGV|BUS/ ? "wild or null pointer" : \
        what ~ /overflow|underflow/ ? "out of bounds" : what
    memory = what ~ /stack/ ? "the stack: a local array" : what ~ /heap/ ? "memory from malloc" : \
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
    memory = $0; sub(/.*runtime error: /, "", memory)
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
    if (/is located |Location is/ && !where_done++) {
        memory = $0
        sub(/^ *(0x[0-9a-f]+ is |Location is )/, "", memory)
        sub(/ \[0x.*| at 0x.*/, "", memory)
        sub(/^located /, "", memory)
        sub(/to the right of|after/, "behind a", memory)
        sub(/to the left of|before/, "before a", memory)
    }
    if (/^SUMMARY/) over = 1
    in_side = 0
    next
}
kind && !over && tolower($0) ~ /^ *(previous )?(atomic )?(read|write) of size [0-9]+ at / {
    verb[++sides] = tolower($0) ~ /write of size/ ? "writes" : "reads"
    who[sides] = match($0, /thread T[0-9]+/) && $0 !~ /thread T0/ ? substr($0, RSTART, RLENGTH) " " : "the main thread "
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

# ------------------------ the report

function names(place) { sub(/.*\//, "", place); if (place) places = places " " place }

END {
    if (!kind) exit
    printf "sanitize: %s%s\n", kind, name[1] ? " in " name[1] : ""
    if (kind == "race")
        print "   Two threads access the same memory, at least one of them writes, and nothing orders the two accesses."
    if (memory) printf "   memory   %s\n", memory
    for (i = sides; i >= 1; i--) { # the first is the one now
        if (!place[i]) continue
        printf "   %-8s %s%s%s\n", i == 1 ? "now" : "before", who[i], verb[i], " at " place[i]
        names(place[i])
        names(caller[i])
        text = source_of(place[i])
        if (text) printf "               | %s\n", text
        text = source_of(caller[i])
        if (text) printf "            called at %s\n               | %s\n", caller[i], text
    }
    printf "   missing  %s\n", missing
    if (record) printf "%s\t%s\t%s", kind, places, section >record
    printf "   read     problems/when-it-is-wrong-but-runs.md, \"%s\"\n", section
}
