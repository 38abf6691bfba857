#!/bin/sh
# plot.sh NN|roofline|gpt_oss|duel|all [BACKEND [NN...]] - draws the charts of one problem to build/plots as SVG and
# PNG, and says where they are; with TERM=dumb in the terminal as well. The data are the bench's of this machine,
# build/BACKEND/results/NN_name.tsv; where those have no times, because the kernel was emulated, or are
# missing, the recorded ones of plots/data.
# plot.sh train TABLE [OUT] - the curves of a training run (train/train.sh), to OUT.svg and OUT.png, build/plots/train
# unless given.
set -u
cd "$(dirname "$0")/.." || exit 1
. plots/draw.sh
. workbook/loop/source.sh
number=${1:?usage: plot.sh NN [BACKEND]} backend=${2:-cpu}
if [ "$number" = train ]; then
    table=$2 out=${3:-build/plots/train} TERM= # the script draws in no terminal
    source=$(echo "$(field "$table" machine), $(field "$table" date), commit $(field "$table" commit)" | plain)
    draw plots/train.gp "$out" "data='$table'; source='$source'"
    echo "drawn: $out.svg and .png"
    exit 0
fi
if [ "$number" = all ]; then
    shift 2
    for of in "$@" roofline gpt_oss duel; do
        case $of in gpt_oss | duel) ls plots/data/h200/"$of"*.tsv >/dev/null 2>&1 || continue ;; esac
        plots/plot.sh "$of" "$backend" || exit 1
    done
    exit 0
fi

# The roofline chart. Of each problem: the bench's table of this machine, if it was measured on a GPU; else the recorded
# one of the same GPU, which is that of the first table that knows its roofs.
on_gpu() { [ "$(field "$1" gpu 2>/dev/null)" != none ] &&
    [ -n "$(field "$1" 'main shape' 2>/dev/null)$(field "$1" gpus 2>/dev/null)" ] &&
    awk '!/^#/ && $1 ~ /^[0-9]/ && $2 !~ /^roof_/ { n++ } END { exit !n }' "$1"; }
if [ "$number" = roofline ]; then
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
        { day = $(NF - 1); commit = $NF; sub(/ [^ ]* [^ ]*$/, "")
          if (!($0 in first)) { kinds[++n] = $0; first[$0] = day }
          last[$0] = day; if (!seen[$0, commit]++) { commits[$0] = commits[$0] " " commit; many[$0]++ } }
        END { for (k = 1; k <= n; k++) { kind = kinds[k]
              printf "%s%s: %s, %s%s, commit%s%s", (k > 1 ? "; " : ""), kind, gpu, first[kind],
              (last[kind] != first[kind] ? " to " last[kind] : ""), (many[kind] > 1 ? "s" : ""), commits[kind] } }' |
        plain)

    draw plots/roofline.gp build/plots/roofline "chart_data='$data'; source='$source'; \
        peak_tflops=$(peak peak_tflops); mma_tflops=$(peak peak_mma_sync_tflops); peak_gbps=$(peak peak_gbps)"
    echo "drawn: build/plots/roofline_chart.svg and .png"
    exit 0
fi

# What is not of one problem: the losses of reference/gpt_oss.py, what reference/duel.py has found, all seeds together.
case $number in
gpt_oss | duel)
    tables=$number charts=loss
    [ "$number" = gpt_oss ] || tables='duel_seed*' charts='sorted work predicted'
    data=$(find build/"$backend"/results -name "$tables.tsv" -size +0 2>/dev/null | xargs -r ls -t | head -n 1)
    kind='measured here:'
    [ -n "$data" ] || data=$(ls plots/data/h200/$tables.tsv 2>/dev/null | xargs) kind='recorded:'
    if ! awk '!/^#/ && $1 != "kind" { n++ } END { exit !n }' ${data:-/dev/null}; then
        echo "plot: no chart of $number: nothing measured here and nothing recorded (plots/data/h200/$tables.tsv)"
        exit 1
    fi
    of=${data%% *} gpu=$(field "${data%% *}" gpu | grep -vx none)
    commits=$(sed -n 's/^# commit: \(.\{7\}\).*/\1/p' $data | sed -n '1p; $p' | uniq | paste -sd, - | sed 's/,/ to /')
    source="$kind ${gpu:-CPU execution layer}, from $(field "$of" date) on, commit $commits"
    seeds=$(cat $data | grep -c '^# seed: ')
    source="$source, $([ "$number" = duel ] && echo "$seeds seed(s)" || field "$of" software)"
    draw plots/$number.gp build/plots/$number "chart_data='$data'; source='$(echo "$source" | plain)'"
    for chart in $charts; do echo "drawn: build/plots/${number}_$chart.svg and .png"; done
    exit 0 ;;
