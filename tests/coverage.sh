#!/bin/sh
# coverage.sh - what ran in no case is told of conditions that no case meets, and not of what says nothing of itself
# (class/threats.md); and whose counters have not all calls, or whose lines say that they are others.
set -u
. tests/prove/frame.sh
: "${ROW:=$scratch/row}"
. tests/prove/judge.sh
grep -q '^GCOV := .' build/tools.mk || exit 77
told() { # NAME: what is said of this edit of the key of 03, of a few cases
    source=$out/planted/$1/flash_forward.cu
    WB_COVERAGE=$scratch/$1
    export WB_COVERAGE
    mkdir "$WB_COVERAGE" && cp "$out/planted/$1/03_counted.gcno" "$WB_COVERAGE/notes" &&
        judge "$out/tests/03_test" "$out/planted/$1/03_worker" "$BACKEND" --filter '*/worked_by_hand' >"$scratch/suite" 2>&1
    [ "$1" != elsewhere ] || echo 1 >>"$WB_COVERAGE/served" # as if they had been set to 0 on the way
    workbook/loop/coverage.sh "$WB_COVERAGE" "$source" flash_forward 
}
# Numbers and ranges, a number a line.
expand() {
    tr -c '0-9-' '\n' | awk -F- '/[0-9]/ { for (n = $1 + 0; n <= ($2 == "" ? $1 : $2); n++) print n }' |
        sort
}

never() { sed -n '/[/][/] never$/=' "$out/planted/$1/flash_forward.cu" | sort; }

told conditions | expand >"$scratch/told"
never conditions | comm -13 "$scratch/told" - >"$said"
[ ! -s "$said" ] && [ "$(never conditions | grep -c .)" = 12 ]
verdict $? "each of 12 planted conditions is told"
told arithmetic | expand >"$scratch/told"
never arithmetic | comm -12 "$scratch/told" - >"$said"
[ ! -s "$said" ]
verdict $? "arithmetic is not, as threats.md says"
told elsewhere >"$said"
grep -q 'these lines may change that: [0-9]' "$said"
verdict $? "who says that lines are others is told"
grep -q 'what ran is not known: of [0-9]* calls' "$said"
verdict $? "and so are calls that the counters do not have"
exit $failed
