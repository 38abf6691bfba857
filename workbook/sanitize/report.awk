# report.awk - what AddressSanitizer, UBSan or ThreadSanitizer wrote about a C program or, with -v tool=racecheck,
# compute-sanitizer about a kernel, in the form of the check build's reports (cpu/check/findings.cpp). Prints the first
# finding, and counts compute-sanitizer's others; nothing if there is none. pwd: the folder without which places are
# shown; record: the file for what it is of (layer_requests.h); files: what compute-sanitizer may name without its
# folder. Its words differ a little between versions: a line that is not understood is left out.

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

# ------------------------ compute-sanitizer

function begin(what)
{
    open = ++count == 1
    if (!open) return 0
    kind = what
    memory = $0; sub(/^=+ */, "", memory)
    first = memory
    return sides = 1
}

function kernel_of(text)
{
    sub(/^=+ +(Device Frame: *|and (Read|Write) access at +|at +)/, "", text)
    sub(/.* access at +/, "", text)
    sub(/^[^ ]+:[0-9]+:/, "", text)
    sub(/^(void|__global__) +/, "", text)
    sub(/[<(+].*/, "", text)
    sub(/.*::/, "", text)
    return text
}

# " in file:line", or file:line:function(...)+0x. The first place outside of the tile vocabulary stands.
function note(i, text,    n, k, file, name)
{
    if (match(text, / in [^ ]+:[0-9]+/)) text = substr(text, RSTART + 4, RLENGTH - 4)
    else if (match(text, /[^ ]+:[0-9]+:[^ (]+/)) {
        text = substr(text, RSTART, RLENGTH)
        match(text, /^[^:]+:[0-9]+/)
        text = substr(text, 1, RLENGTH)
    } else return
    text = below(text)
    n = text ~ /\// ? 0 : split(files, file, " ")
    for (k = 1; k <= n; k++) {
        name = file[k]; sub(/.*\//, "", name)
        if (index(text, name ":") == 1) { text = file[k] substr(text, length(name) + 1); break }
    }
    if (!place[i] || place[i] ~ /(^|\/)(tile\.cuh|(cuda_|sm_|vector_)[a-z0-9_]*\.(h|hpp)):/) place[i] = text
}

tool && /Invalid __(global|shared|local)__ (read|write|atomic)/ {
    if (!begin("out of bounds")) next
    verb[1] = /write/ ? "writes" : /read/ ? "reads" : "does an atomic"
    sub(/.*Invalid __/, "", memory); sub(/__.*/, " memory", memory)
    next
}
tool && /Uninitialized/ {
    if (!begin("uninitialised read")) next
    verb[1] = "reads"; memory = /shared/ ? "shared memory" : "global memory"
    next
}
tool && /Race reported between|hazard detected/ {
    if (!begin("race")) next
    verb[1] = /between Write/ ? "writes" : "reads"; memory = "shared memory"
    name[1] = kernel_of($0)
    note(1, $0)
    next
}
tool && /Barrier error|[Dd]ivergent thread|[Ii]nvalid arguments/ {
    if (begin("divergent barriers")) verb[1] = "waits"
    next
}
tool && /Program hit (cuda[A-Za-z]+|CUDA_ERROR)/ {
    if (!begin("call refused")) next
    sub(/ on CUDA API call.*/, "", memory); sides = 0
    next
}
tool && /^=+ +and (Read|Write) access at/ {
    if (!open || kind != "race") next
    sides = 2; verb[2] = /Write/ ? "writes" : "reads"
    note(2, $0)
    next
}
tool && /^=+ +at / {
    if (!open || !sides) next
    if (!name[1]) name[1] = kernel_of($0)
    note(sides, $0)
    next
}
tool && /^=+ +(by|Device Frame:|#)/ {
    if (open && / by thread/) { who[sides] = $0 ", "; sub(/^=+ +by /, "", who[sides]) }
    else if (open) { note(sides, $0); name[1] = kernel_of($0) } # the last frame is the kernel
    next
}
tool && /(Address|Access at) 0x.*misaligned/ { if (open) kind = "misaligned access"; next }
tool && /and is [0-9,]+ bytes/ {
    if (open) { where = $0; sub(/^=+ +and is /, "", where); sub(/ at 0x[0-9a-f]+/, "", where); where = ", " where }
    next
}
tool { if (/Saved host/) open = 0; next }

# ------------------------ AddressSanitizer, UBSan, ThreadSanitizer

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

function of_kernel(what, says, part)
{
    if (tool && kind == what) { missing = says; section = part }
}

END {
    if (!kind) exit
    printf "sanitize: %s%s\n", kind, name[1] ? " in " name[1] : ""
    if (!tool && kind == "race")
        print "   Two threads access the same memory, at least one of them writes, and nothing orders the two accesses."
    if (memory) printf "   memory   %s%s\n", memory, where
    for (i = sides; i >= 1; i--) { # the first is the one now
        if (!tool && !place[i]) continue
        printf "   %-8s %s%s%s\n", i == 1 ? "now" : "before", who[i], verb[i], place[i] ? " at " place[i] : ""
        names(place[i])
        names(caller[i])
        text = source_of(place[i])
        if (text) printf "               | %s\n", text
        text = source_of(caller[i])
        if (text) printf "            called at %s\n               | %s\n", caller[i], text
    }
    of_kernel("race", "a __syncthreads() between the two lines; within one warp a __syncwarp() will do.", "Races")
    of_kernel("out of bounds", "a condition around this access, or a size that is too small where memory is reserved.",
        "Outside of the memory")
    of_kernel("uninitialised read", "an earlier store to this element.", "Nobody wrote it")
    of_kernel("misaligned access", "an address that is a multiple of the size of the load or store.", "Alignment")
    of_kernel("divergent barriers", "every thread of a block must reach the same barrier, and every lane of a mask" \
        " the same operation.", "Barriers and lanes")
    of_kernel("call refused", "valid arguments. The call returned an error: does the program check it?",
        "Launches that are refused")
    printf "   missing  %s\n", missing
    if (record) printf "%s\t%s\t%s", kind, places, section >record
    if (count > 1) printf "   and %d more; fix the first, then run again\n", count - 1
    if (tool) printf "   found by compute-sanitizer --tool %s: %s\n", tool, first
    printf "   read     problems/when-it-is-wrong-but-runs.md, \"%s\"\n", section
}
