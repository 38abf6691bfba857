#!/bin/sh
# profile.sh IMPL NN - what each line of a kernel asks of memory and of an SM's units. CASE: another shape.
# The record stays in build/cpu/profiling/IMPL/NN.tsv.
set -u
. workbook/loop/source.sh
impl=$1 number=$2
find_source "$impl" "$number"
worker=build/cpu/profiling/$impl/${number}_worker record=build/cpu/profiling/$impl/$number.tsv
say() { echo "profile-$number: $*" >&2; exit "${status:-2}"; }
[ -n "$file" ] || say "there is no $impl/$number/"
[ "${file%.cu}" != "$file" ] || say "$file runs on the host: it has no warps"
[ -z "$(ring_of "$number")" ] || say "its kernels run on several ranks: make timeline-$number shows what they do"
built() { $MAKE --no-print-directory -s -j"$JOBS" BACKEND=cpu CASE= "$@" || exit 1; }
built build/cpu/wb
[ "$impl" != problems ] || ! build/cpu/wb untouched "$file" || status=1 say "not started: open $file"
built "$worker" build/cpu/needs
first=$("$worker" --cases list | head -n 1)
case $first in # whole tiles of attention
rows=*) first=rows=64,cols=4096 ;;
*page=*) first=Hq=8,Hkv=1,Nq=1,Nk=1024,D=64,page=64 ;;
esac
given=${CASE:-$first}
CUDACPU_PROFILE=$record "$worker" --report 3 --case "$given" --guard 0 >"$record.said" 2>&1 3>"$record.told" &&
    [ ! -s "$record.told" ] || { cat "$record.said"; exit 1; }
exec awk -v needs="$(build/cpu/needs "$number" "$given")" -v source="$file" -f workbook/profile/profile.awk "$record"
