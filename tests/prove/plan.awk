# plan.awk - which proofs are due: awk -v at=check -v of=HASH -v changed="03 08" [-v only=PATTERN] -f plan.awk LISTS
# TABLE LISTS: a line an entry, "list entry". TABLE: tests/proofs.txt, whose head says what a row is. Prints a line a
# proof, longest lists last: name, problem or -, what is proved, command, inputs, "due" or "not drawn"; tab between
# them.
BEGIN {
    stages = "check landing release"
    now = index(stages, at)
    if (!at || !now) { print "plan: at=" at ": there are " stages >"/dev/stderr"; bad = 2; exit }
    for (i = 32; i < 127; i++) code[sprintf("%c", i)] = i
    for (n = split(changed, numbers, " "); n; n--) is_changed[numbers[n]]
}
# A number of this text, as good as a hash: below 2^31 after every step, so that doubles hold it.
function draw(text,    i, h) {
    h = 5381
    for (i = 1; i <= length(text); i++) h = (h * 33 + code[substr(text, i, 1)]) % 2147483647
    for (i = 0; i < 3; i++) h = (h * 48271) % 2147483647
    return h
}
# Is it due? when: "check", or "check:16 landing:8": from that stage on, one of so many until a later word says more; a
# release has all.
function due(when, name, number,    words, i, n, part, share) {
    share = 0
    for (n = split(when, words, " "); n; n--) {
        split(words[n], part, ":")
        i = index(stages, part[1])
        if (!i) { print "plan: " name ": due " words[n] "?" >"/dev/stderr"; bad = 2; exit }
        if (now >= i && (!share || part[2] + 0 < share)) share = part[2] ? part[2] + 0 : 1
    }
    if (only != "") return name ~ "^(" only ")"
    if (!share) return 0
    return share == 1 || at == "release" || at == "landing" && (number in is_changed) || draw(of " " name) % share == 0
}
function with(text, entry, path,    stem, number) {
    stem = entry
    sub(/.*\//, "", stem)
    number = entry
    sub(/[_\/].*/, "", number)
    gsub(/[{]n[}]/, number, text)
    gsub(/[{]stem[}]/, stem, text)
    gsub(/[{]path[}]/, path, text)
    gsub(/[{][a-z]+[}]/, entry, text)
    return text
}
function row(entry, path,    number, i) {
    number = entry ~ /^[0-9][0-9]/ ? substr(entry, 1, 2) : "-"
    for (i in several) gsub("[$]" substr(i, 2), several[i], inputs)
    print with(name, entry), number, with(claim, entry), with(command, entry, path), with(inputs, entry, path),
        due(when, with(name, entry), number) ? "due" : "not drawn"
}
function rows(    kind, e) { # of what was read last
    if (name == "") return
    if (command == "" || inputs == "") { print "plan: " name ": no command < inputs" >"/dev/stderr"; bad = 2; exit }
    if (!match(name, /[{][a-z]+[}]/)) { row("-"); return }
    kind = substr(name, RSTART + 1, RLENGTH - 2)
    if (!entries[kind]) { print "plan: " name ": nothing is listed as " kind >"/dev/stderr"; bad = 2; exit }
    for (e = 1; e <= entries[kind]; e++) row(list[kind, e], path[kind, e])
}
BEGIN { OFS = "\t" }
FNR == NR { list[$1, ++entries[$1]] = $2; path[$1, entries[$1]] = $3; next }
/^#/ || /^$/ { next }
/^[$]/ { several[$1] = $0; sub(/^[^ ]+ +/, "", several[$1]); next }
/^[^ ]/ {
    rows()
    name = $1
    when = claim = ""
    for (i = 2; $i ~ /^(check|landing|release)(:[0-9]+)?$/; i++) when = when " " $i
    for (; i <= NF; i++) claim = claim (claim == "" ? "" : " ") $i
    if (when == "" || claim == "") {
        print "plan: " FILENAME ":" FNR ": no name, stage, sentence" >"/dev/stderr"
        bad = 2
        exit
    }
    command = inputs = ""
    next
}
{
    at_inputs = match($0, /(^| ) +< +/)
    said = at_inputs ? substr($0, 1, RSTART - 1) : $0
    sub(/^ +/, "", said)
    if (said != "") command = command (command == "" ? "" : " ") said
    if (at_inputs) inputs = inputs (inputs == "" ? "" : " ") substr($0, RSTART + RLENGTH)
}
END { if (bad) exit bad; rows() }
