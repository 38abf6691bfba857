#!/bin/sh
# record.sh BACKEND OUTDIR [PART...] - make record: builds the reference solutions, runs them through everything that is
# recorded of them, and goes on whatever fails. plots/README.md has the parts; without one all run, in the order below.
# All that was printed is added to OUTDIR/results.txt. LIMIT: seconds for everything, 3600 unless set; what would begin
# later counts as failed. Exit status: 0, 1 if anything failed, 2 if the command line is wrong.
set -u
. workbook/loop/source.sh
all='suites bench peers torch gpt_oss duel'
[ $# -ge 2 ] || { echo "usage: record.sh BACKEND OUTDIR [PART...]; parts: $all" >&2; exit 2; }
backend=$1 results=$2/results.txt
mkdir -p "$2" || exit 2
shift 2
for part; do
    case " $all " in *" $part "*) ;; *) echo "record: what is $part? Parts: $all" >&2; exit 2 ;; esac
done
parts=${*:-$all}
name=record$([ $# -eq 0 ] || printf '_%s' "$@")
out=build/$backend tables=build/$backend/record log=build/$backend/record/step.log steps=build/$backend/record/$name.tsv
# shellcheck disable=SC2086
numbers=$(printf '%s\n' ${P:-$(ls tests/[0-9][0-9]_*.c | sed 's|^tests/\([0-9]*\)_.*|\1|')})
[ -n "$numbers" ] || { echo "record: there are no suites here" >&2; exit 2; }
python=${PYTHON:-python3}
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
export PATH
mkdir -p "$tables"
seconds=${LIMIT:-3600} begun=$(date +%s)
export LIMIT=300 # of the duel
ok=0 failed='' not_run=''

say() { printf '%s\n' "$@" | sed "s|$PWD|.|g" | tee -a "$results"; }

head_lines "$backend" "record $parts" >"$steps" # which sets gpu and gpus, too
say "$(cat "$steps")"
printf 'step\tseconds\tresult\tdetail\n' >>"$steps"

ends() { # RESULT NAME SECONDS DETAIL
    case $1 in
    ok) ok=$((ok + 1)) ;;
    FAILED) failed="$failed  FAILED   $2: $4
" ;;
    *) not_run="$not_run  not run  $2: $4
" ;;
    esac
    printf '%s\t%s\t%s\t%s\n' "$2" "$3" "$1" "$4" >>"$steps"
    say "-- $1: $2 ($3 s)${4:+: $4}"
}

# Runs a command for at most so many seconds. Leaves its exit status in $status.
step() { # SECONDS NAME COMMAND...
    limit=$1 what=$2 left=$((seconds - $(date +%s) + begun)) from=$(date +%s)
    shift 2
    say "" "== $what"
    if [ $left -lt 3 ]; then
        status=124
        ends FAILED "$what" 0 "none of the $seconds s is left"
        return
    fi
    [ "$limit" -lt $left ] || limit=$left
    rm -f "$log.json"
    # In braces: bash would say "Killed".
    { timeout -k 5 "$limit" "$@" >"$log" 2>&1 </dev/null; } 2>/dev/null
    status=$?
    say "$(tr '\r' '\n' <"$log")"
    took=$(($(date +%s) - from)) detail=$([ ! -f "$log.json" ] || "$out/wb" show "$log.json" counts)
    case $status in
    0) ends ok "$what" $took "$detail${exempt:+, exempt from $exempt}" ;;
    124) ends FAILED "$what" $took "ended after $limit s" ;;
    137) ends FAILED "$what" $took "$([ $took -ge "$limit" ] && echo "ended after $limit s" || echo killed)" ;;
    *) ends FAILED "$what" $took "${detail:-exit status $status}" ;;
    esac
}

# A table that is whole goes where it belongs, another one stays.
keep() { # FILE [xR]: of R GPUs
    [ -s "$tables/$1" ] || return
    if [ "$status" -ne 0 ]; then
        mv "$tables/$1" "$tables/${1%.tsv}.partial.tsv"
        say "not whole: $tables/${1%.tsv}.partial.tsv"
    elif [ "$backend" = cuda ]; then
        data=plots/data/$(echo "$gpu" | sed 's/^NVIDIA //; s/^GeForce //' | tr 'A-Z ' 'a-z-')${2:-}
        mkdir -p "$data"
        cp "$tables/$1" "$data/$1"
        say "written: $data/$1"
    fi
}

finish() {
    status=0
    [ "$1" -eq 0 ] || say "$(tr '\r' '\n' <"$log")" "record: stopped by a signal"
    keep "$name.tsv"
    say "" "record: $ok ok, $(printf '%s' "$failed" | grep -c .) failed, $(printf '%s' "$not_run" | grep -c .) not run,\
 $(($(date +%s) - begun)) s" "$failed$not_run"
    [ "$1" -eq 0 ] && [ -z "$failed" ]
    exit
}
trap 'finish 1' INT TERM

