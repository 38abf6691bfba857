#!/bin/sh
# hint.sh NN - a hint for one gap, from problems/NN/hints.txt. GAP names the gap, or begins its name; without, it is the
# first that the student has not touched. LEVEL is 1 (a question, if none is given), 2 (the idea) or 3 (nearly the answer).
set -u
number=$1 gap=${GAP:-} level=${LEVEL:-1}
hints=problems/$number/hints.txt
if ! [ -f "$hints" ]; then
    known=$(ls problems/*/hints.txt | cut -d/ -f2 | tr '\n' ' ')
    echo "hint-$number: there is no $hints; there are hints for $known" >&2
    exit 1
fi
case $level in
1 | 2 | 3) ;;
*)
    echo "hint-$number: LEVEL=$level: there are three, 1 (a question), 2 (the idea) and 3 (nearly the answer)" >&2
    exit 1
    ;;
esac
gaps=$(workbook/gaps.sh "$number")
quoted() { case $1 in *" "*) printf 'GAP="%s"' "$1" ;; *) printf 'GAP=%s' "$1" ;; esac; }
list() {
    echo "$gaps" | while IFS="$(printf '\t')" read -r state line name; do
        printf '  make hint-%s %-26s %s\n' "$number" "$(quoted "$name")" "$state"
    done
}

# An exact name comes first; then case, - and _ do not matter, and a beginning is enough if only one gap has it.
find_gap() {
    echo "$gaps" | awk -F '\t' -v wanted="$gap" '
        function plain(text) { text = tolower(text); gsub(/[-_ ]+/, " ", text); return text }
        $3 == wanted { exact = $3 }
        plain($3) == plain(wanted) { alike = $3 }
        index(plain($3), plain(wanted)) == 1 { beginning = $3; beginnings++ }
        END { print exact != "" ? exact : alike != "" ? alike : beginnings == 1 ? beginning : "" }'
}
if [ -z "$gap" ]; then
    name=$(echo "$gaps" | awk -F '\t' '$1 == "untouched" { print $3; exit }')
    if [ -z "$name" ]; then
        echo "You have written something in every gap of $number. Which one is it about?"
        echo
        list
        echo
        echo "LEVEL=1 is a question, 2 the idea, 3 nearly the answer. And make test-$number says what is wrong."
        exit 0
    fi
else
    name=$(find_gap)
    if [ -z "$name" ]; then
        { echo "hint-$number: no gap of problem $number, or more than one, begins with \"$gap\". Its gaps:"; list; } >&2
        exit 1
    fi
fi

file=$(ls problems/"$number"/*.cu problems/"$number"/*.c 2>/dev/null | head -n 1)
line=$(echo "$gaps" | awk -F '\t' -v name="$name" '$3 == name && $2 > 0 { print ":" $2 }')
echo "$number, gap \"$name\"${file:+ ($file$line)}, level $level of 3"
echo
awk -v name="$name" -v level="$level" '
    /^#/ { next }
    /^== / { here = substr($0, 4) == name; paragraph = 0; blank = 1; next }
    !here { next }
    /^ *$/ { blank = 1; next }
    blank { paragraph++; blank = 0 }
    paragraph == level { print "  " $0 }' "$hints"
echo
if [ "$level" -lt 3 ]; then
    echo "Still stuck? make hint-$number $(quoted "$name") LEVEL=$((level + 1))"
else
    echo "Write it, then make test-$number. The lesson, problems/$number/README.md, has an example to follow by hand."
fi
if [ -z "$gap" ] && [ "$(echo "$gaps" | grep -c .)" -gt 1 ]; then
    names=$(echo "$gaps" | cut -f3 | sed 's/.*/ "&"/' | tr '\n' ',')
    echo "Another gap: make hint-$number GAP=name, of:${names%,}"
fi
