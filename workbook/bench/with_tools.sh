#!/bin/sh
# with-tools COMMAND... - in an unpacked bundle (bundle.sh): runs the command there, for example make test-03, with what
# tools/ has and this machine lacks. What it has is taken from here.
cd "$(dirname "$0")" || exit 2
tools=$PWD/tools PATH=$PATH:/sbin:/usr/local/cuda/bin
ldconfig -p >"$tools/here"
for library in "$tools"/lib/*.so.*; do
    ! grep -qF "$(basename "$library") " "$tools/here" || rm -f "$library"
done
for name in criterion cjson md openblas; do # as a linker looks for them
    grep -q "lib$name\.so " "$tools/here" && continue
    of_system=$(awk -v n="lib$name.so." 'index($1, n) == 1 { print $NF; exit }' "$tools/here")
    ln -sf "${of_system:-$(ls "$tools/lib/lib$name.so."*)}" "$tools/lib/lib$name.so"
done
export PATH CPATH="$tools/include${CPATH:+:$CPATH}" LIBRARY_PATH="$tools/lib${LIBRARY_PATH:+:$LIBRARY_PATH}"
export LD_LIBRARY_PATH="$tools/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export WB_COMMIT="${WB_COMMIT:-$(cat "$tools/commit")}"
exec "$@"
