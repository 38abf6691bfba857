#!/bin/sh
# grade_gcov.sh - run by coverage.sh for grade.sh: gcov in the sandbox, of a tar on standard input: a source, and what
# its workers counted.
set -u
. "$PWD/workbook/class/sandbox.sh"
sandbox_room
in_the_sandbox='cd "$1" && tar -xof - && for counted in ./*.gcda; do "$2" -t -b -c "$counted"; done'
# shellcheck disable=SC2154
eval "$(sandbox_words 1024 16 64 60 128 tools --) /bin/sh -c \"\$in_the_sandbox\" sh \"\$room\" $(sed -n 's/^GCOV := //p' "$GRADE_SCRATCH/kit/build/tools.mk")" |
    head -c 100000000
