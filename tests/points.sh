#!/bin/sh
# points.sh - the grader's arithmetic, on records written by hand: what is won, what is not, and that nothing is
# won by silence.
set -u
score=build/${BACKEND:-cpu}/score
. tests/prove/frame.sh
said=$scratch/table
record() { # NN STATE [TEST...]: a test is NAME, FAIL:NAME or SKIP:NAME; a held-out case is NAME@CHECKPOINT
    number=$1
    echo "$2" >"$scratch/$number.state"
    shift 2
    { # in the form of score/results.h
        printf 'status\ttest\tline\tseconds\tcase\tcheckpoint\tmessage\n'
        for test; do
            case $test in *:*) status=${test%%:*} test=${test#*:} ;; *) status=ok ;; esac
            case $test in *@*) checkpoint=${test#*@} ;; *) checkpoint= ;; esac
            printf '%s\t%s\t0\t0\t\t%s\t\n' "$status" "${test%@*}" "$checkpoint"
        done
    } >"$scratch/$number.results"
    printf 'said \033[1m "this" <\377>\n' >"$scratch/$number.report"
}
all_of() { awk -F'|' '!/^#/ { gsub(/if:/, "", $3); print $3 }' "problems/$1/checkpoints.txt" | tr '\n' ' '; }
expect() { # NN POINTS WHAT
    "$score" points "$scratch" "$1" >"$scratch/table" || { fail "$3: exit status $?"; return; }
    got=$(awk -F'\t' -v n="$1" '$1 == n { print $4 }' "$scratch/scores.tsv")
    check "$3$([ "$got" = "$2" ] || echo ": $got points, should be $2")" [ "$got" = "$2" ]
}

# shellcheck disable=SC2046
record 03 passed $(all_of 03);                                 expect 03 200 "all tests passed: all points"
record 03 "compile error" $(all_of 03);                        expect 03 0 "results left from before a compile error win nothing"
record 03 "could not run" $(all_of 03);                        expect 03 0 "a suite that could not run wins nothing"
record 03 passed;                                              expect 03 0 "no results win nothing, whatever the state says"
record 03 failed O_of_one_tile;                                expect 03 40 "one checkpoint"
record 03 failed O_of_many_tiles;                              expect 03 0 "a checkpoint without what it needs"
record 03 failed FAIL:O_of_one_tile O_of_many_tiles;           expect 03 0 "what it needs has failed"
record 03 failed SKIP:O_of_one_tile;                           expect 03 0 "a test that was skipped has not passed"
record 03 failed O_of_one_tile O_of_one_tileX;                 expect 03 40 "a name that merely begins like a test's"
record 03 failed O_of_one_tile FAIL:case@tile;             expect 03 0 "a held-out case that fails"
record 03 failed O_of_one_tile case@tile;                  expect 03 40 "a held-out case that passes"
record 03 failed O_of_one_tile FAIL:case@tiles;           expect 03 40 "a held-out case of another checkpoint"
record 03 failed case@tile;                                expect 03 0 "a held-out case alone"
most=$(all_of 06 | sed 's/hidden_tiles_are_not_loaded//')
record 06 passed $most SKIP:hidden_tiles_are_not_loaded;       expect 06 50 "a test that may have no verdict has none"
record 06 failed $most FAIL:hidden_tiles_are_not_loaded;       expect 06 40 "the same test fails"
record 06 failed $most;                                        expect 06 40 "the same test has not run"
record 08 failed delta dk_one_tile dk_many_tiles;              expect 08 20 "dK needs dV, too"

# What there is to win, counted here from the tables of checkpoints.
possible() { awk -F'|' '!/^#/ && NF > 1 { split($1, field, " "); sum += field[2] } END { print sum + 0 }' "$@"; }
all=$(possible problems/[0-9][0-9]/checkpoints.txt)
required=$("$score" possible | awk '$1 == "required" { print $2 }') bonus=$("$score" possible | awk '$1 == "bonus" { print $2 }')
[ "$("$score" possible | awk '{ sum += $2 } END { print sum }')" = "$all" ] && [ "$all" -gt "$required" ] && [ "$required" -gt 0 ]
verdict $? "the groups together are all that there is to win"
beyond=$("$score" possible | awk '$1 == "beyond" { print $2 }')
grep -q "Score: 0/$required (+ bonus 0/$bonus, beyond 0/$beyond)\$" problems/README.md &&
    tr '\n' ' ' <README.md | grep -q "$required in all plus a bonus of $bonus and $beyond beyond"
verdict $? "README and the first hour say how much: $required, $bonus, $beyond"
grep -q "^Score: 40/$required (+ bonus 20/$bonus.*), with the last runs of 06\$" "$scratch/table" && [ "$(sed -n 's/^  \([0-9][0-9]\)  .*/\1/p' "$scratch/table")" = 08 ]
verdict $? "the sum says which earlier runs it holds, the table shows this one alone"
"$score" points "$scratch" 03 06 08 >"$scratch/table"
grep -q "^Score: 40/$required (+ bonus 20/$bonus[^)]*)\$" "$scratch/table"
verdict $? "a sum of this run alone says nothing of others"
rm "$scratch"/0*; "$score" points "$scratch" 01 >"$scratch/table"
grep -q "^Score: 0/$required (+ bonus 0/$bonus[^)]*)\$" "$scratch/table"
verdict $? "an empty folder"
"$score" points "$scratch/none" 01 2>/dev/null; [ $? -eq 2 ]
verdict $? "a folder that is not there"

# shellcheck disable=SC2046
record 03 passed $(all_of 03)
for speed in 0.4:0 0.5:0 0.7:10 0.9:20 3:20; do
    echo "${speed%:*}" >"$scratch/03.speed"
    "$score" points "$scratch" 03 >"$scratch/table"
    grep -q "speed_points\":[[:space:]]*${speed#*:}\$" "$scratch/results.json"
    verdict $? "speed points at ${speed%:*} of the key's"
done
record 03 failed O_of_one_tile
"$score" points "$scratch" 03 >"$scratch/table"
grep -q 'speed_points":[[:space:]]*0$' "$scratch/results.json"
verdict $? "no speed points for what is not right"
rm "$scratch/03.speed"

# Other programs read the files: python3's parsers, where there is one.
record 03 failed O_of_one_tile "FAIL:two_key_tiles"
"$score" points "$scratch" 03 >/dev/null
if command -v python3 >/dev/null; then
    python3 - "$scratch" "$all" problems/[0-9][0-9] <<'END'
import json, sys, xml.etree.ElementTree as tree
results = json.load(open(sys.argv[1] + "/results.json", encoding="utf-8"))
assert results["score"] == sum(t["score"] for t in results["tests"]) == 40, results["score"]
assert sum(t["max_score"] for t in results["tests"]) == int(sys.argv[2])
assert all(t["visibility"] == "visible" and t["status"] in ("passed", "failed") for t in results["tests"])
suites = tree.parse(sys.argv[1] + "/junit.xml").getroot()
assert len(suites) == len(sys.argv[3:]) and len(suites.findall(".//failure")) == 1
END
    verdict $? "results.json and junit.xml parse, and add up"
fi
exit $failed
