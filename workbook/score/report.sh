#!/bin/sh
# report.sh BACKEND IMPL [FILE] - one HTML page of all that is recorded: build/report.html,
# build/BACKEND/IMPL/report.html for another IMPL, or FILE: points, what each suite said, and pictures. It needs no
# other file and runs no script. Runs no tests. Exit status: 0 written, 2 nothing is recorded, or the page cannot be
# written.
set -u
out=build/$1
if [ "$2" = problems ]; then base=build with=; else base=$out/$2 with=" IMPL=$2"; fi
records=$base/grade page=${3:-$base/report.html}

give_up() { echo "report: $*" >&2; exit 2; }
ls "$records"/[0-9][0-9].json >/dev/null 2>&1 ||
    give_up "nothing is recorded in $records yet; run make test$with first"
[ ! -d "$page" ] || give_up "$page is a folder; OUT=FILE names the page"
[ ! -e "$page" ] || grep -q '^<meta name="generator" content="FlashAttention workbook' "$page" 2>/dev/null ||
    give_up "$page was not written by make report and is left as it is; name another OUT"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

text() { "$out/wb" plain | sed 's/&/\&amp;/g; s/</\&lt;/g'; } # from standard input: no markup
section() { printf '<h2>%s</h2>\n<pre>' "$(echo "$1" | text)"; text; echo '</pre>'; } # HEADING
picture() { # SVG WHAT: an image, in which no script runs
    [ ! -f "$1" ] || printf '<figure><img alt="%s" src="data:image/svg+xml;base64,%s"></figure>\n' "$2" \
        "$(base64 <"$1" | tr -d '\n')"
}
# shellcheck disable=SC2046
"$out/wb" points "$records" $(ls problems | grep -x '[0-9][0-9]') >"$work/points" ||
    give_up "the records in $records cannot be read"
{
    cat <<'END'
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="generator" content="FlashAttention workbook, make report">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>FlashAttention workbook: report</title>
<style>
:root { color-scheme: light dark; }
body { max-width: 62rem; margin: 0 auto; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
h2 { margin: 2.5rem 0 0.5rem; font-size: 1.25rem; border-top: 1px solid; padding-top: 1rem; }
pre { overflow-x: auto; unicode-bidi: isolate; font: 0.8rem/1.4 monospace; }
figure { margin: 1rem 0; max-width: 46rem; }
img { width: 100%; background: #fff; }
@media print { pre { white-space: pre-wrap; } }
</style>
<h1>FlashAttention workbook: report</h1>
END
    section "$(tail -n 1 "$work/points")" <"$work/points"
    for record in "$records"/[0-9][0-9].json; do
        number=$(basename "$record" .json) state=$("$out/wb" show "$record" state)
        case $state in 'not '*) continue ;; esac
        [ "$2" != problems ] || state=$("$out/wb" standing "$number") # of the file as it is now
        echo "$number: $("$out/wb" show "$record" run)" >>"$work/runs"
        "$out/wb" show "$record" report | section "$number $(basename tests/"$number"_*.c .c | cut -d_ -f2-): $state"
        for chart in build/plots/"$number"_*.svg; do
            picture "$chart" "Chart of problem $number: $(basename "$chart" .svg | sed 's/.*_//') against size"
        done
        picture "plots/mask_$number.svg" "Mask of problem $number: which query sees which key"
    done
    picture build/plots/roofline_chart.svg Roofline
    section "When, where and with which seed the tests ran" <"$work/runs"
    echo '</html>'
} >"$work/page" && cp "$work/page" "$page" 2>/dev/null || give_up "$page cannot be written"
kib=$(($(wc -c <"$page") / 1024 + 1))
echo "written: $page, $kib KiB; open it in a browser or hand it in; it needs no other file"
