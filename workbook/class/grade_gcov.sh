#!/bin/sh
# grade_gcov.sh - run by coverage.sh for grade.sh: gcov in the sandbox, of a tar on standard input with what the workers
# of a submission counted.
set -u
. "$PWD/workbook/class/sandbox.sh"
sandbox_room
in_the_sandbox='cd "$1" && tar -xof - && "$2" -j -t -b sum.gcda'
# shellcheck disable=SC2154
eval "$(sandbox_words 1024 16 64 60 128 tools --) /bin/sh -c \"\$in_the_sandbox\" sh \"\$room\" $(sed -n 's/^GCOV := //p' "$GRADE_SCRATCH/kit/build/tools.mk")" |
    head -c 100000000
