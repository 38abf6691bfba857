#!/bin/sh
# grade_gcov.sh - run by coverage.sh for grade.sh: gcov.sh in the sandbox, of a tar on standard input with what
# workers of a submission counted.
set -u
. "$PWD/workbook/class/sandbox.sh"
gcov=$(sed -n 's/^GCOV := //p' "$GRADE_SCRATCH/kit/build/tools.mk")
sandbox_room
# shellcheck disable=SC2034 # eval reads it
in_the_sandbox='cd "$1" && tar -xof - && sh gcov.sh . "$2"'
eval "$(sandbox_words 1024 16 64 60 64 tools --) /bin/sh -c \"\$in_the_sandbox\" sh \"\$room\" \"\$gcov\"" |
    head -c 100000000
