#!/bin/sh
# coverage.sh FOLDER SOURCE NAME [SHIPPED [COMMAND...]] - which lines of SOURCE ran in no case of a suite
# (coverage.awk), of the function NAME; nothing if all did. Lines that SHIPPED, the skeleton, has as well are given: not
# told. FOLDER: WB_COVERAGE, where its workers' counters are (judge/session.c), and c.gcno, gcc's notes of what can be
# counted, NN_counted.gcno.
# coverage.sh gcov FOLDER GCOV - what gcov says, as JSON, of these notes and of all that workers counted together, a
# folder w-* of each with its c.gcda. COMMAND does so elsewhere, of a tar of all that: of a submission in the sandbox.
if [ "$1" = gcov ]; then
    cd "$2" || exit 1
    for one in w-*; do
        if [ -d sum ]; then
            "${3%gcov*}gcov-tool${3##*gcov}" merge sum "$one" -o new && rm -r sum && mv new sum
        else
            cp -R "$one" sum
        fi
    done >/dev/null 2>&1
    cp c.gcno sum && cd sum && "$3" -j -t -b c.gcda 2>/dev/null
    exit
fi
folder=$1 source=$2 name=$3
own=$(diff --old-line-format= --unchanged-line-format= --new-line-format='%dn ' "${4:-/dev/null}" "$source")
if [ $# -gt 4 ]; then
    shift 4
    tar -cf - -C "$folder" . -C "$PWD/workbook/loop" coverage.sh | "$@"
else
    "$0" gcov "$folder" "$(sed -n 's/^GCOV := //p' build/tools.mk)"
fi | LC_ALL=C awk -v source="$source" -v name="$name" -v own=" $own" \
    -v served="$(ls "$folder" | awk -F - '/^w-/ { n += $2 } END { print n + 0 }')" -f workbook/loop/coverage.awk
