#!/bin/sh
# score.sh - points and the page of make report, on records written by hand: what is won, what not, and nothing by
# silence; what the page says, and that no text of a student becomes markup.
set -u
out=build/${BACKEND:-cpu} wb=build/${BACKEND:-cpu}/wb
. tests/prove/frame.sh
base=$(mktemp -d "$out/score_test.XXXXXX") || exit 2
trap 'rm -rf "$scratch" "$base"' EXIT
trap 'exit 2' INT TERM
said=$scratch/table
# Markup, what ends a script, controls, what is no UTF-8, a text that runs from right to left, and 0.
evil='</pre></script><!-- <script> --> <script>document.title = "evil"</script>'
evil="$evil<img src=x onerror=\"document.title = 1\"> &lt; @runs@"
quoted() { printf '%s' "$1" | sed 's/[\\"]/\\&/g; 1s/^/"/; $s/$/"/' | sed '$!s/$/\\n/' | tr -d '\n'; } # for JSON
record() { # FOLDER NN STATE TESTS, and a report from standard input: in the form of score/outcome.h
    {
        printf '{"state": %s, "tests": [%s], "date": "2026-01-%s", "machine": %s, "report": ' "$(quoted "$3")" "$4" \
            "$2" "$(quoted "$evil")"
        quoted "$(cat)"
        echo '}'
    } >"$1/$2.json"
}
tests() { # TEST...: each is NAME, FAIL:NAME or SKIP:NAME; a private case is NAME@CHECKPOINT
    for test; do
        case $test in *:*) status=${test%%:*} test=${test#*:} ;; *) status=ok ;; esac
        case $test in *@*) checkpoint=${test#*@} ;; *) checkpoint= ;; esac
        printf '{"status": "%s", "test": "%s", "checkpoint": "%s"}, ' "$status" "${test%@*}" "$checkpoint"
    done
    echo null
}
all_of() { awk -F'|' '!/^#/ { gsub(/if:/, "", $3); print $3 }' "problems/$1/checkpoints.txt" | tr '\n' ' '; }

# ------------------------ points

won() { # POINTS NN WHAT STATE [TEST...]: of such a record
    points=$1 number=$2 what=$3 state=$4
    shift 4
    printf 'said \033[1m "this" <\377>\n' | record "$scratch" "$number" "$state" "$(tests "$@")"
    "$wb" points "$scratch" "$number" >"$said" || { fail "$what: exit status $?"; return; }
    got=$(sed -n "s|^  $number .* \([0-9]*\) / .*|\1|p" "$said")
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
won 200 03 "and again" passed $(all_of 03)
head -c 300 "$scratch/03.json" >"$scratch/cut" && mv "$scratch/cut" "$scratch/03.json"
check "a damaged record wins nothing" eval '"$wb" points "$scratch" 03 | grep -q "^  03 .* not run *0 / 200"'
most=$(all_of 06 | sed 's/hidden_tiles_are_not_loaded//')
won 50 06 "a test that may lack a verdict lacks it" passed $most SKIP:hidden_tiles_are_not_loaded
won 40 06 "the same test fails" failed $most FAIL:hidden_tiles_are_not_loaded
won 40 06 "the same test has not run" failed $most
won 20 08 "dK needs dV, too" failed delta dk_one_tile dk_many_tiles

# What there is to win, counted here from the tables of checkpoints.
possible() { awk -F'|' '!/^#/ && NF > 1 { split($1, field, " "); sum += field[2] } END { print sum + 0 }' "$@"; }
all=$(possible problems/[0-9][0-9]/checkpoints.txt)
of_group() { "$wb" total "$scratch/none" | sed "s|.*$1[^0-9]* 0/\([0-9]*\).*|\1|"; }
required=$(of_group Score) bonus=$(of_group bonus) beyond=$(of_group beyond)
[ $((required + bonus + beyond)) -eq "$all" ] && [ "$all" -gt "$required" ] && [ "$required" -gt 0 ]
verdict $? "the groups add up to all points"
grep -q "Score: 0/$required (+ bonus 0/$bonus, beyond 0/$beyond)\$" problems/README.md &&
    tr '\n' ' ' <README.md | grep -q "$required required points, $bonus bonus points (08 and 09), and $beyond points"
verdict $? "README and first hour have these sums: $required, $bonus, $beyond"
grep -q "^Score: 40/$required (+ bonus 20/$bonus.*), with the last runs of 06\$" "$said" &&
    [ "$(sed -n 's/^  \([0-9][0-9]\)  .*/\1/p' "$said")" = 08 ]
verdict $? "the sum names the earlier runs it includes; the table shows only this one"
rm "$scratch"/0*; "$wb" points "$scratch" 01 >"$said"
check "an empty folder" grep -q "^Score: 0/$required (+ bonus 0/$bonus[^)]*)\$" "$said"

# ------------------------ the page

page=$base/report.html
made() { workbook/score/report.sh "${BACKEND:-cpu}" "$(basename "$base")" "$@" >"$said" 2>&1; }
says() { grep -qF -- "$1" "${2:-$page}"; }
made
[ $? -eq 2 ] && says "run make test IMPL=$(basename "$base") first" "$said"
verdict $? "without records it says what to run"
records=$base/grade
mkdir "$records"
# shellcheck disable=SC2046
echo "all passed" | record "$records" 01 passed "$(tests $(all_of 01))"
printf 'what the suite said %s\001\033[2J\377\355\240\200\342\200\256 end\n@runs@\n' "$evil" |
    record "$records" 03 failed \
        "{\"status\": \"FAIL\", \"test\": \"O_of_one_tile\", \"case\": $(quoted "$evil"),
        \"message\": $(quoted "$evil")}"
echo "$evil" | record "$records" 04 "$evil" ''
echo "not yet" | record "$records" 05 "not started" ''
echo "error" | record "$records" 06 "compile error" ''
check "a page is written" made
check "no control characters" [ "$(tr -d '\t\n\040-\176\200-\377' <"$page" | wc -c)" -eq 0 ]
grep -o '<[^> ]*' "$page" | tr -d '</' | sort -u | paste -s -d ' ' - >"$said"
[ "$(cat "$said")" = '!DOCTYPE figure h1 h2 html img meta pre style title' ] &&
    ! grep '<img' "$page" | grep -v '^<figure><img alt="[^"]*" src="data:[^"]*"><.figure>$' >"$said"
verdict $? "only the page's own markup and pictures"
says '&lt;/pre>&lt;/script>&lt;!-- &lt;script> --> &lt;script>document.title = "evil"' && says '> &amp;lt; @runs@'
verdict $? "output of a student's program is shown as text"
score=$("$wb" total "$records")
check "the score is the one of make test: $score" says "<h2>$score</h2>"
says "$("$wb" points "$records" 01 | grep ' 01 ')" && grep -q 'not yet .*: O_of_one_tile fails' "$page"
verdict $? "points, and the test that a checkpoint still needs"
[ "$(sed -n 's/^<h2>\([0-9][0-9] [a-z_]*: [a-z]*\).*/\1,/p' "$page" | tr '\n' ' ')" = \
    "01 tiled_attention: passed, 03 flash_forward: failed, 06 flash_window: compile, " ]
verdict $? "each problem that was started has a section"
echo "my own" >"$scratch/mine"
! made "$scratch/mine" && [ "$(cat "$scratch/mine")" = "my own" ]
verdict $? "another file is not overwritten"
exit $failed
