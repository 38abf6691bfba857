#!/bin/sh
# ring.sh BACKEND IMPL [NAME=VALUE...] - make ring: problem 17, or with PASS=backward 18, on RANKS ranks, one process
# each.
set -u
backend=$1 impl=$2 program=ring
shift 2
for given; do
    shift
    case $given in
    PASS=forward) ;;
    PASS=backward) program=ring_backward ;;
    PASS=*) echo "make ring: $given: must be forward or backward" >&2; exit 2 ;;
    *) set -- "$@" "$given" ;;
    esac
done
$MAKE --no-print-directory -s -j"$JOBS" BACKEND="$backend" "build/$backend/$impl/$program" || exit 2
exec "build/$backend/$impl/$program" RANKS="${RANKS:-2}" "$@"
