#!/bin/sh
# report.sh - the page of make report, made of records written by hand: what it says, and that nothing of a student's
# becomes markup. With a browser (chromium, or WB_BROWSER) it is looked at: what the script shows, and the console.
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

made
verdict $? "a page is written"
data=$(sed -n '/^<script type="application\/json"/,/^<\/script>/p' "$page" | sed '1d; $d')
! echo "$data" | grep -q '<'
verdict $? "the embedded records contain no <"
scripts() { grep -o '<script' "$1" | wc -l; }
[ "$(scripts "$page")" -eq "$(scripts workbook/score/report.html)" ] && ! grep -q '<img src=x' "$page"
verdict $? "only the page's own script and pictures"
[ "$(tr -d '\t\n\040-\176\200-\377' <"$page" | wc -c)" -eq 0 ]
verdict $? "no control characters"
! grep -qE 'innerHTML|outerHTML|insertAdjacentHTML|document.write|eval|Function' workbook/score/report.html
verdict $? "its script makes text, never markup"
echo "my own" >"$scratch/mine"
! made "$scratch/mine" && [ "$(cat "$scratch/mine")" = "my own" ]
verdict $? "another file is not overwritten"

browser=${WB_BROWSER:-}
for candidate in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || ! command -v $candidate >/dev/null || browser=$candidate
done
if [ -z "$browser" ]; then
    echo "not run: the browser's part, there is no chromium (WB_BROWSER=PROGRAM names another)"
    exit $failed
fi
shown=$scratch/shown
"$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" --enable-logging=stderr \
    --virtual-time-budget=2000 --dump-dom "file://$PWD/$page" >"$shown" 2>"$scratch/errors"
verdict $? "$browser shows the page"
! grep CONSOLE "$scratch/errors"
verdict $? "without a complaint"
score=$("$out/wb" total "$base/grade")
says "<p id=\"score\">$score</p>" "$shown"
verdict $? "the score is the one of make test: $score"
for number in $(ls problems | grep -x '[0-9][0-9]'); do
    started=$(grep -c "<section id=\"p$number\">" "$shown") # 04 has a state that is none
    case $number in 01 | 03) want=1 ;; *) want=0 ;; esac
    [ "$started" -eq $want ] && grep -q ">$number [a-z0-9_]*<" "$shown" || echo "problem $number"
done >"$said"
check "the table has all problems, and each started one has a section" [ ! -s "$said" ]
says '<td>200 / 200</td>' "$shown" && says '<code>failed: O_of_one_tile</code>' "$shown"
verdict $? "points, and the test that a checkpoint still needs"
says '<title>FlashAttention workbook: report</title>' "$shown" && says '&lt;script&gt;document.title' "$shown" &&
    ! says '<img src="x"' "$shown"
verdict $? "output of a student's program is shown as text"
exit $failed
