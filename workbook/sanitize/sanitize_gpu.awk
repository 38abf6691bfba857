# sanitize_gpu.awk - what compute-sanitizer wrote, in the form of the check build's reports (cpu/check/findings.cpp).
# Variables: pwd; tool; files, which it may name without their folders.
# Prints the first finding in full and counts the others; nothing if there is none. Its words differ a little between
# versions: a line that is not understood is left out.

function place_of(text,    n, word, i)
{
    if (match(text, / in [^ ]+:[0-9]+/)) {
        text = substr(text, RSTART + 4, RLENGTH - 4)
        if (index(text, pwd "/") == 1) text = substr(text, length(pwd) + 2)
        return text
    }
    if (match(text, /[^ ]+:[0-9]+:[^ (]+/)) { # file:line:function(...)+0x
        text = substr(text, RSTART, RLENGTH)
        match(text, /^[^:]+:[0-9]+/)
        text = substr(text, 1, RLENGTH)
        if (index(text, pwd "/") == 1) text = substr(text, length(pwd) + 2)
        return text
    }
    return ""
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

function in_vocabulary(place) { return place ~ /(^|\/)(tile\.cuh|(cuda_|sm_|vector_)[a-z0-9_]*\.(h|hpp)):/ }

function full_path(place,    n, i, file, name)
{
    if (place ~ /\//) return place
    n = split(files, file, " ")
    for (i = 1; i <= n; i++) {
        name = file[i]; sub(/.*\//, "", name)
        if (index(place, name ":") == 1) return file[i] substr(place, length(name) + 1)
    }
    return place
}

# The first place outside of the tile vocabulary stands.
function note(i, text,    place)
{
    place = full_path(place_of(text))
    if (place && (!places[i] || in_vocabulary(places[i]))) places[i] = place
}

function source_of(place,    file, line, n, text)
{
    file = place; sub(/:[0-9]+$/, "", file)
    line = place; sub(/.*:/, "", line)
    for (n = 1; (getline text < file) > 0; n++)
        if (n == line + 0) break
    close(file)
    sub(/^[ \t]+/, "", text)
    return n == line + 0 ? text : ""
}

function begin(what)
{
    count++
    open = count == 1
    if (!open) return
    kind = what
    first = $0; sub(/^=+ */, "", first)
}

/Invalid __(global|shared|local)__ (read|write|atomic)/ {
    begin("out of bounds"); if (!open) next
    verb[1] = /write/ ? "writes" : /read/ ? "reads" : "does an atomic"
    memory = $0; sub(/.*Invalid __/, "", memory); sub(/__.*/, " memory", memory)
    sides = 1; next
}
/Uninitialized .*memory (read|write)|Uninitialized/ {
    begin("uninitialised read"); if (!open) next
    verb[1] = "reads"; memory = /shared/ ? "shared memory" : "global memory"; sides = 1; next
}
/Race reported between|hazard detected/ {
    begin("race"); if (!open) next
    verb[1] = /between Write/ ? "writes" : "reads"; memory = "shared memory"; sides = 1
    kernel = kernel_of($0)
    note(1, $0); next
}
/Barrier error detected|[Dd]ivergent thread|[Ii]nvalid arguments|Barrier error/ {
    begin("divergent barriers"); if (!open) next
    verb[1] = "waits"; memory = first; sides = 1; next
}
/Program hit (cuda[A-Za-z]+|CUDA_ERROR)/ {
    begin("refused"); if (!open) next
    memory = first; sub(/ on CUDA API call.*/, "", memory); sides = 0; next
}
/^=+ +and (Read|Write) access at/ {
    if (open && kind == "race") {
        sides = 2; verb[2] = /Write/ ? "writes" : "reads"
        note(2, $0)
    }
    next
}
/^=+ +at / { if (open && sides) { if (!kernel) kernel = kernel_of($0); note(sides, $0) } next }
/^=+ +(by|Device Frame:|#)/ {
    if (!open) next
    if (/ by thread/) { who[sides] = $0; sub(/^=+ +by /, "", who[sides]) }
    else {
        note(sides, $0)
        kernel = kernel_of($0) # the last frame is the kernel
    }
    next
}
/(Address|Access at) 0x.*misaligned/ { if (open) kind = "misaligned access"; next }
/and is [0-9,]+ bytes/ {
    if (open) { where = $0; sub(/^=+ +and is /, "", where); sub(/ at 0x[0-9a-f]+/, "", where) }
    next
}
/Saved host backtrace|Host Frame/ { if (/Saved host/) open = 0; next }

END {
    if (!count) exit
    printf "sanitize: %s%s\n", kind == "refused" ? "call refused" : kind, kernel ? " in " kernel : ""
    printf "   memory   %s%s\n", memory, where ? ", " where : ""
    for (i = sides; i >= 1; i--) {
        printf "   %-8s %s%s%s%s\n", i == 1 ? "now" : "before", who[i], who[i] ? ", " : "", \
            verb[i], places[i] ? " at " places[i] : ""
        text = places[i] ? source_of(places[i]) : ""
        if (text) printf "               | %s\n", text
    }
    missing["race"] = "a __syncthreads() between the two lines; within one warp a __syncwarp() will do."
    missing["out of bounds"] = "a condition around this access, or a size that is too small where memory is reserved."
    missing["uninitialised read"] = "an earlier store to this element."
    missing["misaligned access"] = "an address that is a multiple of the size of the load or store."
    missing["divergent barriers"] = \
        "every thread of a block must reach the same barrier, and every lane of a mask the same operation."
    missing["refused"] = "valid arguments. The call returned an error: does the program check it?"
    printf "   missing  %s\n", missing[kind]
    if (count > 1) printf "   and %d more; fix the first, then run again\n", count - 1
    section["race"] = "Races"
    section["out of bounds"] = "Outside of the memory"
    section["uninitialised read"] = "Nobody wrote it"
    section["misaligned access"] = "Alignment"
    section["divergent barriers"] = "Barriers and lanes"
    section["refused"] = "Launches that are refused"
    printf "   found by compute-sanitizer --tool %s: %s\n", tool, first
    printf "   read     problems/when-it-is-wrong-but-runs.md, \"%s\"\n", section[kind]
}