esac

grep -qF "if (number eq \"$number\") {" plots/problems.gp ||
    { echo "plot: there is no chart of problem $number (plots/problems.gp)"; exit 1; }
find_source problems "$number"
name=${number}_$name
mine=build/$backend/results/$name.tsv
recorded=$(ls plots/data/*/"$name.tsv" 2>/dev/null | sort -V | tail -n 1) # of several numbers of GPUs the largest

# $1: file, $2: name of a column; prints how many rows of implementations have a number there.
numbers() {
    [ -f "$1" ] || { echo 0; return; }
    awk -F'\t' -v name="$2" '/^#/ { next } $1 == "problem" { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $2 !~ /^roof_/ && $at[name] ~ /^[0-9.]/ { n++ } END { print n + 0 }' "$1"
}
# pick COLUMN WHAT: $data, the bench's own table if it has numbers there, else the recorded one, or none; and $source,
# one line that says where its numbers come from.
pick() {
    data= source=
    for table in "$recorded" "$mine"; do [ "$(numbers "$table" "$1")" -eq 0 ] || data=$table; done
    if [ -z "$data" ]; then
        echo "plot: no chart of $2 of problem $number: nothing measured here ($mine; make bench-$number does)" \
            "and nothing recorded"
        return
    fi
    kind=recorded: gpu=$(field "$data" gpu) where=$(field "$data" machine)
    [ "$data" != "$mine" ] || kind='measured here:'
    [ "$gpu" = none ] || ! ls "problems/$number"/*.cu >/dev/null 2>&1 || where=$gpu
    [ "$1" != peak_bytes ] || where="$(field "$data" backend) backend"
    source=$(echo "$kind $where, $(field "$data" date), commit $(field "$data" commit)" | plain)
}
pick ms times
speed=$data speed_source=$source
pick peak_bytes memory
memory=$data memory_source=$source
# Of 14 and 16.
errors=$(ls plots/data/*/"${name}_errors.tsv" 2>/dev/null | head -n 1) error_source=
[ -z "$errors" ] || error_source=$(echo "recorded: $(field "$errors" device)$(field "$errors" gpu)," \
    "$(field "$errors" date), commit $(field "$errors" commit)" | plain)
[ -n "$speed$memory$errors" ] || exit 1

# What others reach on the GPU that the times are from.
peers=''
for table in plots/data/*/peers.tsv plots/data/*/"${name}_peers.tsv" plots/data/*/ring_peers.tsv; do
    case $table in */ring_peers.tsv) [ -n "$(ring_of "$number")" ] || continue ;; esac
    if [ -n "$speed" ] && [ -f "$table" ] &&
        [ "$(field "$table" gpu)$(field "$table" gpus)" = "$(field "$speed" gpu)$(field "$speed" gpus)" ]; then
        peers=$table
    fi
done

mkdir -p build/plots
long_source= kinds="speed speed_by_length time memory memory_by_length errors"
# Of 17 and 18, long sequences as well: one table of both, with one header.
for table in "$speed" "$memory"; do
    long=${table%.tsv}_long.tsv
    [ -n "$table" ] && [ -f "$long" ] || continue
    awk 'FNR == NR || !/^(#|problem)/' "$table" "$long" >"build/plots/${name}_all.tsv"
    long_source="; from $(awk -F'\t' '/^[0-9]/ { print $6; exit }' "$long") on commit $(field "$long" commit)"
    [ "$table" != "$speed" ] || speed=build/plots/${name}_all.tsv
    [ "$table" != "$memory" ] || memory=build/plots/${name}_all.tsv
done
for kind in $kinds; do rm -f "build/plots/${name}_$kind.svg" "build/plots/${name}_$kind.png"; done
draw plots/problems.gp "build/plots/$name" "number='$number'; speed_data='$speed'; speed_source='$speed_source'; \
    memory_data='$memory'; memory_source='$memory_source'; peer_data='$peers'; error_data='$errors'; \
    error_source='$error_source'; long_source='$long_source'; peers_where='problem=$number,'"
for kind in $kinds; do
    case $kind in memory*) of=$memory_source ;; errors) of=$error_source ;; *) of=$speed_source ;; esac
    case $of in recorded*) of="$of; without yours" ;; esac
    [ ! -f "build/plots/${name}_$kind.svg" ] || echo "drawn: build/plots/${name}_$kind.svg and .png ($of)"
done
