#!/bin/sh
# which.sh - make which: three trained kernels, each with a mistake: their curves, and their gradients beside those of
# loops (plots/data/cpu/which.tsv). Which of the two kernels is wrong, and why? SAY="A 07 NAME" answers, for 07, 09 or
# both, with a NAME of the capstone's table.
# which.sh record NAME NAME NAME - trains with the keys and these mistakes (wrong.sh), as A, B and C, and writes that
# table; not the names, but a sha256 of each answer. STEPS and TRAIN shape the runs; WHICH is another table.
set -u
table=${WHICH:-plots/data/cpu/which.tsv} runs=build/cpu/train/which
say() { echo "which: $*" >&2; exit 2; }
sum() { echo "$*" | sha256sum | cut -d' ' -f1; }
mistakes() { # of the capstone's table, a line each: its name, a colon, what is wrong
    awk -F ' *[|] *' 'NF == 9 && sub(/^`([0-9]*[/])?/, "", $2) && sub(/`/, ": ", $2) { print $2 $3 }' \
        problems/capstone/README.md | grep -v '^naive:\|^right:\|^untouched:'
}

if [ "${1:-}" = record ]; then
    [ $# -eq 4 ] || say "three names are to be recorded"
    shift
    mkdir -p "$runs" && new=$runs/new.tsv && : >"$runs/rows" && : >"$runs/answers" || exit 2
    for letter in A B C; do
        wrong=$(train/wrong.sh cpu "$1") || exit 2
        WRONG=$1 train/train.sh cpu solutions "$runs" || [ $? -eq 1 ] || exit 2
        which=$(echo "$wrong" | awk 'NR > 1 && $0 != "solutions" { wrong = wrong (NR == 2 ? "07" : "09") }
            END { print wrong == "0709" ? "both" : wrong }')
        echo "# answer: $letter $(sum "$letter $which") $(sum "$letter $which ${1#*/}")" >>"$runs/answers"
        run=$runs/wrong/$(echo "$1" | tr / _)
        awk -F'\t' -v OFS='\t' -v run=$letter '$1 == "wrong" { $1 = run; print $0, "-", "-", "-", "-", "-" }' \
            "$run/train.tsv" >>"$runs/rows"
        awk -v run=$letter 'NR > 1 { print run "\t-\t-\t-\t-\t" $0 }' "$run/compare.tsv" >>"$runs/rows"
        shift
    done
    {
        sed -n '/^# command/!{ /^#/p; }' "$run/train.tsv"
        echo "# command: ${STEPS:+STEPS=$STEPS }train/which.sh record NAME NAME NAME"
        cat "$runs/answers"
        printf 'run\tstep\tseconds\tloss\theld_out\tproblem\tlayer\tgradient\terror\tbound\n'
        awk -F'\t' -v OFS='\t' '$1 == "naive" { print $0, "-", "-", "-", "-", "-" }' "$run/train.tsv"
        cat "$runs/rows"
    } >"$new" && mv "$new" "$table"
    exit
fi

[ -f "$table" ] || say "there is no $table"
if [ -n "${SAY:-}" ]; then
    set -f
    # shellcheck disable=SC2086
    set -- $SAY
    case $SAY in *[!A-Za-z0-9_\ ]*) set -- ;; esac
    [ $# -eq 3 ] || say 'an answer is SAY="A 07 NAME": of A, B or C; 07, 09 or both; a name of the list'
    answer=$(sed -n "s/^# answer: \([ABC]\) /\1 /p" "$table" | grep "^$1 ") || say "A, B and C are there"
    mistakes | grep -q "^$3:" || say "make which lists no such bug"
    if [ "$(sum "$*")" = "${answer##* }" ]; then echo "$1: right. $(mistakes | sed -n "s/^$3: //p")."; exit 0; fi
    if [ "$(sum "$1 $2")" = "$(echo "$answer" | cut -d' ' -f2)" ]; then
        echo "$1: the right kernel, but another bug: which of its gradients are correct?"
    else
        echo "$1: not only $2 is wrong, or not $2 at all"
    fi
    exit 1
fi

awk -F'\t' '
    /^#/ || $1 == "run" { next }
    $5 != "-" { held[$1] = $5 }
    $6 == "-" { next }
    !seen[$1]++ { printf "\n%s: held-out loss at the end %s; with loops %s\n", $1, held[$1], held["naive"] }
    $6 $7 != last { printf "  %s, layer %s", $6, $7 }
    { printf "   %s %.4f / %.4f%s", $8, $9, $10, $9 <= $10 ? "    " : " OFF" }
    { last = $6 $7; if (++n % 4 == 0) print "" }' "$table"
echo
! command -v gnuplot >/dev/null || plots/plot.sh train "$table" build/plots/which
printf '\nA number is how far a gradient is off, and behind it how far rounding explains. The mistakes:\n\n'
mistakes | sort | sed 's/^/  /'
printf '\nWhich kernel is wrong, and why? make which SAY="A 07 NAME"; 07, 09 or both.\n'
