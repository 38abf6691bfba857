#!/bin/sh
# terms.sh - texts and messages use the field's terms: what the table of CONTRIBUTING.md lists as "not" is in no lesson,
# README, hint or table of points, and in no string of a program. A sentence may break it over lines.
set -u
. tests/prove/frame.sh
export LC_ALL=C
awk -F ' *[|] *' '/^[|] write / { table = 1; next } !/^[|]/ { table = 0 } table && !/---/ { print tolower($4) }' \
    CONTRIBUTING.md | tr ',' '\n' | sed 's/^ //; s/nn/(0[1-9]|1[0-9])/' >"$scratch/banned"
check "CONTRIBUTING.md lists terms" [ "$(wc -l <"$scratch/banned")" -gt 10 ]

banned() { # FILE...
    awk '
        FILENAME ~ /banned$/ { banned[++n] = "(^|[^a-z0-9_./-])" $0 "s?([^a-z0-9_-]|$)"; next }
        function look(    i) {
            for (i = 1; i <= n; i++)
                if (match(tolower(text), banned[i]))
                    print file ": " substr(text, RSTART > 30 ? RSTART - 30 : 1, RLENGTH + 50)
            text = ""
        }
        FNR == 1 { look(); file = FILENAME; prose = file ~ /[.](md|txt)$/ }
        /^<!-- recorded: / || !prose && /^ *(#|\/\/|[*])/ { next }
        !prose { # what is in quotes
            sub(/ \/\/ .*/, "")
            for (line = ""; match($0, /"[^"]*"|\047[^\047]*\047/); $0 = substr($0, RSTART + RLENGTH))
                line = line " " substr($0, RSTART + 1, RLENGTH - 2)
            $0 = line
        }
        { if (prose && /^$/) look(); sub(/^[ \t]+/, ""); text = text " " $0 }
        END { look() }' "$scratch/banned" "$@"
}
{ git ls-files 2>/dev/null | grep . || find . -type f | sed 's|^[.]/||'; } |
    grep -E '[.](md|txt|c|h|cuh?|cpp|sh|awk|py|js|mk|gp)$|^Makefile$' |
    grep -vE '^(build|plots/data)/|^(CHANGELOG|CONTRIBUTING)[.]md$' >"$scratch/texts"
# shellcheck disable=SC2046
banned $(cat "$scratch/texts") >"$said"
[ "$(wc -l <"$scratch/texts")" -gt 300 ] || echo "hardly any text was found" >>"$said"
verdict "$(grep -c . "$said")" "$(wc -l <"$scratch/texts") texts and programs use the terms of CONTRIBUTING.md"
printf 'All have answer\n  keys, and the\nKey of 03 wins.\n' >"$scratch/text.md"
check "a text that does not is found" [ "$(banned "$scratch/text.md" | wc -l)" -eq 2 ]
exit $failed
