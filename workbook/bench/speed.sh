#!/bin/sh
# speed.sh BACKEND IMPL RECORD NN... - speed points, on a GPU: times your function and the answer key one after the
# other, each in a process of its own, on this machine, at the shape of make demo. Writes RECORD/NN.speed: the ratio key
# / yours of their times.
#
#   speed points of a problem = P / 10 * min(1, max(0, (ratio - 0.5) / 0.4))      P: the problem's points
#
# None at half the key's speed, all from nine tenths on; only for a problem all of whose checkpoints are won
# (score/grades.c sees to that). Your code runs in the process that takes the time, so a cheat could forge it: count
# these points where you trust people.
set -u
backend=$1 impl=$2 record=$3
shift 3
out=build/$backend
keys=${WB_KEYS:-$out/solutions}  # a folder with the answer keys' NN.so
if [ "$backend" != cuda ]; then
    echo "speed points: not run, they need BACKEND=cuda and a GPU"
    exit 0
fi
median() { # LIBRARY: milliseconds, or nothing
    "$out/bench" "$number" --impl this="$1" --out "$record/$number.tsv" >/dev/null 2>&1 || return
    awk -F'\t' '$2 == "this" && $14 + 0 > 0 { print $14 }' "$record/$number.tsv"
    rm -f "$record/$number.tsv"
}
for number; do
    rm -f "$record/$number.speed"
    [ "$(cat "$record/$number.state" 2>/dev/null)" = passed ] || continue
    [ -f "$keys/$number.so" ] || $MAKE --no-print-directory "$keys/$number.so" BACKEND="$backend" >/dev/null 2>&1 ||
        { echo "speed points of $number: not run, there is no answer key at $keys/$number.so"; continue; }
    $MAKE --no-print-directory "$out/bench" "$out/$impl/$number.so" BACKEND="$backend" >"$record/$number.log" 2>&1 ||
        continue
    yours=$(median "$out/$impl/$number.so") key=$(median "$keys/$number.so")
    if [ -n "$yours" ] && [ -n "$key" ]; then
        awk -v y="$yours" -v k="$key" 'BEGIN { printf "%.3f\n", k / y }' >"$record/$number.speed"
        echo "speed of $number: $yours ms, the key $key ms"
    else
        echo "speed points of $number: not run, the bench gave no time"
    fi
done
