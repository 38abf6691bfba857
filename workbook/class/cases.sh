#!/bin/sh
# cases.sh FILE [ask] - reads a file of private cases, lines "NN checkpoint CASE", empty ones and remarks (#), for the
# graders: a line that names no checkpoint would be passed over, and one that no function passes lost by the whole
# class. `ask`: the reference solution is asked, where it is. Exit status: 0, or 2 after a sentence for each such line.
cd "$(dirname "$0")/../.." || exit 1
[ -r "$1" ] || { echo "there is no case file $1" >&2; exit 2; }
ask=$([ ! -d solutions ] || echo "${2:-}")
[ -z "$ask" ] || echo "private cases: running the reference solution on each"
umask 022 # what is built here is everybody's
tr -d '\r' <"$1" | grep -nvE '^[[:space:]]*(#|$)' | sed 's|:| |' | {
    failed=0
    while read -r line number checkpoint case more; do
        wrong=
        if [ -z "$case" ] || [ -n "$more" ]; then
            wrong="is not of the form NN checkpoint CASE"
        elif ! cut -d ' ' -f 1 "problems/$number/checkpoints.txt" 2>/dev/null | grep -qxF -e "$checkpoint"; then
            wrong="there is no checkpoint $checkpoint of problem $number in problems/NN/checkpoints.txt"
        elif [ -n "$ask" ]; then
            said=$(${MAKE:-make} --no-print-directory "test-$number" IMPL=solutions BACKEND=cpu CASE="$case" \
                SANITIZE=0 COVERAGE=0 2>&1 </dev/null) ||
                wrong="the reference solution does not pass $case: $(
                    echo "$said" | sed -n '/^  \(SKIP\|FAIL\)  /{n;s/^ *//p;q;}')"
        fi
        [ -z "$wrong" ] || { echo "case file $1, line $line: $wrong" >&2; failed=2; }
    done
    exit $failed
}
