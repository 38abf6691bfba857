#!/bin/sh
# suite.sh TEST WORKER [EXEMPT] - a suite passes with this worker; tests named in EXEMPT may fail.
set -u
. tests/prove/judge.sh
judge --exempt "${3:-}" "$out/tests/$1_test" "$2" "$BACKEND" || exit 1
echo "$(counts)${3:+, exempt from $3}"
