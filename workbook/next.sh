#!/bin/sh
# next.sh NN... - the one thing to do now: the first problem that has not passed, or has changed since; its lesson, what is
# missing, and what to type. next.sh --number NN... prints that number alone, nothing if all have passed.
set -u
only_number=
if [ "$1" = --number ]; then only_number=yes; shift; fi

standing=$(workbook/standing.sh "$@")
first=$(echo "$standing" | awk -F '\t' '$3 != "passed" || $9 { print; exit }')
if [ -n "$only_number" ]; then
    echo "$first" | cut -f1
    exit 0
fi
field() { echo "$first" | cut -f"$1"; }
say() { printf '  %-9s %s\n' "$1" "$2"; }
more() { # for who has passed all that is required
    say speed "make bench-03 plot-03: yours beside the naive baseline and the answer key"
    say races "make sanitize: what no result shows"
    say inputs "make test SEED=7"
    [ ! -d solutions ] || say reading "make diff-03: yours against the key; make test-03 IMPL=solutions; solutions/*/variants"
}

if [ -z "$first" ]; then
    echo "Everything has passed: $(workbook/progress.sh "$@" | sed -n 's/^Score: //p')."
    echo
    more
    exit 0
fi

number=$(field 1) state=$(field 3) title=$(field 7) test=$(field 8) changed=$(field 9) file=$(field 10)
bonus=
[ "$(field 6)" = 0 ] || bonus=yes
[ -z "$bonus" ] || { echo "All that is required has passed."; echo; more; echo; }
echo "Now: $number $(field 2)${bonus:+, a bonus problem}. $state, $(field 4) of $(field 5) points."
echo
say lesson "problems/$number/README.md"
if [ "$state" = "no file" ]; then
    say type "make reset-$number, which brings the skeleton back"
    exit 0
fi
say file "$file"
if [ "$changed" = 1 ]; then
    say type "make test-$number: the file has changed since its last tests"
    exit 0
fi
case $state in
"not started") say type "make test-$number, when the first gap is filled; make watch does it at every save" ;;
failed)
    [ "$title" = - ] || say missing "$title"
    [ "$test" = - ] || say test "$test"
    # The case of that test, if the report tells it: it is not always the first failure.
    again=$(awk -v test="$test" '
        $1 == "FAIL" { here = $2 }
        here == test && $1 == "test" && sub(/.*CASE=/, "") { print; exit }' "build/grade/$number.report" 2>/dev/null)
    if [ -n "$again" ]; then say type "make test-$number CASE=$again"; else say type "make test-$number VERBOSE=1"; fi
    ;;
*) say type "make test-$number" ;;
esac
gap=$(workbook/gaps.sh "$number" | awk -F '\t' '$1 == "untouched" { print $3; exit }')
if [ -n "$gap" ]; then
    say hint "make hint-$number: the gap \"$gap\" is as shipped"
elif [ "$state" = failed ]; then
    say hint "make hint-$number lists the gaps; make sanitize-$number looks at every access"
fi
