#!/bin/sh
# race.sh BACKEND IMPL NN - make race-NN: your function beside the answer key, as a ratio.
#   on a GPU, and of 01 anywhere: times, both in one run, and the peers' as recorded on such a GPU
#   without one: what the check build counts in the cases of make sanitize-NN, which is no time (CASE: in that case)
# A row is added to build/race.tsv, with the next idea from the lesson's table of what choices are worth (<!-- choices --> is above it): of a
# table that begins with a base what gains on it; of one of changes to the key what each would cost, if yours is so.
# Exit status: 0, or 1 if there is nothing to compare.
set -u
. workbook/loop/source.sh
backend=$1 impl=$2 number=$3
case $number in [1-9]) number=0$number ;; esac
out=build/$backend race=build/race.tsv
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
fail() { echo "race: $*" >&2; exit 1; }
find_source "$impl" "$number"
[ -n "$file" ] || fail "there is no $impl/$number"
[ "$impl" != problems ] || ! "$out/score" untouched "$file" || fail "$file is not started"
[ "$impl" != problems ] || [ "$(cat "build/grade/$number.state" 2>/dev/null)" = passed ] || echo "make test-$number has not passed: a wrong function may do less than it should."
key=
[ ! -d "solutions/$number" ] || key=yes
build() { # BACKEND TARGET...
    back=$1
    shift
    $MAKE --no-print-directory -j"$WB_JOBS" BACKEND="$back" "$@" >"$scratch/log" 2>&1 && return
    LC_ALL=C awk -f workbook/loop/errors.awk "$scratch/log"
    fail "$file does not compile"
}

# of the form WHAT YOURS KEY, tab-separated, in $scratch/rows
by_clock() {
    build "$backend" "$out/bench" "$out/$impl/$number.so" ${key:+"$out/solutions/$number.so"}
    table=$scratch/table
    "$out/bench" "$number" --impl "yours=$out/$impl/$number.so" ${key:+--impl "key=$out/solutions/$number.so"} ${WB_CASE:+--shape "$WB_CASE"} --out "$table" >"$scratch/log" 2>&1 ||
        { sed -n 's/^# \(.*is left out.*\)/race: \1/p' "$table" >&2; fail "there is no time to compare: make test-$number says more"; }
    # Peers answer to the same shape on a GPU of the same name, and under the name of their problem.
    awk -F '\t' -v number="$number" -v where="$scratch/where" '
        FNR == 1 { split("", at); columns = 0; mine = FILENAME == ARGV[1] }
        /^# gpu: / { if (mine) gpu = $0; same = $0 == gpu; next }
        /^# date: / { day = substr($0, 9, 10); next }
        /^#/ { next }
        !columns { for (i = 1; i <= NF; i++) at[$i] = i; columns = NF; next }
        { shape = ""; for (i = at["B"]; i <= at["causal"]; i++) shape = shape "\t" ($i == 0 ? "-" : $i)
          shape = shape "\t" ("page" in at ? $at["page"] $at["lens"] : "--") "\t" ("mask" in at ? $at["mask"] $at["q_tile"] : "--") }
        mine && $2 == "yours" { yours[shape] = $at["ms"]; said[shape] = $at["shape"] }
        mine && $2 == "key" { key[shape] = $at["ms"] }
        !mine && same && $1 == number && shape in yours { peer[++peers] = $2 ", recorded " day "\t" $at["ms"]; of[peers] = shape }
        END {
            for (shape in yours) {
                print said[shape] >where
                printf "time, ms\t%s\t%s\n", yours[shape], key[shape]
                for (i = 1; i <= peers; i++) if (of[i] == shape) { split(peer[i], part, "\t"); printf "time, ms; %s\t%s\t%s\n", part[1], yours[shape], part[2] }
            }
        }' "$table" $(ls plots/data/*/peers.tsv 2>/dev/null) >"$scratch/rows"
}
by_count() {
    check=build/cpu/check
    build cpu CASE= "$check/$impl/${number}_worker" ${key:+"$check/solutions/${number}_worker"}
    cases=${WB_CASE:-$("$check/$impl/${number}_worker" --cases list)}
    for whose in $(printf '%s\n' "$impl" ${key:+solutions} | sort -u); do
        for given in $cases; do
            timeout "${WB_TIMEOUT:-60}" "$check/$whose/${number}_worker" --case "$given" --guard 0 >"$scratch/printed" 2>"$scratch/log" && grep -q '^returned: ok' "$scratch/printed" ||
                fail "$whose/$number has no result in $given: make sanitize-$number CASE=$given says more"
            sed -n "s/^counted: \(.*\): \([0-9]*\)$/$whose	\1	\2/p" "$scratch/printed"
        done
    done >"$scratch/counted"
    awk -F '\t' -v whose="$impl" -v key="${key:+solutions}" '
        !known[$2]++ { what[++n] = $2 }
        { sum[$1, $2] += $3 }
        END { for (i = 1; i <= n; i++) printf "%s\t%.0f\t%s\n", what[i], sum[whose, what[i]], key ? sprintf("%.0f", sum[key, what[i]]) : "" }' "$scratch/counted" >"$scratch/rows"
    if [ -n "${WB_CASE:-}" ]; then echo "$WB_CASE"; else echo "the cases of make sanitize-$number"; fi >"$scratch/where"
}

