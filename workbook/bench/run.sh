#!/bin/sh
# run.sh - what a bundle is started with (bundle.sh), on a machine that has none of the workbook's tools:
#   ./run.sh test [IMPL [NN...]]         the suites; IMPL is problems (your code) or solutions
#   ./run.sh bench [NN...]               times; copy build/BACKEND/results into the workbook's, there make plot-NN
#   ./run.sh record OUTDIR [PART...]     all that is recorded of the reference solutions (workbook/bench/record.sh)
set -u
from=$PWD
cd "$(dirname "$0")" || exit 2
[ -x workbook/bench/bench.sh ] || chmod -R u+x . # a copy may lose what may be started
export WB_OUTER_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
export LD_LIBRARY_PATH="$PWD/lib:${CUDA_HOME:-/usr/local/cuda}/lib64:${LD_LIBRARY_PATH:-}"
WB_COMMIT=$(cat commit) backend=$(ls build)
export WB_COMMIT
# NCCL, for 17 and 18: where the system has none, Python's.
of_python=$(${PYTHON:-python3} -c 'import nvidia.nccl as n; print(*n.__path__)' 2>/dev/null)/lib/libnccl.so.2
ldconfig -p 2>/dev/null | grep -q libnccl.so.2 || : "${WB_NCCL:=$(ls "$of_python" 2>/dev/null)}"
[ -z "${WB_NCCL:-}" ] || export WB_NCCL
out=build/$backend failed=0
numbers=$(ls "$out"/tests/[0-9]*_test | sed 's|.*/\(..\)_test|\1|')
what=${1:-test}
[ $# -eq 0 ] || shift
case $what in
test)
    impl=${1:-problems}
    [ $# -eq 0 ] || shift
    # shellcheck disable=SC2048
    for n in ${*:-$numbers}; do
        echo "== $n ($impl)"
        [ -f "$out/$impl/${n}_worker" ] || { echo "  not started"; continue; }
        "$out/wb" suite "$out/tests/${n}_test" "$out/$impl/${n}_worker" "$backend" || failed=1
    done
    exit $failed ;;
bench)
    # shellcheck disable=SC2048,SC2086
    exec workbook/bench/bench.sh "$backend" problems ${*:-$numbers} ;;
record)
    [ $# -gt 0 ] || { echo "usage: $0 record OUTDIR [PART...]"; exit 2; }
    case $1 in /*) to=$1 ;; *) to=$from/$1 ;; esac
    shift
    exec workbook/bench/record.sh "$backend" "$to" "$@" ;;
*) echo "usage: $0 test|bench|record"; exit 2 ;;
esac
