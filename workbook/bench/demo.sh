#!/bin/sh
# demo.sh BACKEND NN... - one row a problem: its reference solution against its naive baseline, on this machine; then
# the charts. What is timed runs alone. On the CPU backend problems of the device are not timed, and as many run at a
# time as there are cores.
set -u
. workbook/loop/source.sh
table() { # TABLE: a row of what bench has measured; without one, the heading
    awk -v heading=$((1 - $#)) 'BEGIN {
        FS = "\t"
        row = "%-23s %-24s %9s %10s %10s %7s %10s %10s %8s  %s\n"
        if (heading) {
            printf row, "problem", "shape", "error", "memory", "memory", "less", "time", "time", "speed-up", "backend"
            printf row, "", "", "", "naive", "flash", "", "naive", "flash", "", ""
            exit
        }
    }
    /^# (problem|backend): / { fact[substr($1, 3, 7)] = substr($1, 12) }
    /^#/ { next }
    !columns { for (i = columns = NF; i; i--) at[$i] = i; next }
    $2 == "roof_sgemm" { fact["backend"] = "this CPU" }
    $2 == "key" || $2 == "naive" { bytes[$2] = $at["peak_bytes"]; ms[$2] = $at["ms"] }
    $2 == "key" { error = $at["max_error"]; shape = $at["shape"] }

    function digits(x) { return x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : "%.2f" }
    function memory(of, MiB) {
        if (!(of in bytes)) return "-"
        MiB = bytes[of] / 1024 / 1024
        return MiB >= 1024 ? sprintf("%.1f GiB", MiB / 1024) : sprintf(digits(MiB) " MiB", MiB)
    }
    function time(of) {
        if (ms["key"] == "emulated") return ms["key"]
        return of in ms ? sprintf((ms[of] < 1 ? "%.4f" : digits(ms[of])) " ms", ms[of]) : "-"
    }
    function times(of) { return ("naive" in of) && of["key"] > 0 ? sprintf("%.1fx", of["naive"] / of["key"]) : "-" }

    END {
        if (heading) exit
        if (!("key" in ms)) exit 1
        printf row, fact["problem"], shape, sprintf("%.1e", error), memory("naive"), memory("key"), times(bytes),
            time("naive"), time("key"), ms["key"] == "emulated" ? "-" : times(ms), fact["backend"]
    }' "$@"
}
if [ "$1" = --one ]; then # WHAT BACKEND SAID NN: SAID/NN has all that there is to say when SAID/NN.status is there
    what=$2 backend=$3 said=$4 number=$5 out=build/$3
    name=$(basename "$(ls solutions/"$number"/*.c* | head -n 1)" | sed 's/\.[^.]*$//')
    set -- "$out/bench" "$number" --impl "key=$out/solutions/$number.so" --naive
    case $what in
    row) "$@" --out "$said/$number.tsv" && table "$said/$number.tsv" >"$said/$number.row" ;;
    chart) "$@" --charts --out "$out/results/${number}_$name.tsv" && plots/plot.sh "$number" "$backend" ;;
    esac >"$said/$number" 2>&1
    status=$?
    [ ! -s "$said/$number.row" ] || mv "$said/$number.row" "$said/$number"
    echo $status >"$said/$number.status"
    echo "$number" # to whom waits for it
    exit 0
fi
backend=$1
shift
out=build/$backend said=$(mktemp -d) alone='' together=''
trap 'rm -rf "$said"' EXIT
for number; do
    if [ -n "$(ring_of "$number")" ]; then continue; fi # of several processes: below
    if [ "$backend" = cuda ] || ls solutions/"$number"/*.c >/dev/null 2>&1; then
        alone="$alone $number"
    else
        together="$together $number"
    fi
done
all() { # WHAT NN...: printed in this order, whichever is done first
    what=$1
    shift
    {
        # shellcheck disable=SC2086
        [ -z "$alone" ] || printf '%s\n' $alone | xargs -n 1 "$0" --one "$what" "$backend" "$said"
        [ -z "$together" ] ||
            printf '%s\n' $together | xargs -n 1 -P "$JOBS" "$0" --one "$what" "$backend" "$said"
    } | for number; do
        [ -z "$(ring_of "$number")" ] || continue
        until [ -e "$said/$number.status" ]; do read -r _ || exit 1; done
        cat "$said/$number"
        [ "$(cat "$said/$number.status")" -eq 0 ] || exit 1
    done || exit 1
    rm -f "$said"/*
}
echo "FlashAttention workbook: reference solutions against naive baselines, on this machine ($backend backend)"
echo
table
all row "$@"
echo
mkdir -p "$out/results"
all chart "$@"
for number; do
    program=$(ring_of "$number")
    [ -n "$program" ] || continue
    find_source solutions "$number"
    if [ "$backend" = cpu ]; then
        { workbook/bench/bench.sh cpu solutions "$number" && plots/plot.sh "$number" cpu; } >"$said/$number" 2>&1 ||
            { cat "$said/$number"; exit 1; }
        grep '^drawn: ' "$said/$number"
    fi
    echo
    echo "$number $(echo "$name" | tr _ ' '), a sequence on several ranks:"
    "$out/solutions/$program" RANKS=$([ "$backend" = cpu ] && echo 4 || echo 1) >"$said/$number" 2>&1
    status=$?
    sed 's/^/  /' "$said/$number"
    [ $status -eq 0 ] || exit 1
    echo
done
plots/plot.sh roofline "$backend" || exit 1
plots/plot.sh train plots/data/cpu/train.tsv build/plots/train_recorded || exit 1
echo
echo "A recorded training of a language model with our 07 and 09: build/plots/train_recorded.svg."
echo "Again, in 3 minutes: make train IMPL=solutions"
echo "Next: make test-01 (it says how to start), or problems/01/README.md"
