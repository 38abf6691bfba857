#!/bin/sh
# train.sh BACKEND IMPL [FOLDER] - make train: a language model learns with naive attention, then with the kernels of
# 07 and 09 of IMPL (problems, solutions, or naive: no kernels). Then both curves are drawn, and the kernels'
# gradients compared. The lesson, problems/capstone/README.md, has STEPS, SEED, WRONG (wrong.sh), RESUME, RANKS and
# PARALLEL. TEXT=FILE: read in place of the lessons. TRAIN="NAME=VALUE ...": more options of the program (train.c).
# FOLDER has the runs; without it build/BACKEND/train, and the curves are drawn to build/plots/train.
# Exit status: 0 trained, with right gradients; 1 not so; 2 could not begin.
set -u
. workbook/loop/source.sh
backend=$1 impl=$2 drawn=${3:+$3/curves}
out=build/$backend/train
runs=${3:-$out}
say() { echo "train: $*" >&2; exit 2; }
mkdir -p "$runs" build/plots
keys=$([ ! -d solutions ] || echo ', IMPL=solutions with the reference solutions')
case ${RESUME:-0} in 0 | 1) ;; *) say "RESUME=$RESUME: RESUME=1 continues an interrupted run" ;; esac
case $impl in
problems | solutions | naive) ;;
*) say "IMPL=$impl: problems, solutions and naive can be trained with" ;;
esac

# Which kernels: workers on the CPU layer, libraries on a GPU.
kind=_worker
[ "$backend" = cpu ] || kind=.so
forward=build/$backend/$impl/07$kind backward=build/$backend/$impl/09$kind run=$runs/$impl title=$impl
numbers="07 09" ring=
case "$backend ${PARALLEL:-data} ${TRAIN:-}" in
"cuda context "*full=[1-9]*) # the library's 17 has fast products
    numbers="07 09 17 18" ring="build/cuda/lib/libworkbook.so build/cuda/lib/libworkbook.so"
    [ "$impl${WRONG:-}" != problems ] || ring="build/cuda/problems/17.so build/cuda/problems/18.so"
    ;;
esac
if [ -n "${WRONG:-}" ]; then
    wrong=$(train/wrong.sh "$backend" "$WRONG") || exit 2
    forward=build/$backend/$(echo "$wrong" | sed -n 2p)/07$kind
    backward=build/$backend/$(echo "$wrong" | sed -n 3p)/09$kind
    run=$runs/wrong/$(echo "$WRONG" | tr / _) title=wrong
elif [ "$impl" = problems ]; then
    for number in $numbers; do
        file=$(ls problems/$number/*.cu)
        [ -f "$file" ] || say "there is no kernel of problem $number: make reset-$number puts the skeleton back"
        ! grep -qxF "$(sha256sum <"$file" | cut -d' ' -f1)  $file" workbook/loop/shipped.sha256 ||
            say "$file is as shipped, so it contains no attention yet." \
                "make next tells what to do; IMPL=naive trains without kernels$keys"
    done
fi
mkdir -p "$run"
kernels="$forward $backward"
[ "$impl" != naive ] || [ -n "${WRONG:-}" ] || kernels=
# shellcheck disable=SC2086
$MAKE --no-print-directory -j"${JOBS:-2}" BACKEND="$backend" "$out/train" $kernels $ring >"$run/build.log" 2>&1 ||
    { cat "$run/build.log"; say "this does not compile"; }

text=${TEXT:-$runs/lessons.txt}
[ -n "${TEXT:-}" ] || cat problems/[0-9][0-9]/README.md >"$runs/lessons.txt"
# shellcheck disable=SC2086
set -- "text=$text" "ranks=${RANKS:-1}" "parallel=${PARALLEL:-data}" \
    ${ring:+"ring=${ring% *}" "ring_backward=${ring#* }"} ${STEPS:+"steps=$STEPS"} ${SEED:+"seed=$SEED"} ${TRAIN:-}
export OPENBLAS_NUM_THREADS=1 # its threads would wait on the cores that the CPU layer works on
recipe=$("$out/train" "$@" recipe=1) || exit 2

# With RESUME=1 the program goes on from the checkpoint in FOLDER: the rows of the curve up to it are kept. Else it
# begins anew.
begin_at() { # FOLDER
    if [ "${RESUME:-0}" != 1 ]; then rm -f "$1/checkpoint"; fi
    if [ -f "$1/checkpoint" ] && [ -f "$1/curve.tsv" ]; then
        step=$(head -n 1 "$1/checkpoint" | sed -n 's/^WBTRAIN step=\([0-9]*\) .*/\1/p')
        awk -F'\t' -v step="${step:-0}" 'NR == 1 || $1 <= step' "$1/curve.tsv" >"$1/curve.new" &&
            mv "$1/curve.new" "$1/curve.tsv"
    fi
}

