#!/bin/sh
# suite.sh TEST WORKER [EXEMPT] - a suite passes with this worker; tests named in EXEMPT may fail. A suite of the
# machinery may take half an hour of its own, and each of its tests five minutes of a processor.
set -u
. tests/prove/judge.sh
limit=
[ "$2" != none ] || { ulimit -t 300; limit="$out/within 1800"; }
judge --exempt "${3:-}" "$out/tests/$1_test" "$2" "$BACKEND" || exit 1
echo "$(counts)${3:+, exempt from $3}"
