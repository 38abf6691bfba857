#!/bin/sh
# alone.sh COMMAND... - runs a make that builds, alone in this folder: another one waits, and says so. The lock is an
# open file of the command and of what that starts, and ends with them, however they end. Makes that it starts belong to
# it (WB_BUILDING). What it says of its work is no result: all on stderr.
[ -d build ] || mkdir -p build || exit 1
exec 9>>build/lock
flock -n 9
if [ $? -eq 1 ]; then # else it is locked, or cannot be
    read -r holder <build/lock
    echo "waiting: another make is building here (process $holder)" >&2
    flock 9
fi
echo $$ >build/lock
WB_BUILDING=yes exec "$@" >&2
