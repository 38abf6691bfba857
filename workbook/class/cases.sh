#!/bin/sh
# cases.sh FILE [ask] - reads a file of private cases, lines "NN checkpoint CASE", empty ones and remarks (#), for the
# graders: a line that names no checkpoint would be passed over, and one that no function passes lost by the whole
# class. `ask`: the reference solution is asked, where it is. Exit status: 0, or 2 after a sentence for each such line.
cd "$(dirname "$0")/../.." || exit 1
[ -r "$1" ] || { echo "there is no case file $1" >&2; exit 2; }
awk -v file="$1" '
FILENAME != file { if ($0 !~ /^#/ && NF) known[substr(FILENAME, 10, 2) " " $1]; next }
/^[ \t]*(#|$)/ { next }
NF != 3 { wrong = "is not of the form NN checkpoint CASE" }
NF == 3 && !(($1 " " $2) in known) {
    wrong = "there is no checkpoint " $2 " of problem " $1 " in problems/NN/checkpoints.txt"
}
wrong { printf "case file %s, line %d: %s\n", file, FNR, wrong | "cat >&2"; failed = 2; wrong = "" }
END { close("cat >&2"); exit failed }' problems/[0-9][0-9]/checkpoints.txt "$1" || exit
[ -n "${2:-}" ] && [ -d solutions ] || exit 0
umask 022 # what is built here is everybody's
echo "private cases: the reference solution is asked of each"
grep -nvE '^[[:space:]]*(#|$)' "$1" | sed 's|:| |' | {
    failed=0
    while read -r line number _ case; do
        said=$(${MAKE:-make} --no-print-directory "test-$number" IMPL=solutions BACKEND=cpu CASE="${case% }" \
            SANITIZE=0 COVERAGE=0 2>&1 </dev/null) && continue
        said=$(echo "$said" | sed -n '/^  \(SKIP\|FAIL\)  /{n;s/^ *//p;q;}')
        echo "case file $1, line $line: the reference solution does not pass $case: $said" >&2
        failed=2
    done
    exit $failed
}
