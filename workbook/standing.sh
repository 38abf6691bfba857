#!/bin/sh
# standing.sh NN... - where each problem stands, by the record of its last tests (build/grade) and by the student's
# file; nothing is built or run. A line a problem, fields separated by tabs, - for what there is not:
#   number name state earned possible bonus title test changed file
# title and test: the first checkpoint that is not earned, and its first test that did not pass. changed is 1 if the
# file was saved after its last tests began. A file as shipped is "not started" and earns nothing, whatever the record
# says.
set -u
record=build/grade

# shellcheck disable=SC2046  # of scores.tsv there is one or none
for number; do
    file=$(ls problems/"$number"/*.cu problems/"$number"/*.c 2>/dev/null | head -n 1)
    tested=$record/$number.log # begun when the file was compiled
    [ -f "$tested" ] || tested=$record/$number.state
    state=recorded changed=0
    if [ -z "$file" ]; then
        state="no file"
    elif workbook/untouched.sh "$file"; then
        state="not started"
    elif ! [ -f "$record/$number.state" ]; then
        state="not tested"
    elif [ -n "$(find "$file" -newer "$tested")" ]; then
        changed=1
    fi
    printf '%s\t%s\t%s\t%s\n' "$number" "$state" $changed "${file:--}"
done | awk -F '\t' -v OFS='\t' '
    FILENAME == "workbook/problems.c" && /^ *[{][0-9]/ {  # number, name, ..., points, bonus
        gsub(/[{}" ]/, "")
        n = split($0, field, ",") - 1
        number = sprintf("%02d", field[1])
        name[number] = field[2]; points[number] = field[n - 1]; bonus[number] = field[n] == "true"
    }
    FILENAME ~ /scores.tsv$/ { row[$1] = $0 }
    FILENAME == "-" || FILENAME == "" {
        number = $1; state = $2; changed = $3; file = $4; earned = 0; title = test = "-"
        if (state == "recorded") {
            state = "not tested"
            if (split(row[number], field, "\t") >= 9) {
                earned = field[4]; title = field[8]; test = field[9]
                if (field[3] !~ /^not |interrupted/) state = field[3]
            }
            if (state == "not tested") changed = 0
        }
        print number, name[number], state, earned, points[number], bonus[number], title, test, changed, file
    }' workbook/problems.c $(ls $record/scores.tsv 2>/dev/null) -
