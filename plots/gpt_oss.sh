#!/bin/sh
# gpt_oss.sh [BACKEND] - draws the losses of reference/gpt_oss.py to build/plots/gpt_oss_loss.svg and .png; with
# TERM=dumb in the terminal as well. The table is that of the last `make gpt-oss` here (or $WB_DATA); where there is
# none, the recorded one of plots/data.
set -u
cd "$(dirname "$0")/.." || exit 1
. plots/draw.sh
data=${WB_DATA:-build/${1:-cpu}/results/gpt_oss.tsv} kind='measured here:'
[ -s "$data" ] || data=$(ls plots/data/*/gpt_oss.tsv 2>/dev/null | head -n 1) kind='recorded:'
if [ -z "$data" ]; then
    echo "plot: no losses of gpt-oss: nothing measured here (make gpt-oss) and nothing recorded" \
        "(plots/data/*/gpt_oss.tsv)"
    exit 1
fi
gpu=$(field "$data" gpu)
source="$kind ${gpu:-CPU execution layer}, $(field "$data" date), commit $(field "$data" commit),"
source="$source $(field "$data" software)"
draw plots/gpt_oss.gp build/plots/gpt_oss "chart_data='$data'; source='$(echo "$source" | plain)'"
echo "drawn: build/plots/gpt_oss_loss.svg and .png"