needs() { # PART MODULE...: Python has these, and PyTorch a GPU, without which gpt_oss alone can do
    what=$1 lacks='not torch.cuda.is_available()'
    shift
    [ "$backend" = cuda ] || lacks=$([ "$what" = gpt_oss ]; echo $?)
    "$python" -c "import sys, $(echo "$*" | sed 's/ /, /g'); sys.exit($lacks)" >/dev/null 2>&1 && return
    ends "not run" "$what" 0 "Python's $* or a GPU are not available here"
    return 1
}
# What a program in Python prints, as a table.
table_of() { # SECONDS NAME TABLE ARGUMENT...; $on: xR, of R GPUs
    limit=$1 what=$2 to=$3
    shift 3
    step "$limit" "$what" env BACKEND="$backend" sh -c 'to=$1; shift; exec "$@" >"$to"' sh "$tables/$to" "$python" "$@"
    keep "$to" "${on:-}"
}

suite_on() { # NN WORKER WHAT EXEMPT
    exempt=$4
    step 300 "suite $1${3:+ on $3}" "$out/wb" suite --record "$log.json" "$out/tests/$1_test" "$2" "$backend" \
        ${exempt:+--filter "*/!($(echo "$exempt" | tr ' ' '|'))"}
    exempt=
}
suites() {
    for number in $numbers; do
        suite_on "$number" "$out/solutions/${number}_worker" '' ''
        for variant in $(ls -d "$out"/variants/"$number"/variants/* 2>/dev/null); do
            # A line "// exempt: memory same_twice" of its source names tests that it fails by design.
            stem=$(basename "$variant")
            suite_on "$number" "$variant/${number}_worker" "$stem" \
                "$(sed -n 's|^// exempt: ||p' "solutions/$number/variants/$stem.cu")"
        done
        for library in "$out/lib/${number}"*_worker; do
            [ -x "$library" ] || continue
            form=$(basename "$library" _worker)
            exempt=$(sed -n "s|^// exempt $form: ||p" solutions/kernels.h 2>/dev/null)
            form=${form#"$number"}
            suite_on "$number" "$library" "the library${form:+, ${form#_}}" "$exempt"
        done
    done
    for program in "$out"/tests/[!0-9]*_test; do
        own=$(basename "$program" _test)
        [ -x "$program" ] && step 60 "own suite $own" "$out/wb" suite --record "$log.json" "$program" none "$backend"
    done
}

bench() {
    # The GPU's first: 01 is about the CPU beside it.
    for number in $(echo "$numbers" | grep -v '^01$'; echo "$numbers" | grep '^01$'); do
        table=$(basename "$(ls tests/"$number"_*.c)" .c).tsv
        if [ -n "$(ring_of "$number")" ]; then # of several processes, on as many GPUs as there are
            step 600 "bench $number" env TO="$tables" workbook/bench/bench.sh "$backend" solutions "$number"
            ranks=$(sed -n 's/^# gpus: //p' "$tables/$table" 2>/dev/null)
            keep "$table" "x$ranks"
            [ "${ranks:-0}" -gt 1 ] || continue
            step 600 "bench $number, long" env LONG="524288 1048576" TO="$tables" workbook/bench/bench.sh \
                "$backend" solutions "$number"
            keep "${table%.tsv}_long.tsv" "x$ranks"
            continue
        fi
        step 300 "bench $number" env TO="$tables" WITH_VARIANTS=1 workbook/bench/bench.sh "$backend" solutions "$number"
        keep "$table"
    done
}

peers() {
    needs peers torch || return
    table_of 420 peers peers.tsv reference/peers.py
    table_of 120 "peers in e4m3, errors" 16_flash_fp8_errors.tsv reference/peers.py errors
    [ "$gpus" -ge 2 ] || return
    on=x$gpus
    table_of 420 "peers on $gpus GPUs" ring_peers.tsv \
        -m torch.distributed.run --standalone --nproc-per-node "$gpus" reference/ring_peers.py
    on=
}

torch() {
    needs torch torch pytest hypothesis || return
    step 400 torch "$python" -m pytest -q -p no:cacheprovider reference/flash_attn_test.py reference/ring_test.py
}

gpt_oss() {
    needs gpt_oss torch transformers || return
    table_of 400 gpt_oss gpt_oss.tsv reference/gpt_oss.py
}

duel() {
    needs duel torch || return
    table=duel_seed${SEED:-1}.tsv
    table_of 900 duel "$table" reference/duel.py
    say "$(awk -f plots/duel.awk -v worst=10 "$tables/$table" 2>&1)"
}

# Whatever does not compile fails again, under its own name, where it is missing.
seconds=$((seconds + 1200))
step 1200 build "$MAKE" --no-print-directory -k -j"$JOBS" BACKEND="$backend" everything
seconds=$((seconds - 1200 + $(date +%s) - begun))
for part in $parts; do $part; done
finish 0
