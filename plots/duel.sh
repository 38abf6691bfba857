#!/bin/sh
# duel.sh [BACKEND] - draws what reference/duel.py has found to build/plots/duel_sorted.svg, duel_work.svg and
# duel_predicted.svg, and as PNG; with TERM=dumb in the terminal as well. The table is that of the last `make duel` here
# (or $WB_DATA); where there is none, the recorded ones of plots/data, all seeds together.
set -u
cd "$(dirname "$0")/.." || exit 1
. plots/draw.sh
data=${WB_DATA:-$(ls -t build/"${1:-cpu}"/results/duel_seed*.tsv 2>/dev/null | head -n 1)} kind='measured here:'
[ -n "$data" ] || data=$(echo plots/data/*/duel_seed*.tsv) kind='recorded:'
if ! awk '!/^#/ && $1 != "kind" { n++ } END { exit !n }' $data 2>/dev/null; then
    echo "plot: no duel: nothing measured here (make duel) and nothing recorded (plots/data/*/duel_seed*.tsv)"
    exit 1
fi
first=${data%% *}
source="$kind $(field "$first" gpu), $(field "$first" date), commit $(field "$first" commit), $(echo "$data" | wc -w) seed(s)"
draw plots/duel.gp build/plots/duel "chart_data='$data'; source='$(echo "$source" | plain)'"
echo "drawn: build/plots/duel_sorted.svg, duel_work.svg and duel_predicted.svg, and .png"
