#!/bin/sh
# gpu.sh [FOLDER] - the broken kernels of this folder on a GPU: which of compute-sanitizer's tools finds which bug? Needs nvcc,
# compute-sanitizer and gcc, nothing else. Writes FOLDER/table.tsv (build/cuda/sanitize unless given) and the raw output of every run.
#
#   bug  expected  alone  right  memcheck  racecheck  synccheck  initcheck
#
#   alone      without any tool: "runs" if no error was reported, "error", "crash" or "timeout"
#   right      and in how many of TIMES runs it printed what the key prints
#   the tools  "found", "not found", "refused" (the tool could not work), "timeout", "not run" (the whole took too long)
#
# A row NN_key is the key itself, in which nothing should be found.
#
# ONLY=10 the kernels of one problem; ARCH=90a what to compile for; JOBS builds at a time; RUNS runs at a time on the GPU; LIMIT seconds
# for a run; WHOLE for everything.
set -u
cd "$(dirname "$0")/../.." || exit 2
CUDA_HOME=${CUDA_HOME:-$(dirname "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")}
nvcc=$CUDA_HOME/bin/nvcc
sanitizer=$(command -v compute-sanitizer || echo "$CUDA_HOME/bin/compute-sanitizer")
arch=${ARCH:-90a}
objects=$(${MAKE:-make} -s --no-print-directory BACKEND=cuda ARCH="$arch" WB_BUILDING=yes machinery-names) && [ -n "$objects" ] || exit 2

# A name is LIST_ENTRY: an entry of tests/sanitize/LIST.diff; NN_key is a key as it is.
told() { awk -v list="tests/sanitize/${1%%_*}.diff" -v entry="${1#*_}" -v tell="$2" -f workbook/loop/edit.awk; }
key_of() { # NAME: the source that it is an edit of
    case $1 in
    tile_*) echo tests/tile_words.cu ;;
    *) ls solutions/"${1%%_*}"/*.cu ;;
    esac
}
case_of() { told "$1" case; }

build_one() { # NAME, or a name of $objects, or worker_NN
    case $1 in
    memory) ${CC:-gcc} -std=c11 -D_GNU_SOURCE -O1 -g -DWB_BACKEND_CUDA -I"$CUDA_HOME/include" -Iworkbook -c workbook/memory.c -o "$out/memory.o" ;;
    device) "$nvcc" -std=c++17 -O1 -gencode "arch=compute_$arch,code=sm_$arch" -Iworkbook -c workbook/device.cu -o "$out/device.o" ;;
    worker_*)
        stem=$(basename "$(ls solutions/"${1#worker_}"/*.cu)" .cu)
        ${CC:-gcc} -std=c11 -D_GNU_SOURCE -O1 -g "-DWB_NAME=$stem" -Iworkbook -c workbook/worker.c -o "$out/$1.o"
        ;;
    [0-9]*_* | tile_*)
        key=$(key_of "$1")
        mkdir -p "$out/$1" && case $1 in
        [0-9][0-9]_key) cp "$key" "$out/$1/" ;;
        *)
            awk -v list="tests/sanitize/${1%%_*}.diff" -v entry="${1#*_}" -f workbook/loop/edit.awk "$key" \
                >"$out/$1/$(basename "$key")"
            ;;
        esac &&
            "$nvcc" -std=c++17 -O3 -lineinfo -gencode "arch=compute_$arch,code=sm_$arch" -Itests/sanitize -Iworkbook -Itests -I"$(dirname "$key")" -c "$out/$1/$(basename "$key")" -o "$out/$1.o"
        ;;
    *) ${CC:-gcc} -std=c11 -D_GNU_SOURCE -O1 -g -Iworkbook -c "$(ls workbook/"$1.c" workbook/case/"$1.c" 2>/dev/null)" -o "$out/$1.o" ;;
    esac >"$out/log/$1.build" 2>&1 || echo "does not compile: $1, see $out/log/$1.build" >&2
}

link_one() { # NAME
    case $1 in
    tile_*) main= ;; # it has its own
    *) main=$out/worker_${1%%_*}.o ;;
    esac
    # shellcheck disable=SC2046
    ${CXX:-g++} "$out/$1.o" ${main:+"$main"} $(for o in $objects; do echo "$out/$o.o"; done) -L"$CUDA_HOME/lib64" -Wl,-rpath,"$CUDA_HOME/lib64" \
        -lcudart -ldl -lm -pthread -o "$out/$1.program" >"$out/log/$1.link" 2>&1 || echo "does not link: $1" >&2
}

# How often a broken kernel prints what the key does, into $out/cell/NAME.right. All in one process, as a kernel in use is called again and again.
compare() { # NAME CASE
    key=$out/${1%%_*}_key.program
    [ -x "$key" ] || return
    "$key" --case "$2" --guard 0 >"$out/log/$1.wanted" 2>&1
    set -- "$1" "$(for i in $(seq "$TIMES"); do printf -- '--case %s ' "$2"; done)"
    # shellcheck disable=SC2086
    timeout -k 2 "$LIMIT" "$out/$1.program" --guard 0 $2 >"$out/log/$1.many" 2>&1
    awk -v times="$TIMES" '/^memory|^of the device/ { next } FNR == NR { if (FNR == 1) first = $0; want = want $0 "\n"; next }
        $0 == first { right += got == want; got = "" } { got = got $0 "\n" } END { print right + (got == want) "/" times }' \
        "$out/log/$1.wanted" "$out/log/$1.many" >"$out/cell/$1.right"
}

# One cell of the table, into $out/cell/NAME.TOOL.
try_one() { # NAME TOOL
    log=$out/log/$1.$2
    case $1 in
    [0-9][0-9]_key) given=$(case_of "$(echo "$names" | grep "^${1%_key}_" | grep -vx "[0-9][0-9]_key" | head -n 1)") ;;
    *) given=$(case_of "$1") ;;
    esac
    left=$((WHOLE - $(date +%s) + BEGUN))
    cell="not run"
    if [ ! -x "$out/$1.program" ]; then
        cell="not built"
    elif [ $left -gt 3 ]; then
        [ "$left" -lt "$LIMIT" ] || left=$LIMIT
        if [ "$2" = alone ]; then set -- "$1" "$2"; else set -- "$1" "$2" "$sanitizer" --tool "$2" --print-limit 20; fi
        name=$1 tool=$2
        shift 2
        timeout -k 2 "$left" "$@" "$out/$name.program" --case "$given" --guard 0 >"$log" 2>&1
        status=$?
        errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) .*/\1/p; s/.*RACECHECK SUMMARY: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
        set -- "$name" "$tool"
        if [ $status -eq 124 ] || [ $status -eq 137 ]; then
            cell=timeout
        elif [ "$tool" = alone ]; then
            cell=runs
            [ $status -lt 128 ] || cell=crash
            [ $status -eq 0 ] || [ $status -ge 128 ] || cell=error
            grep -q '^device: \|^returned: [^o]\|^on_device: ' "$log" && cell=error
            [ $cell != runs ] || compare "$name" "$given"
        elif [ -z "$errors" ]; then
            cell=refused
        elif [ "$errors" -gt 0 ]; then
            cell=found
        else
            cell="not found"
        fi
    fi
    echo "$cell" >"$out/cell/$1.$2"
}

