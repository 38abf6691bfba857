# edit.awk - a source with one edit of a list: awk -v list=solutions/03/wrong.diff -v entry=no_max -f edit.awk solutions/03/flash_forward.cu
#   -v tell=names            instead: the names of all edits
#   -v tell=sentence|WORD    instead: what is known of this one
#
# A list holds edits of one source, each with a name and a sentence that says what is wrong with it; what else is known of it follows,
# a "word: text" a line:
#
#     @@ no_max: No maximum is subtracted.
#     expect: nothing
#          const int kept = 1;         lines as in a diff: these stay,
#     -    m = max(m, S_max);          these go,
#     +    m = 0;                      and these come
#     @@                               another place follows
#
# Places are found by their text: what stays and what goes must stand in the source exactly once. A word above the first edit holds
# for those that do not have it. Exit status: 0, or 2 and what is wrong; then there is no output to rely on.
function refuse(what) { print "edit: " list ": " (entry != "" ? entry ": " : "") what >"/dev/stderr"; refused = 1; exit 2 }
function change(kind, text) {
    if (kind != "+") old[places, ++olds[places]] = text
    if (kind != "-") new[places, ++news[places]] = text
}
BEGIN {
    while ((status = (getline line <list)) > 0) {
        if (line ~ /^@@ /) {
            name = substr(line, 4, index(line, ":") - 4)
            if (tell == "names") print name
            inside = name == entry
            entries += inside
            if (entries > 1 || name !~ /^[A-Za-z0-9_]+$/) refuse("there are two of this name, or one that is none: " name)
            changing = blank = 0
            if (inside) told["sentence"] = substr(line, 5 + length(name) + 1)
        } else if (match(line, /^[a-z]+: /) && (inside || !name)) {
            word = substr(line, 1, RLENGTH - 2)
            said = (inside ? "" : "of all ") word
            before = said in told ? told[said] "\n" : ""
            told[said] = before substr(line, RLENGTH + 1)
        } else if (inside && line == "@@") {
            changing = blank = 0
        } else if (inside && line == "") {
            blank++  # an empty line that stays, if more follows
        } else if (inside && line ~ /^[-+ ]/) {
            if (!changing++) { places++; blank = 0 }
            for (; blank; blank--) change(" ", "")
            change(substr(line, 1, 1), substr(line, 2))
        } else if (inside && !places) {
            told["sentence"] = told["sentence"] " " line
        }
    }
    if (status < 0) refuse("this list cannot be read")
    if (tell == "names") exit
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
        if (!olds[p]) refuse("place " p " has nothing to find it by")
        found = 0
        for (at = 1; at + olds[p] <= NR + 1; at++) {
            for (i = 1; i <= olds[p] && source[at + i - 1] "" == old[p, i] ""; i++) continue
            if (i > olds[p]) { found++; where = at }
        }
        if (found != 1) refuse("\"" old[p, 1] "\" stands in " FILENAME (found ? " " found " times" : " nowhere"))
        for (i = 0; i < olds[p]; i++) if (taken[where + i]++) refuse("two places share line " where + i)
        place[where] = p
    }
    for (at = 1; at <= NR; at++) {
        p = place[at]
        for (i = 1; p && i <= news[p]; i++) print new[p, i]
        if (!taken[at]) print source[at]
    }
}
