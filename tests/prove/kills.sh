#!/bin/sh
# kills.sh EDITS NN... - which test finds which mistake, and at what price: each wrong solution of problem NN, and EDITS
# edits of its reference solution (drawn by SEED of those that repair/ tries), against every test of its suite. Prints a
# row a test: problem, test, seconds that the reference solution takes, mistakes that it finds, how many of these no
# cheaper test finds, and which; and a row of those that none finds. Leaves mistake, test, result: build/cpu/kills.
#   JOBS=n     so many at once
set -u
edits=$1 B=build/cpu out=build/cpu/kills
shift
mkdir -p $out $B/repaired
make="${MAKE:-make} --no-print-directory -s -k -j${JOBS:-2} BACKEND=cpu"
# The suite with one worker; of a mistake that never ends each case may take two seconds.
judge() { # NN NAME WORKER
    WB_TIMEOUT=${TIMEOUT:-2} $B/wb suite --record "$out/$1.$2.json" "$B/tests/$1_test" "$3" cpu >/dev/null 2>&1
    $B/wb show "$out/$1.$2.json" rows |
        awk -F '\t' -v OFS='\t' -v name="$2" '$1 != "SKIP" { print name, $2, $1, $3 }' >"$out/$1.$2.tsv"
    rm -f "$out/$1.$2.json"
}
if [ "$edits" = one ]; then judge "$@"; exit; fi
for n; do
    for entry in $(awk -v list="solutions/$n/wrong.diff" -v tell=names -f workbook/loop/edit.awk); do
        echo "wrong/$n/$entry/${n}_worker"
    done
    echo "tests/${n}_test" "solutions/${n}_worker"
done | xargs -n 1 echo $B | tr ' ' / | xargs $make $B/wb $B/repair >$out/build.log 2>&1

for n; do
    rm -f $out/"$n".*.tsv
    source=$(ls solutions/"$n"/*.c*)
    made=$out/repaired_$n.cu
    mkdir -p build/shipped && workbook/loop/shipped.sh "$n" "build/shipped/$n" 2>/dev/null
    [ "$edits" = 0 ] || WB_WORKER=$B/repaired/${n}_worker $B/repair --seconds 3600 --choose "$edits" \
        --seed "${SEED:-1}" "$source" "$B/repaired/$n.cu" \
        "$make $B/repaired/${n}_worker" "$n" >"$made.ids" 2>/dev/null
    TIMEOUT=20 judge "$n" reference "$B/solutions/${n}_worker"
    {
        for worker in "$B/wrong/$n"/*/"${n}"_worker; do echo "$n wrong:$(basename "${worker%/*}") $worker"; done
        [ "$edits" = 0 ] || echo "$n edit:none $B/repaired/${n}_worker"
        [ "$edits" = 0 ] || cut -f 1 "$made.ids" | sort -un | while read -r id; do
            echo "$n edit:$id $B/repaired/${n}_worker $PWD/$B/repaired/$n.cu.$id"
        done
    } | xargs -P "${JOBS:-2}" -L 1 sh -c 'WB_REPAIR=${3:-} exec sh tests/prove/kills.sh one "$0" "$1" "$2"'
    cat $out/"$n".edit:none.tsv $out/"$n".*.tsv 2>/dev/null >$out/"$n".tsv
    rm -f $out/"$n".*.tsv
    awk -F '\t' -v OFS='\t' -v n="$n" '
        $1 == "reference" { seconds[$2] = $4; tests[++count] = $2; next }
        $1 == "edit:none" { if ($3 == "FAIL") not_of_edits[$2]; next } # what all changes together break
        { all[$1] }
        $3 == "FAIL" && !($1 ~ /^edit/ && $2 in not_of_edits) { found[$2, $1] = 1; finds[$2]++; mistake[$1] }
        END {
            for (i = 1; i <= count; i++) {
                t = tests[i]; alone = 0; which = ""
                for (m in mistake) {
                    if (!((t, m) in found)) continue
                    cheaper = 0
                    for (k = 1; k <= count && !cheaper; k++)
                        cheaper = k != i && (tests[k], m) in found && seconds[tests[k]] <= seconds[t]
                    if (!cheaper) { alone++; which = which " " m }
                }
                print n, t, seconds[t], finds[t] + 0, alone, substr(which, 2)
            }
            which = ""
            for (m in all) if (!(m in mistake)) { missed++; which = which " " m }
            print n, "none", 0, missed + 0, missed + 0, substr(which, 2)
        }' $out/"$n".tsv
done
