# edit.awk - a source with one edit of a list: awk -v list=solutions/03/wrong.diff -v entry=no_max -f edit.awk
# solutions/03/flash_forward.cu
#   -v tell=names            instead: the names of all edits; tell=known: and what is known of each
#   -v tell=sentence|known|WORD    instead: what is said of this one
#
# A list holds edits of one source, each with a name, what is known of it (who catches it, what is said of it), and a
# sentence that says what is wrong; what else there is to say follows, a "word: text" a line. What is known of a wrong
# solution: a test that catches it (only tried first) and, behind a comma, what `diagnose -v` says of it (-: nothing).
#
#     @@ no_max (scales): No maximum is subtracted.
#     case: N=64
#          const int kept = 1;         lines as in a diff: these stay,
#     -    m = max(m, S_max);          these go,
#     +    m = 0;                      and these come
#     @@                               another place follows
#     ~ j > i => j >= i                a place within a line: what goes, and what comes
#
# Places are found by their text: what stays and what goes must stand in the source exactly once. A word above the first
# edit holds for those that do not have it. Exit status: 0, or 2 and what is wrong; then there is no output to rely on.
function refuse(what) {
    print "edit: " list ": " (entry != "" ? entry ": " : "") what >"/dev/stderr"
    if (entry == "") print "no_edits"  # who goes through names finds that nothing is called so
    refused = 1
    exit 2
}
function change(kind, text) {
    if (kind != "+") old[places, ++olds[places]] = text
    if (kind != "-") new[places, ++news[places]] = text
}
function change_within(text,    cut) {
    text = text " "
    cut = index(text, " => ")
    part[++places] = substr(text, 1, cut - 1)
    into[places] = substr(text, cut + 4, length(text) - cut - 4)
}
# Finds such a place, and makes it a change of its line.
function find_within(p,    at, from, found) {
    for (at = 1; at <= NR; at++)
        for (from = 1; i = index(substr(source[at], from), part[p]); from += i) {
            found++
            old[p, 1] = source[at]
            new[p, 1] = substr(source[at], 1, from + i - 2) into[p] substr(source[at], from + i - 1 + length(part[p]))
            where = at
        }
    olds[p] = news[p] = 1
    return found
}
BEGIN {
    while ((status = (getline line <list)) > 0) {
        if (line ~ /^@@ /) {
            name = known = substr(line, 4)
            sub(/[ :].*/, "", name)
            known = substr(known, length(name) + 1, 2) == " (" ? substr(known, length(name) + 3) : ""
            sub(/\): .*/, "", known)
            if (tell == "names" || tell == "known" && entry == "") print name (tell == "known" ? " " known : "")
            inside = name == entry
            entries += inside
            all++
            if (entries > 1 || name !~ /^[A-Za-z0-9_]+$/)
                refuse("two entries have this name, or an entry has none: " name)
            changing = blank = 0
            if (inside && known != "") told["known"] = known
            if (inside) told["sentence"] = substr(line, length("@@ : " name (known != "" ? " ()" known : "")) + 1)
        } else if (match(line, /^[a-z]+: /) && (inside || !name)) {
            word = substr(line, 1, RLENGTH - 2)
            said = (inside ? "" : "of all ") word
            before = said in told ? told[said] "\n" : ""
            told[said] = before substr(line, RLENGTH + 1)
        } else if (inside && line == "@@") {
            changing = blank = 0
        } else if (inside && line == "") {
            blank++  # an empty line that stays, if more follows
        } else if (inside && line ~ /^~ .* =>( |$)/) {
            changing = blank = 0
            change_within(substr(line, 3))
        } else if (inside && line ~ /^[-+ ]/) {
            if (!changing++) { places++; blank = 0 }
            for (; blank; blank--) change(" ", "")
            change(substr(line, 1, 1), substr(line, 2))
        } else if (inside && !places) {
            told["sentence"] = told["sentence"] " " line
        }
    }
    if (status < 0) refuse("this list cannot be read")
    if (!all) refuse("there is no edit in this list")
    if (entry == "" && tell != "") exit
    if (!entries) refuse("there is no such edit")
    if (!places) refuse("it changes nothing")
    if (tell != "") {
        if (tell in told) print told[tell]
        else if ("of all " tell in told) print told["of all " tell]
        exit
    }
}
{ source[NR] = $0 }
END {
    if (refused) exit 2
    if (tell != "") exit
    for (p = 1; p <= places; p++) {
        found = p in part ? find_within(p) : 0
        if (!olds[p]) refuse("place " p " has no context to locate it")
        for (at = 1; !(p in part) && at + olds[p] <= NR + 1; at++) {
            for (i = 1; i <= olds[p] && source[at + i - 1] "" == old[p, i] ""; i++) continue
            if (i > olds[p]) { found++; where = at }
        }
        if (found != 1)
            refuse("\"" (p in part ? part[p] : old[p, 1]) "\" stands in " FILENAME \
                (found ? " " found " times" : " nowhere"))
        for (i = 0; i < olds[p]; i++) if (taken[where + i]++) refuse("two places share line " where + i)
        place[where] = p
        for (i = 1; i <= olds[p] || i <= news[p]; i++) if (old[p, i] "" != new[p, i] "") changed = 1
    }
    if (!changed) refuse("it changes nothing")
    for (at = 1; at <= NR; at++) {
        p = place[at]
        for (i = 1; p && i <= news[p]; i++) print new[p, i]
        if (!taken[at]) print source[at]
    }
}
