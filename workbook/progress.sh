#!/bin/sh
# progress.sh NN... - a line a problem: where it stands, points, and the next step. Looks at records and files alone:
# nothing is built or run.
set -u
[ ! -t 1 ] || width=$(stty size </dev/tty 2>/dev/null | cut -d' ' -f2)

workbook/standing.sh "$@" | awk -F '\t' -v width="${width:-0}" '
    {
        number = $1; state = $3; points[$6] += $4; possible[$6] += $5
        if (state == "no file") step = "make reset-" number " brings it back"
        else if (state == "not started") step = "read problems/" number "/README.md"
        else if ($9) step = "changed since: make test-" number
        else if (state == "passed") step = $7 == "-" ? "done" : $7 " (not judged here)"
        else if (state == "failed" && $7 != "-") step = $7
        else step = "make test-" number
        line = sprintf("%s  %-20s  %-13s  %3d / %3d  %s", number, $2, state, $4, $5, step)
        print (width > 0 && length(line) > width ? substr(line, 1, width - 3) "..." : line)
    }
    END { printf "\nScore: %d/%d (+ bonus %d/%d)\n", points[0], possible[0], points[1], possible[1] }'
