#!/bin/sh
# report.sh - the page of make report, from records written by hand: what it says; no text of a student becomes markup.
set -u
out=build/${BACKEND:-cpu}
. tests/prove/frame.sh
base=$(mktemp -d "$out/report_test.XXXXXX") || exit 2
trap 'rm -rf "$scratch" "$base"' EXIT
trap 'exit 2' INT TERM
page=$base/report.html
made() { workbook/score/report.sh "${BACKEND:-cpu}" "$(basename "$base")" "$@" >"$said" 2>&1; }
says() { grep -qF -- "$1" "${2:-$page}"; }

made
[ $? -eq 2 ] && says "run make test IMPL=$(basename "$base") first" "$said"
verdict $? "without records it says what to run"

# Markup, what ends a script, controls, what is no UTF-8, a text that runs from right to left, and 0.
evil='</pre></script><!-- <script> --> <script>document.title = "evil"</script>'
evil="$evil<img src=x onerror=\"document.title = 1\"> &lt; @runs@"
mkdir "$base/grade"
quoted() { printf '%s' "$1" | sed 's/[\\"]/\\&/g; 1s/^/"/; $s/$/"/' | sed '$!s/$/\\n/' | tr -d '\n'; } # for JSON
record() { # NN STATE [TESTS], and a report from standard input
    {
        printf '{"state": %s, "tests": [%s], "date": "2026-01-%s", "machine": %s, "report": ' "$(quoted "$2")" \
            "${3:-}" "$1" "$(quoted "$evil")"
        quoted "$(cat)"
        echo '}'
    } >"$base/grade/$1.json"
}
tests=$(awk -F'|' '!/^#/ { print $3 }' problems/01/checkpoints.txt | tr ' ' '\n' | sed 's/^if://; /^$/d')
echo "all passed" | record 01 passed "$(echo "$tests" | sed 's/.*/{"status": "ok", "test": "&"},/') null"
{ printf 'what the suite said %s\001\033[2J\377\355\240\200\342\200\256 end\n@runs@\n' "$evil"; } | record 03 failed \
    "{\"status\": \"FAIL\", \"test\": \"O_of_one_tile\", \"case\": $(quoted "$evil"), \"message\": $(quoted "$evil")}"
echo "$evil" | record 04 "$evil"
echo "not yet" | record 05 "not started"
echo "error" | record 06 "compile error"

made
verdict $? "a page is written"
[ "$(tr -d '\t\n\040-\176\200-\377' <"$page" | wc -c)" -eq 0 ]
verdict $? "no control characters"
grep -o '<[^> ]*' "$page" | tr -d '</' | sort -u | paste -s -d ' ' - >"$said"
[ "$(cat "$said")" = '!DOCTYPE figure h1 h2 html img meta pre style title' ] &&
    ! grep '<img' "$page" | grep -v '^<figure><img alt="[^"]*" src="data:[^"]*"><.figure>$' >"$said"
verdict $? "only the page's own markup and pictures"
says '&lt;/pre>&lt;/script>&lt;!-- &lt;script> --> &lt;script>document.title = "evil"' && says '> &amp;lt; @runs@'
verdict $? "output of a student's program is shown as text"
score=$("$out/wb" total "$base/grade")
says "<h2>$score</h2>"
verdict $? "the score is the one of make test: $score"
says "$("$out/wb" points "$base/grade" 01 | grep ' 01 ')" && grep -q 'not yet .*: O_of_one_tile fails' "$page"
verdict $? "points, and the test that a checkpoint still needs"
[ "$(sed -n 's/^<h2>\([0-9][0-9] [a-z_]*: [a-z]*\).*/\1,/p' "$page" | tr '\n' ' ')" = \
    "01 tiled_attention: passed, 03 flash_forward: failed, 06 flash_window: compile, " ]
verdict $? "each problem that was started has a section"
echo "my own" >"$scratch/mine"
! made "$scratch/mine" && [ "$(cat "$scratch/mine")" = "my own" ]
verdict $? "another file is not overwritten"
exit $failed
