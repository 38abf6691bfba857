#!/bin/sh
# report.sh BACKEND IMPL [FILE] - one HTML page of all that is recorded: build/report.html,
# build/BACKEND/IMPL/report.html for another IMPL, or FILE. It is report.html with results.json and pictures put in, so
# it needs no other file. Runs no tests. Exit status: 0 written, 2 nothing is recorded, or the page cannot be written.
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

picture() { # SVG NN WHAT: an image, in which no script runs
    [ ! -f "$1" ] || printf '<figure data-problem="p%s"><img alt="%s" src="data:image/svg+xml;base64,%s"></figure>\n' \
        "$2" "$3" "$(base64 <"$1" | tr -d '\n')"
}
started= # the problems that are recorded as more than "not started" and "not run"
for record in "$records"/[0-9][0-9].json; do
    case $("$out/wb" show "$record" state) in 'not '*) ;; *) started="$started $(basename "$record" .json)" ;; esac
done
"$out/wb" points "$records" >/dev/null || give_up "the records in $records cannot be read"
# In JSON a "<" stands in strings alone. Without any, no text can end the script or begin a comment.
sed 's/</\\u003c/g' "$records/results.json" >"$work/results"
for number in $started; do echo "$number: $("$out/wb" show "$records/$number.json" run)"; done | "$out/wb" plain | sed 's/&/\&amp;/g; s/</\&lt;/g' >"$work/runs"
for number in $started; do
    for chart in build/plots/"$number"_*.svg; do
        picture "$chart" "$number" "Chart of problem $number: $(basename "$chart" .svg | sed 's/.*_//') against size"
    done
    picture "plots/mask_$number.svg" "$number" "Mask of problem $number: which query sees which key"
done >"$work/pictures"
picture build/plots/roofline_chart.svg all Roofline >>"$work/pictures"

for part in results runs pictures; do printf '/^@%s@$/{\nr %s\nd\n}\n' $part "$work/$part"; done >"$work/edit"
sed -f "$work/edit" workbook/score/report.html >"$work/page" && cp "$work/page" "$page" 2>/dev/null ||
    give_up "$page cannot be written"
kib=$(($(wc -c <"$page") / 1024 + 1))
echo "written: $page, $kib KiB; open it in a browser or hand it in; it needs no other file"
