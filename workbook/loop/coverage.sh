#!/bin/sh
# coverage.sh FOLDER SOURCE NAME [SHIPPED [COMMAND...]] - which lines of SOURCE ran in no case of a suite
# (coverage.awk), of the function NAME; nothing if all did. Lines that SHIPPED, the skeleton, has as well are given: not
# told. FOLDER: WB_COVERAGE, where its workers' counters are (judge/session.c), and c.gcno, gcc's notes of what can be
# counted, NN_counted.gcno. COMMAND runs gcov.sh of a tar of that elsewhere.
folder=$1 source=$2 name=$3
own=$(diff --old-line-format= --unchanged-line-format= --new-line-format='%dn ' "${4:-/dev/null}" "$source")
if [ $# -gt 4 ]; then
    shift 4
    tar -cf - -C "$folder" . -C "$PWD/workbook/loop" gcov.sh | "$@"
else
    workbook/loop/gcov.sh "$folder" "$(sed -n 's/^GCOV := //p' build/tools.mk)"
fi | LC_ALL=C awk -v source="$source" -v name="$name" -v own=" $own" \
    -v served="$(ls "$folder" | awk -F - '/^w-/ { n += $2 } END { print n + 0 }')" -f workbook/loop/coverage.awk
