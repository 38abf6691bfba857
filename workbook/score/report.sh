#!/bin/sh
# report.sh BACKEND IMPL [FILE] - one HTML page of all that is recorded (report.c): build/report.html, build/BACKEND/IMPL/report.html
# for another IMPL, or FILE. Runs no tests; draws charts that are older than what was measured, and masks that are not drawn yet.
# Exit status: 0 written, 2 nothing is recorded, or the page cannot be written.
set -u
backend=$1 impl=$2
out=build/$backend
if [ "$impl" = problems ]; then base=build with=; else base=$out/$impl with=" IMPL=$impl"; fi
records=$base/grade page=${3:-$base/report.html}

give_up() { echo "report: $*" >&2; exit 2; }
ls "$records"/[0-9][0-9].state >/dev/null 2>&1 || give_up "nothing is recorded in $records yet; run make test$with first"
[ -d "$(dirname "$page")" ] || give_up "there is no folder $(dirname "$page")"
[ ! -d "$page" ] || give_up "$page is a folder; OUT=FILE names the page"
[ ! -e "$page" ] || grep -q '^<meta name="generator" content="FlashAttention workbook' "$page" 2>/dev/null ||
    give_up "$page is not a page of make report; it stays as it is, name another OUT"
mkdir -p build/plots
$MAKE --no-print-directory BACKEND="$backend" "$out/score" "$out/mask" >build/report.log 2>&1 || { cat build/report.log >&2; exit 2; }

for state in "$records"/[0-9][0-9].state; do
    number=$(basename "$state" .state)
    case $(cat "$state") in "not started" | "not run") continue ;; esac
    newest=$(ls -t "$out/results/$number"_*.tsv build/plots/"$number"_*.svg 2>/dev/null | head -n 1)
    case $newest in *.svg) ;; *) plots/plot.sh "$number" "$backend" >/dev/null 2>&1 ;; esac
    [ -f "build/plots/mask_$number.svg" ] || "$out/mask" "$number" --svg "build/plots/mask_$number.svg" >/dev/null 2>&1
done
# shellcheck disable=SC2320
"$out/score" report "$records" "$impl" build/plots >"$page.new" && mv "$page.new" "$page" || { rm -f "$page.new"; give_up "$page cannot be written"; }
echo "written: $page, $(($(wc -c <"$page") / 1024 + 1)) KiB; open it in a browser, or hand it in: it needs no other file"
