#!/bin/sh
# gcov.sh FOLDER GCOV - what gcov says, as JSON, of the notes FOLDER/c.gcno and of all that workers counted together, a
# folder w-* of each with its c.gcda. For coverage.sh, which of a submission has it run in the sandbox.
cd "$1" || exit 1
for one in w-*; do
    if [ -d sum ]; then
        "${2%gcov*}gcov-tool${2##*gcov}" merge sum "$one" -o new && rm -r sum && mv new sum
    else
        cp -R "$one" sum
    fi
done >/dev/null 2>&1
cp c.gcno sum && cd sum && "$2" -j -t -b c.gcda 2>/dev/null
