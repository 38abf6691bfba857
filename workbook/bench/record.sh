#!/bin/sh
# record.sh BACKEND [PART...] - make record: measures what is recorded of the reference solutions, a table after the
# other, and goes on whatever fails. plots/README.md has the parts; without one all run, in the order below. Tables go
# to build/BACKEND/record, and one that is whole, of a GPU, to plots/data as well. Exit status: 0; 1 after a line for
# each that failed; 2 if the command line is wrong.
set -u
. workbook/loop/source.sh
all='bench peers torch gpt_oss duel'
backend=$1 tables=build/$1/record python=${PYTHON:-python3} failed=''
shift
for part; do
    case " $all " in *" $part "*) ;; *) echo "record: what is $part? Parts: $all" >&2; exit 2 ;; esac
done
machine_of "$backend"
mkdir -p "$tables"
export BACKEND="$backend" LIMIT="${LIMIT:-300}" TO="$tables" # LIMIT: seconds of the duel

step() { # SECONDS TABLE COMMAND...: writes TABLE into the folder TO
    limit=$1 table=$2
    shift 2
    printf '\n== %s\n' "$table"
    rm -f "$tables/$table"
    timeout -k 5 "$limit" "$@" </dev/null 2>&1
    status=$?
    if [ $status -ne 0 ]; then
        [ $status -ne 124 ] && [ $status -ne 137 ] || status="ended after $limit s"
        failed="$failed  FAILED  $table: $status
"
        [ ! -s "$tables/$table" ] || mv "$tables/$table" "$tables/${table%.tsv}.partial.tsv"
    elif [ "$backend" = cuda ] && [ -s "$tables/$table" ]; then
        several=$(sed -n 's/^# gpus: /x/p' "$tables/$table")
        data=plots/data/$(echo "$gpu" | sed 's/^NVIDIA //; s/^GeForce //' | tr 'A-Z ' 'a-z-')$several
        mkdir -p "$data" && cp "$tables/$table" "$data/" && echo "written: $data/$table"
    fi
}
printed() { # SECONDS TABLE ARGUMENT...: what Python prints
    limit=$1 table=$2
    shift 2
    step "$limit" "$table" sh -c 'to=$1; shift; exec "$@" >"$to"' sh "$tables/$table" "$python" "$@"
}
has() { # MODULE...
    "$python" -c "import $(echo "$*" | sed 's/ /, /g')" 2>/dev/null && return
    printf '\nnot run: Python has no %s\n' "$*"
    return 1
}

bench() { # the GPU's first: 01 is about the CPU beside it
    for number in ${P:-$(ls solutions | grep -x '[0-9][0-9]' | grep -v 01) 01}; do
        find_source solutions "$number"
        step 600 "${number}_$name.tsv" env WITH_VARIANTS=1 workbook/bench/bench.sh "$backend" solutions "$number"
        [ -z "$(ring_of "$number")" ] || [ "$gpus" -lt 2 ] ||
            step 600 "${number}_${name}_long.tsv" env LONG="524288 1048576" workbook/bench/bench.sh \
                "$backend" solutions "$number"
    done
}
peers() {
    has torch || return
    printed 420 peers.tsv reference/peers.py
    printed 120 16_flash_fp8_errors.tsv reference/peers.py errors
    [ "$gpus" -lt 2 ] || printed 420 ring_peers.tsv \
        -m torch.distributed.run --standalone --nproc-per-node "$gpus" reference/ring_peers.py
}
torch() { ! has torch pytest hypothesis || step 400 torch "$MAKE" --no-print-directory torch PYTHON="$python"; }
gpt_oss() { ! has torch transformers || printed 400 gpt_oss.tsv reference/gpt_oss.py; }
duel() {
    has torch || return
    printed 900 "duel_seed${SEED:-1}.tsv" reference/duel.py
    awk -f plots/duel.awk -v worst=10 "$tables/duel_seed${SEED:-1}.tsv"
}

# What does not compile fails again, under its own name, where it is missing.
step 1200 build "$MAKE" --no-print-directory -k -j"$JOBS" BACKEND="$backend" everything
for part in ${*:-$all}; do $part; done
printf '\n%s' "$failed"
[ -z "$failed" ]
