#!/bin/sh
# broken.sh NN_ENTRY - a broken kernel, an entry of NN.diff here, an edit of the key, is reported by the check build as
# the kind and with the lines that its entry names. known: the kind of report; line: text of each source line that the
# first report must show; shows: what else it says; section: what it says to read; case: what to run. "nothing": a
# kernel that does what others do wrong, and is right.
set -u
. tests/prove/frame.sh
entry=$1 number=${1%%_*} limit=${WB_TIMEOUT:-600}
told() { awk -v list="tests/sanitize/$number.diff" -v entry="${entry#*_}" -v tell="$1" -f workbook/loop/edit.awk; }
worker=build/cpu/check/broken/$entry/${number}_worker want=$(told known) given=$(told case)
[ -n "$want" ] || { fail "$entry: no entry"; exit 1; }
in_c=$(ls "solutions/$number"/*.c 2>/dev/null)
if [ -n "$in_c" ]; then
    WB_TIMEOUT=$limit build/cpu/wb look "$worker" "$given" >"$scratch/report"; status=$?
else
    build/cpu/wb within "$limit" "$worker" --case "$given" --guard 0 >"$scratch/report" 2>&1
    status=$?
fi
[ $status -ne 75 ] || exit 75 # too little of a busy machine
cat "$scratch/report"
got=$(sed -n 's/^\(sanitize\|cudacpu\): //p' "$scratch/report" | head -n 1)
case ${got:-nothing} in "$want"*) ;; *) fail "reported as '${got:-nothing}', exit status $status, wanted: $want" ;; esac
[ $status -eq 66 ] || [ "$status$want" = 0nothing ] || { [ $status -ne 0 ] && [ -n "$in_c" ]; } ||
    fail "exit status $status"
awk '/^ *(and [0-9]+ more|read) /{exit} {print}' "$scratch/report" >"$scratch/first" # in full
told line >"$scratch/lines"
while IFS= read -r line; do
    grep -F '| ' "$scratch/first" | grep -qF -- "$line" || fail "does not show the line: $line"
done <"$scratch/lines"
told shows >"$scratch/lines"
while IFS= read -r text; do grep -qF -- "$text" "$scratch/first" || fail "does not say: $text"; done <"$scratch/lines"
page=problems/when-it-is-wrong-but-runs.md
case $entry in
02_no_barrier | 02_tail_past_the_end | 03_no_wait) # the page shows them; long lines are wrapped there
    sed "s|build/cpu/check/broken/$entry/|problems/$number/|; s/^cudacpu: /sanitize: /; s/^ *//" "$scratch/report" |
        sed -n '/^sanitize: /,$p' >"$scratch/lines"
    tr -s ' \n' ' ' <$page >"$scratch/page"
    while IFS= read -r text; do
        grep -qF -- "$(echo "$text" | tr -s ' ')" "$scratch/page" || fail "$page does not show: $text"
    done <"$scratch/lines"
    ;;
esac
section=$(sed -n 's/^ *read .*"\(.*\)"$/\1/p' "$scratch/report") wanted=$(told section)
[ -z "$section" ] || grep -qxF "## $section" $page || fail "no such section: $section"
[ -z "$wanted" ] || [ "$section" = "$wanted" ] || fail "read \"$section\", not \"$wanted\""
[ $failed -ne 0 ] || echo "reported: $want"
exit $failed
