#!/bin/sh
# timeline.sh IMPL NN - records what one block of a Hopper kernel does on the CPU layer, and draws it. CASE (WB_CASE): another shape than
# eight tiles of 128 keys; BLOCK: another block than the first.
set -u
. workbook/loop/source.sh
impl=$1 number=$2
find_source "$impl" "$number"
if [ -z "$file" ] || ! grep -q 'hopper\.cuh' "$file"; then
    echo "timeline: there is no $impl/$number/ that includes hopper.cuh; $impl has$(grep -ls 'hopper\.cuh' "$impl"/[0-9][0-9]/*.cu | sed 's|.*/\([0-9][0-9]\)/.*| \1|' | tr -d '\n')" >&2
    exit 2
fi
worker=build/cpu/$impl/${number}_worker record=build/cpu/$impl/$number.timeline svg=build/plots/timeline_$number.svg
given=${WB_CASE:-Nq=128,Nk=1024,D=128}
case ${BLOCK:-0} in *[!0-9]*) echo "timeline: BLOCK=$BLOCK: a number is needed" >&2; exit 2 ;; esac
$MAKE --no-print-directory -s BACKEND=cpu CASE= "$worker" build/cpu/timeline || exit 1
mkdir -p build/plots
rm -f "$record"
"$worker" --record "$record" --block "${BLOCK:-0}" --case "$given" >"$record.said" || { cat "$record.said"; exit 1; }
if grep '^returned: [^o]' "$record.said"; then exit 1; fi
build/cpu/timeline "$record" "$number $name, $given, block ${BLOCK:-0}" --svg "$svg" --tsv "${svg%.svg}.tsv" && exit
[ "$impl" = solutions ] || [ ! -d solutions ] || echo "timeline: make timeline-$number IMPL=solutions draws the answer key" >&2
exit 1
