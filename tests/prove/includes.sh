#!/bin/sh
# includes.sh - every #include "..." of the workbook is one that workbook/rooms.txt allows. What students and attackers
# write (tests/class, tests/hostile, tests/honest) is not looked at, for it is tested as it is.
set -u
files=$(find problems solutions workbook reference tests train -type f -name '*.*' | grep -E '[.](c|h|inc|cu|cuh|cpp)$')
# shellcheck disable=SC2086
{ ls -d workbook/*/ | sed 's|^|folder |'; echo "$files" |
    sed 's|^|file |'; grep -HE '^[ \t]*#[ \t]*include[ \t]*"' $files; } |
    grep -vE '^tests/(class|hostile|honest)/' | awk '
    function fail(what) { print "FAIL  " what; failed = 1 }
    function room_of(path,    part) {
        split(path, part, "/")
        if (part[1] == "problems" || part[1] == "solutions") return "problems"
        return part[1] != "workbook" ? part[1] : path ~ /^workbook\/[^\/]*\// ? part[2] : "root"
    }
    function real(path) {
        while (sub(/[^\/]+\/\.\.\//, "", path)) continue
        return path
    }
    function found(file, what,    folder, n, i, path, tried) { # the path that the compiler finds
        folder = file
        sub(/[^\/]*$/, "", folder)
        n = split(folder " workbook/  tests/ workbook/words/ workbook/worker/", tried, " ")
        for (i = 0; i <= n; i++) if ((path = real((i ? tried[i] : "") what)) in there) return path
    }
    FILENAME != "-" { # the table: a room names rooms above it alone, and none is forgotten
        if (/^#/ || !NF) next
        room = $1
        sub(/:/, "", room)
        for (i = 2; i <= NF; i++) {
            if ($i !~ /[.]/ && !($i in above)) fail(FILENAME ": " room " names " $i ", which is not listed above it")
            allowed[room, $i]
        }
        above[room]
        next
    }
    $1 == "folder" { if (!(room_of($2 "x") in above)) fail("rooms.txt has no line for " $2); next }
    $1 == "file" { there[$2]; next }
    {
        file = substr($0, 1, index($0, ":") - 1)
        split($0, quoted, "\"")
        what = quoted[2]
        path = found(file, what)
        name = path
        sub(/.*\//, "", name)
        includes++
        if (path == "") fail(file " includes \"" what "\", which is not there")
        else {
            room = room_of(file)
            if (room != room_of(path) && !((room, room_of(path)) in allowed) && !((room, name) in allowed))
                fail(file ", of " room ", includes \"" what "\", " path " of " room_of(path) \
                    ": workbook/rooms.txt does not allow it")
        }
    }
    END {
        if (!failed) print "ok    " includes " includes, each within what workbook/rooms.txt allows"
        exit failed || !includes
    }' workbook/rooms.txt -
