#!/bin/sh
# timeline.sh IMPL NN - records on the CPU layer what one block of a Hopper kernel does, or what each rank of a ring
# queues, and draws it. CASE: another shape than eight tiles of 128 keys, or than 512 rows on four ranks;
# BLOCK: another block than the first.
set -u
. workbook/loop/source.sh
impl=$1 number=$2 block=${BLOCK:-0}
find_source "$impl" "$number"
ring=$(ring_of "$number")
if [ -z "$ring" ] && { [ -z "$file" ] || ! grep -q 'hopper\.cuh' "$file"; }; then
    blocks=$(grep -ls 'hopper\.cuh' "$impl"/[0-9][0-9]/*.cu | sed 's|.*/\([0-9][0-9]\)/.*| \1|' | tr -d '\n')
    rings=$(for n in "$impl"/[0-9][0-9]; do [ -z "$(ring_of "${n##*/}")" ] || printf ' %s' "${n##*/}"; done)
    echo "timeline: there is no $impl/$number/ that includes hopper.cuh;" \
        "$impl has$blocks${rings:+, and of rings$rings}" >&2
    exit 2
fi
case $block in *[!0-9]*) echo "timeline: BLOCK=$block: must be a number" >&2; exit 2 ;; esac
if [ -n "$ring" ]; then
    given=${CASE:-B=1,Hq=8,Hkv=2,Nq=512,D=64,causal=1,ranks=4} what=
else
    given=${CASE:-Nq=128,Nk=1024,D=128} what=", block $block"
fi
worker=build/cpu/$impl/${number}_worker record=build/cpu/$impl/$number.timeline
$MAKE --no-print-directory -s BACKEND=cpu CASE= "$worker" build/cpu/timeline || exit 1
mkdir -p build/plots
"$worker" --record "$record" --block "$block" --report 3 --case "$given" >"$record.said" 3>"$record.told" &&
    [ ! -s "$record.told" ] || { cat "$record.said"; exit 1; }
picture=build/plots/timeline_$number
if build/cpu/timeline "$record" "$number $name, $given$what" "$picture.json"; then
    . plots/draw.sh
    picture plots/timeline.gp "$picture.json" "$picture.svg"
    exit
fi
[ "$impl" = solutions ] || [ ! -d solutions ] ||
    echo "timeline: make timeline-$number IMPL=solutions draws the reference solution" >&2
exit 1
