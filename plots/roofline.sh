#!/bin/sh
# roofline.sh [BACKEND] - draws the roofline chart to build/plots/roofline_chart.svg and .png; with TERM=dumb in the
# terminal as well. Of each problem: the bench's table of this machine, if it was measured on a GPU; else the recorded
# one of the same GPU, which is that of the first table that knows its roofs.
set -u
cd "$(dirname "$0")/.." || exit 1
. plots/draw.sh
backend=${1:-cpu}
on_gpu() { [ "$(field "$1" gpu 2>/dev/null)" != none ] &&
    [ -n "$(field "$1" 'main shape' 2>/dev/null)$(field "$1" gpus 2>/dev/null)" ] &&
    awk '!/^#/ && $1 ~ /^[0-9]/ && $2 !~ /^roof_/ { n++ } END { exit !n }' "$1"; }

gpu='' tables=''
for table in "build/$backend/results"/[0-9][0-9]_*.tsv plots/data/*/[0-9][0-9]_*.tsv; do
    case $table in *_long.tsv) continue ;; esac
    on_gpu "$table" || continue
    [ -n "$gpu$(field "$table" peak_gbps)" ] || continue # a table of the ring has no roofs
    [ -n "$gpu" ] || gpu=$(field "$table" gpu)
    [ "$(field "$table" gpu)" = "$gpu" ] || continue
    case $tables in *"/$(basename "$table") "*) ;; *) tables="$tables$table " ;; esac
done
if [ -z "$tables" ]; then
    echo "plot: no times from a GPU, neither measured here (build/$backend/results) nor recorded (plots/data/*);" \
        "no roofline chart"
    exit 1
fi
mkdir -p build/plots
data=build/plots/roofline.tsv
# shellcheck disable=SC2086
awk -f plots/roofline.awk $tables >"$data" || exit 1
# shellcheck disable=SC2086
peak() { { cat $tables | sed -n "s/^# $1: \([^ ]*\).*/\1/p"; echo 0; } | head -n 1; } # of the first that knows it
if ! [ -s "$data" ]; then
    echo "plot: nothing for a roofline chart: the peaks of $gpu are unknown, or no main shape was measured"
    exit 1
fi
source=$(for table in $tables; do
    case $table in plots/data/*) kind=recorded ;; *) kind='measured here' ;; esac
    echo "$kind $(field "$table" date | cut -c1-10) $(field "$table" commit | cut -c1-7)"
done | sort -u | awk -v gpu="$gpu" '
    { day = $(NF - 1); commit = $NF; sub(/ [^ ]* [^ ]*$/, ""); if (!($0 in first)) { kinds[++n] = $0; first[$0] = day }
      last[$0] = day; if (!seen[$0, commit]++) { commits[$0] = commits[$0] " " commit; many[$0]++ } }
    END { for (k = 1; k <= n; k++) { kind = kinds[k]
          printf "%s%s: %s, %s%s, commit%s%s", (k > 1 ? "; " : ""), kind, gpu, first[kind],
          (last[kind] != first[kind] ? " to " last[kind] : ""), (many[kind] > 1 ? "s" : ""), commits[kind] } }' | plain)

draw plots/roofline.gp build/plots/roofline "chart_data='$data'; source='$source'; \
    peak_tflops=$(peak peak_tflops); mma_tflops=$(peak peak_mma_sync_tflops); peak_gbps=$(peak peak_gbps)"
echo "drawn: build/plots/roofline_chart.svg and .png"