# The curve of naive attention is drawn beside: trained once, and again when the run is another one. Beside a GPU, on
# which it runs on the host, only for the small model and the lessons.
naive=$runs/naive/curve.tsv
mkdir -p "$runs/naive"
if [ "$backend" = cuda ] && [ -n "$kernels" ] && [ -n "${TRAIN:-}${TEXT:-}" ]; then
    naive=/dev/null
elif [ -z "$kernels" ] || [ "$(cat "$runs/naive/recipe" 2>/dev/null)" != "$recipe" ]; then
    rm -f "$runs/naive/recipe"
    begin_at "$runs/naive"
    echo "== naive attention"
    "$out/train" "$@" "log=$naive" "checkpoint=$runs/naive/checkpoint" || exit
    echo "$recipe" >"$runs/naive/recipe"
fi
status=0
if [ -n "$kernels" ]; then
    echo "== ${WRONG:+$(echo "$wrong" | head -n 1) }$forward, $backward"
    begin_at "$run"
    # A shell says "Alarm clock" of a child that a signal has ended: here there is a sentence below.
    exec 3>&2 2>/dev/null
    (exec 2>&3 3>&- && exec "$out/train" "$@" "log=$run/curve.tsv" "checkpoint=$run/checkpoint" \
        "compare=$run/compare.tsv" "forward=$forward" "backward=$backward")
    status=$?
    exec 2>&3 3>&-
    [ $status -ne 2 ] || exit 2
    # On the CPU layer a kernel has a process of its own, and the program says what became of it. On a GPU it shares
    # the program's.
    if [ $status -eq 142 ]; then
        echo "The training ends here: no step in ${WB_TIMEOUT:-20} s, so a kernel is in an endless loop," \
            "or its threads are in a deadlock."
    elif [ $status -gt 128 ]; then
        echo "The training ends here: its process, which the kernels share, died of signal $((status - 128))."
    fi
    [ $status -le 1 ] || status=1
fi

# One table of what was trained, as it is recorded in plots/data.
{
    asked="${WRONG:+ WRONG=$WRONG}${STEPS:+ STEPS=$STEPS}${SEED:+ SEED=$SEED}${TEXT:+ TEXT=...}"
    head_lines "$backend" \
        "make train IMPL=$impl$asked${RANKS:+ RANKS=$RANKS}${PARALLEL:+ PARALLEL=$PARALLEL}"
    printf 'run\tstep\tseconds\tloss\theld_out\n'
    sed '1d; s/^/naive\t/' "$naive"
    [ -z "$kernels" ] || sed "1d; s/^/$title	/" "$run/curve.tsv"
} >"$run/train.tsv"
if command -v gnuplot >/dev/null; then plots/plot.sh train "$run/train.tsv" $drawn || exit 2; else
    echo "not drawn, because gnuplot is not installed: plots/plot.sh train $run/train.tsv draws the curves later"
fi
exit $status
