#!/bin/sh
# train.sh TABLE [OUT] - draws the curves of a training run (train/train.sh) to OUT.svg and OUT.png, build/plots/train unless given.
set -u
table=$1 out=${2:-build/plots/train}
command -v gnuplot >/dev/null || { echo "plot: gnuplot is not installed; ./setup.sh installs it"; exit 1; }
field() { sed -n "s/^# $1: //p" "$table" | tr -d "'\"{}" | tr '_@^&' '    '; }
mkdir -p "$(dirname "$out")"
for term in svg png; do
    gnuplot -e "term='$term'; out='$out'; data='$table'; source='$(field machine), $(field date), commit $(field commit)'" plots/train.gp ||
        { echo "plot: gnuplot could not draw $table"; exit 1; }
done
echo "drawn: $out.svg and .png"
