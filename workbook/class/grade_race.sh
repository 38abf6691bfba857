#!/bin/sh
# grade_race.sh NN COUNTS - run by grade.sh in a submission's tree where RACE=1: builds the check build of problem NN in the sandbox, has it run the
# cases of COUNTS there, and prints one line: what it counts over what it counts of the key, bytes, barriers, products, exponentials.
# COUNTS, made by grade_base.sh, has a line CASE, WHAT, COUNT of the key for each. The numbers are what a submission's process printed, each once,
# and it could print others in their place: they are no points, and nothing but the words and numbers that are asked for is taken.
# Exit status: 0, or 1 after a line without numbers.
set -u
number=$1 counts=$2
worker=build/cpu/check/problems/${number}_worker
[ -x "$worker" ] || workbook/class/grade_build.sh "$number" check >/dev/null 2>&1 || { echo "the check build does not compile"; exit 1; }
: >"$GRADE_SCRATCH/race.counted"
for given in $(cut -f 1 "$counts" | uniq); do
    "$GRADE_SCRATCH/within" $((3 * WB_TIMEOUT)) "$worker" --case "$given" --guard 0 </dev/null 2>/dev/null | head -c 1000000 >"$GRADE_SCRATCH/race.said"
    grep -aq '^returned: ok' "$GRADE_SCRATCH/race.said" || { echo "no result in $given"; exit 1; }
    [ -z "$(LC_ALL=C grep -a '^counted: ' "$GRADE_SCRATCH/race.said" | cut -d: -f2 | sort | uniq -d)" ] || { echo "it prints counts of its own"; exit 1; }
    LC_ALL=C sed -n "s/^counted: \([a-z ]*\): \([0-9]\{1,15\}\)\$/$given	\1	\2/p" "$GRADE_SCRATCH/race.said" >>"$GRADE_SCRATCH/race.counted"
done
awk -F '\t' '
    FILENAME == ARGV[1] { key[$1, $2] = $3; sum[$2] += $3; if (!known[$2]++) what[++n] = $2; next }
    ($1, $2) in key { yours[$1, $2] = $3 }
    END {
        for (each in yours) { split(each, part, SUBSEP); all[part[2]] += yours[each] }
        for (i = 1; i <= n; i++)
            if (sum[what[i]] > 0) line = line (line == "" ? "" : ", ") what[i] sprintf(" %.2f", all[what[i]] / sum[what[i]])
            else if (all[what[i]] > 0) line = line (line == "" ? "" : ", ") what[i] sprintf(" %.0f to 0", all[what[i]])
        print line
    }' "$counts" "$GRADE_SCRATCH/race.counted"
