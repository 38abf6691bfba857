#!/bin/sh
# row.sh NAME - proves one row of the plan in $PROOFS, and leaves its record there, NAME.row: what became of it
# (passed, failed, skipped; "passed before": not proved again), seconds of processor time, the sum of what it was proved
# of, name, what is proved, what was seen last; tab between them. NAME.log is what it said. A row that has passed of the
# same inputs, to the byte, is not proved again, but with ALL set. Status 77 of its command: skipped; 75: it had too
# little of a busy machine (judge/spent.h), and is proved again.
set -u
name=$1 record=$PROOFS/$1.row log=$PROOFS/$1.log tab=$(printf '\t')
plan=$(awk -F "$tab" -v name="$name" '$1 == name' "$PROOFS/plan")
IFS=$tab read -r _ number claim command inputs _ <<END
$plan
END
mkdir -p "${record%/*}"
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES CASE TEST SEED CASES SUBMISSION
export JOBS=1 ROW=$PROOFS/$name OMP_WAIT_POLICY=passive WERROR=1

# What it is proved of: its row, the compiler, programs that were built, files that belong to the workbook.
content() {
    printf '%s\n' "$plan" "$COMPILER"
    for input in $inputs; do
        case $input in
        @*) ;;
        .) cat "$PROOFS/files" ;;
        B/*) sha256sum "build/$BACKEND/${input#B/}" || echo "missing $input" ;;
        *) awk -v of="$input" 'index($2 "/", of "/") == 1 || index($2, of "_") == 1' "$PROOFS/files" ;;
        esac
    done 2>&1
}
sum=$(content | sha256sum | cut -c 1-16)
if [ -z "${ALL:-}" ] && [ -f "$record" ] && IFS=$tab read -r was spent of _ <"$record" &&
    [ "${was% before} $of" = "passed $sum" ]; then
    awk -F "$tab" -v OFS="$tab" '{ $1 = "passed before"; print }' "$record" >"$record.new"
    exec mv "$record.new" "$record"
fi
missing=$(for input in $inputs; do
    case $input in B/*) [ -e "build/$BACKEND/${input#B/}" ] || echo "$input" ;; esac
done)
if [ -n "$missing" ]; then
    echo "not built: $missing" >"$log"
    status=1
else
    for _ in 1 2 3 4 5; do
        (eval "$command") >"$log" 2>&1 </dev/null
        status=$?
        [ $status -eq 75 ] || break
    done
fi
times >"$log.times" # of this shell, and of all that it waited for
spent=$(tr 'ms' '  ' <"$log.times" | awk '{ spent += 60 * ($1 + $3) + $2 + $4 } END { printf "%.1f", spent }')
rm -f "$log.times"
case $status in 0) what=passed ;; 77) what=skipped ;; *) what=failed ;; esac
seen=$(tail -n 1 "$log" | tr -d '\000-\037' | cut -c 1-200)
printf '%s\t%s\t%s\t%s\t%s\t%s\n' $what "$spent" "$sum" "$name" "$claim" "$seen" >"$record.new"
mv "$record.new" "$record"
case $what in passed) said='ok   ' ;; failed) said='FAIL ' ;; *) said='skip ' ;; esac
printf '%s %-30s %6s s  %s\n' "$said" "$name" "$spent" "$seen" | cut -c 1-150
[ $what != failed ] || { echo "      $claim"; tail -n 60 "$log" | sed 's/^/      /'; }
[ $what != failed ]
