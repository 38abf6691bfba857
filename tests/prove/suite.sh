#!/bin/sh
# suite.sh TEST WORKER [SOURCE [FORM]] - a suite passes with this worker. A line "// exempt: memory same_twice" in its
# SOURCE, or "// exempt FORM: ...", names tests that it fails by design, as its text says: they are not run. A suite of
# the machinery may take half an hour of its own, and each of its tests five minutes of a processor.
set -u
. tests/prove/judge.sh
right_with_any_seed
exempt=$(sed -n "s|^// exempt${4:+ $4}: ||p" "${3:-/dev/null}")
case ${4:-},$BACKEND in *_*,cpu) exempt="$exempt same_twice" ;; esac # library_forms.c looks at its workspace, and waits
[ "$2" != none ] || { ulimit -t 300; limit="$out/wb within 1800"; }
judge "$out/tests/$1_test" "$2" "$BACKEND" ${exempt:+--filter "*/!($(echo "$exempt" | tr ' ' '|'))"} || exit 1
echo "$(counts)${exempt:+, exempt from $exempt}"
