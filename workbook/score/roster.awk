# roster.awk - grades.csv by the names of a roster, a table whose first column has them: its lines, each with what the
# submission NAME, NAME.zip or NAME_... has. Who is in one of the two alone is told as an error.
#   awk -v roster=FILE -f roster.awk grades.csv
function first(line,    cell) { # the first cell, without its quotes; `rest` is what follows it
    sub(/\r$/, "", line)
    if (!match(line, /^"([^"]|"")*"/)) match(line, /^[^,]*/)
    rest = substr(line, RLENGTH + 1)
    cell = substr(line, 1, RLENGTH)
    if (cell ~ /^"/) { cell = substr(cell, 2, length(cell) - 2); gsub(/""/, "\"", cell) }
    return cell
}
{ name[NR] = first($0); row[NR] = rest }
END {
    (getline line <roster)
    sub(/\r$/, "", line)
    print line row[1]
    none = row[1]
    gsub(/[^,]/, "", none)
    while ((getline line <roster) > 0) {
        if ((who = first(line)) == "") continue
        found = 0
        for (loose = 0; loose < 2 && !found; loose++)
            for (i = 2; i <= NR && !found; i++)
                if (loose ? index(name[i], who "_") == 1 : name[i] == who || index(name[i], who ".") == 1) found = i
        taken[found]
        sub(/\r$/, "", line)
        print line (found ? row[found] : none)
        if (!found) print "grade-all: nothing was handed in by " who | "cat >&2"
    }
    for (i = 2; i <= NR; i++) if (!(i in taken)) print "grade-all: not in the roster: " name[i] | "cat >&2"
}