[ -z "$(ring_of "$number")" ] || fail "$name runs on several ranks, which make bench-$number starts and measures"
case $backend$file in
cuda*.cu | *.c) by_clock; how="by the clock" ;;
*) by_count; how="counted by the CPU layer, a count and no time" ;;
esac
echo "race $number $name, $how: $(cat "$scratch/where")"
awk -F '\t' 'BEGIN { printf "  %-24s %14s %14s   %s\n", "", "yours", "key", "yours / key" }
    { sub(/.*; /, "", $1); printf "  %-24s %14s %14s   %s\n", $1, $2, $3 == "" ? "-" : $3, $3 + 0 ? sprintf("%.2f", $2 / $3) : "-" }' "$scratch/rows"

# The next row of the lesson's table, after those that earlier races have named.
before=$(cat "$race" 2>/dev/null | awk -F '\t' -v number="$number" '$1 == number { n = $2 } END { print n + 0 }')
idea=$(awk -v before="$before" '
    /^<!-- choices -->$/ { inside = 1; next }
    inside && /^[|]/ { line[++n] = $0; next }
    inside && n { inside = 0 }
    # No figure is worse: less where it is a time, more where it is a rate.
    function gains(part, was,    i) {
        for (i = 3; i < columns; i++) if (part[i] != "" && (part[i] ~ / ms/ ? part[i] + 0 > was[i] + 0 : part[i] + 0 < was[i] + 0)) return 0
        return 1
    }
    function cells(row, part) { gsub(/[*`]/, "", row); gsub(/\\[|]/, "/", row); return split(row, part, / *[|] */) }
    END {
        if (n < 3) exit
        columns = cells(line[1], head)
        for (i = 3; i <= n; i++) {
            cells(line[i], part)
            if (part[2] ~ /^(as it is|base)/ || (base == "" && part[2] ~ /the key$/)) { base = line[i]; cells(base, was); theirs = part[2] !~ /^base/ }
            else if (part[2] !~ /^the key|the key$/ && (base == "" || theirs || gains(part, was))) row[++rows] = line[i]
        }
        if (!rows) exit
        cells(row[before % rows + 1], part)
        printf "%s%s:", theirs ? "does yours do this? It costs: " : "", part[2]
        for (i = 3; i < columns; i++) if (part[i] != "") printf " %s %s%s;", head[i] == "" ? "" : head[i], part[i], base == "" ? "" : " (" (theirs ? "the key" : "unchanged") ": " was[i] ")"
    }' "problems/$number/README.md" | sed 's/;$//')
[ -z "$idea" ] || echo "  of the lesson's table of choices: $idea"
mkdir -p build
[ -s "$race" ] || printf 'problem\trace\tdate\timpl\tmeasured\twhat\tyours\tkey\tratio\tidea\n' >"$race"
awk -F '\t' -v head="$number	$((before + 1))	$(date -u '+%Y-%m-%d %H:%M')	$impl	$(cat "$scratch/where")" -v idea="$idea" '{ printf "%s\t%s\t%s\t%s\t%s\t%s\n", head, $1, $2, $3, $3 + 0 ? sprintf("%.3f", $2 / $3) : "", idea }' "$scratch/rows" >>"$race"
echo "  written: $race, $((before + 1)) of problem $number"
