#!/bin/sh
# coverage.sh FOLDER SOURCE NAME - which lines of SOURCE ran in no case of a suite (coverage.awk), of the function
# NAME; nothing if all did. FOLDER: what its workers counted (judge/coverage_sum.h), and `notes`, gcc's of what
# can be counted, NN_counted.gcno. WB_GCOV: a command that has gcov read a tar of that elsewhere (grade_gcov.sh).
set -u
folder=$1 source=$2 name=$3
gcov=$(sed -n 's/^GCOV := //p' build/tools.mk 2>/dev/null)
served=$(awk '{ n += $1 } END { print n + 0 }' "$folder/served" 2>/dev/null)
mv "$folder/notes" "$folder/sum.gcno" || exit 1
if [ -n "${WB_GCOV:-}" ]; then
    tar -cf - -C "$folder" . | $WB_GCOV
else
    (cd "$folder" && "$gcov" -j -t -b sum.gcda)
fi 2>/dev/null | LC_ALL=C awk -v source="$source" -v name="$name" -v served="$served" -f workbook/loop/coverage.awk