if [ "${1:-}" = --one ]; then # from xargs below
    out=$3
    case $2 in
    build) build_one "$4" ;;
    link) link_one "$4" ;;
    try) try_one "${4%.*}" "${4##*.}" ;;
    esac
    exit 0
fi

self=tests/sanitize/gpu.sh
out=${1:-build/cuda/sanitize}
mkdir -p "$out/log" "$out/cell" || exit 2
BEGUN=$(date +%s) LIMIT=${LIMIT:-12} WHOLE=${WHOLE:-330} TIMES=${TIMES:-20}
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
names=$(for list in tests/sanitize/*.diff; do
    awk -v list="$list" -v tell=names -f workbook/loop/edit.awk | sed "s/^/$(basename "$list" .diff)_/"
done | grep -v '^01_' | grep "^${ONLY:-}")
numbers=$(echo "$names" | sed -n 's/^\([0-9]*\)_.*/\1/p' | sort -u)
names=$(for n in $numbers; do echo "${n}_key"; done; echo "$names")
export BEGUN LIMIT WHOLE TIMES names
each() { xargs -P "$1" -I '{}' sh "$self" --one "$2" "$out" '{}'; }

# The slow ones first: problem 03 has five kernels, 02 is soon compiled.
{ echo "$names" | grep -v '^02'; for o in $objects; do echo "$o"; done; for n in $numbers; do echo "worker_$n"; done; echo "$names" | grep '^02'; } |
    each "${JOBS:-$cores}" build
echo "$names" | each "${JOBS:-$cores}" link
echo "built in $(($(date +%s) - BEGUN)) s" >&2
[ -z "${BUILD_ONLY:-}" ] || exit 0

# Alone first, and what never ends last: each of those takes a place for LIMIT seconds.
expected() { case $1 in [0-9][0-9]_key) echo - ;; *) told "$1" known ;; esac; }
for name in $names; do
    case $(expected "$name") in deadlock) last=1 ;; *) last=0 ;; esac
    for tool in alone memcheck racecheck synccheck initcheck; do echo "$last$([ $tool = alone ] && echo 0 || echo 1) $name.$tool"; done
done | sort -s -k 1,1 | cut -d ' ' -f 2 | each "${RUNS:-6}" try
{
    printf 'bug\texpected\talone\tright\tmemcheck\tracecheck\tsynccheck\tinitcheck\n'
    for name in $names; do
        printf '%s\t%s' "$name" "$(expected "$name")"
        for tool in alone right memcheck racecheck synccheck initcheck; do printf '\t%s' "$(cat "$out/cell/$name.$tool" 2>/dev/null || echo -)"; done
        echo
    done
} >"$out/table.tsv"
cat "$out/table.tsv"
echo "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1); $("$sanitizer" --version 2>/dev/null | grep -i version | head -n 1); $(date +%F); $(($(date +%s) - BEGUN)) s" | tee "$out/machine.txt"
