#!/bin/sh
# points.sh - the grader's arithmetic, on records written by hand: what is won, what not, and nothing by silence.
set -u
score=build/${BACKEND:-cpu}/wb
. tests/prove/frame.sh
said=$scratch/table
record() { # NN STATE [TEST...]: a test is NAME, FAIL:NAME or SKIP:NAME; a private case is NAME@CHECKPOINT
    number=$1
    { # in the form of score/outcome.h
        printf '{"state": "%s", "report": "said \\u001b[1m \\"this\\" <\377>\\n", "tests": [' "$2"
        shift 2
        for test; do
            case $test in *:*) status=${test%%:*} test=${test#*:} ;; *) status=ok ;; esac
            case $test in *@*) checkpoint=${test#*@} ;; *) checkpoint= ;; esac
            printf '{"status": "%s", "test": "%s", "checkpoint": "%s"}, ' "$status" "${test%@*}" "$checkpoint"
        done
        printf 'null]}\n'
    } >"$scratch/$number.json"
}
all_of() { awk -F'|' '!/^#/ { gsub(/if:/, "", $3); print $3 }' "problems/$1/checkpoints.txt" | tr '\n' ' '; }
won() { # POINTS NN WHAT STATE [TEST...]: of such a record
    points=$1 number=$2 what=$3
    shift 3
    record "$number" "$@"
    "$score" points "$scratch" "$number" >"$scratch/table" || { fail "$what: exit status $?"; return; }
    got=$(awk -F'\t' -v n="$number" '$1 == n { print $4 }' "$scratch/scores.tsv")
    check "$what$([ "$got" = "$points" ] || echo ": $got points, should be $points")" [ "$got" = "$points" ]
}

# shellcheck disable=SC2046
won 200 03 "all tests passed: all points" passed $(all_of 03)
won 0 03 "results left from before a compile error win nothing" "compile error" $(all_of 03)
won 0 03 "a suite that could not run wins nothing" "could not run" $(all_of 03)
won 0 03 "no results win nothing, whatever the state says" passed
won 40 03 "one checkpoint" failed O_of_one_tile
won 0 03 "a checkpoint without its prerequisite" failed O_of_many_tiles
won 0 03 "its prerequisite has failed" failed FAIL:O_of_one_tile O_of_many_tiles
won 0 03 "a test that was skipped has not passed" failed SKIP:O_of_one_tile
won 40 03 "a name with a test's name as its prefix" failed O_of_one_tile O_of_one_tileX
won 0 03 "a private case that fails" failed O_of_one_tile FAIL:case@tile
won 40 03 "a private case that passes" failed O_of_one_tile case@tile
won 40 03 "a private case of another checkpoint" failed O_of_one_tile FAIL:case@tiles
won 0 03 "a private case alone" failed case@tile
record 03 passed $(all_of 03) && head -c 300 "$scratch/03.json" >"$scratch/cut" && mv "$scratch/cut" "$scratch/03.json"
check "a damaged record wins nothing" eval '"$score" points "$scratch" 03 | grep -q "^  03 .* not run *0 / 200"'
most=$(all_of 06 | sed 's/hidden_tiles_are_not_loaded//')
won 50 06 "a test that may lack a verdict lacks it" passed $most SKIP:hidden_tiles_are_not_loaded
won 40 06 "the same test fails" failed $most FAIL:hidden_tiles_are_not_loaded
won 40 06 "the same test has not run" failed $most
won 20 08 "dK needs dV, too" failed delta dk_one_tile dk_many_tiles

# What there is to win, counted here from the tables of checkpoints.
possible() { awk -F'|' '!/^#/ && NF > 1 { split($1, field, " "); sum += field[2] } END { print sum + 0 }' "$@"; }
all=$(possible problems/[0-9][0-9]/checkpoints.txt)
of_group() { "$score" total "$scratch/none" | sed "s|.*$1[^0-9]* 0/\([0-9]*\).*|\1|"; }
required=$(of_group Score) bonus=$(of_group bonus) beyond=$(of_group beyond)
[ $((required + bonus + beyond)) -eq "$all" ] && [ "$all" -gt "$required" ] && [ "$required" -gt 0 ]
verdict $? "the groups add up to all points"
grep -q "Score: 0/$required (+ bonus 0/$bonus, beyond 0/$beyond)\$" problems/README.md &&
    tr '\n' ' ' <README.md | grep -q "$required required points, $bonus bonus points (08 and 09), and $beyond points"
verdict $? "README and first hour have these sums: $required, $bonus, $beyond"
grep -q "^Score: 40/$required (+ bonus 20/$bonus.*), with the last runs of 06\$" "$scratch/table" &&
    [ "$(sed -n 's/^  \([0-9][0-9]\)  .*/\1/p' "$scratch/table")" = 08 ]
verdict $? "the sum names the earlier runs it includes; the table shows only this one"
rm "$scratch"/0*; "$score" points "$scratch" 01 >"$scratch/table"
grep -q "^Score: 0/$required (+ bonus 0/$bonus[^)]*)\$" "$scratch/table"
verdict $? "an empty folder"
exit $failed
