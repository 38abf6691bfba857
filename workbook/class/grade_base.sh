#!/bin/sh
# grade_base.sh BASE - makes what every submission is judged with, in the folder BASE: the workbook as a class gets it
# (class_copy.sh), with its test programs built, and build/kit, the part of it that a compiler needs to make a worker.
# There is no reference solution in it. BASE is kept while the workbook's own files stay as they are. Only
# BASE/fingerprint makes it whole. Exit status: 0, or 1 if it cannot be made.
set -u
unset WERROR # a warning in what a student wrote is no error
cd "$(dirname "$0")/../.." || exit 1
umask 022
base=$1 new=$1.new
mkdir -p "$(dirname "$base")" || exit 1
# One at a time, in a place that is kept: the next finds it made.
exec 9>"$base.lock"
flock -n 9 || { echo "grade: waiting: another process is building $base" >&2; flock 9; }
rm -rf "$new"
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT TERM HUP
QUIET=1 workbook/class/class_copy.sh "$new" || exit 1
# What the grade of a problem depends on: not the lessons, another problem, nor how a machine is set up.
sums=$(cd "$new" && {
    find Makefile problems/*/*.[ct]* reference tests workbook -type f ! -name '*.md' -exec sha256sum {} + |
        LC_ALL=C sort -k 2
    echo "${CC:-}" "${CXX:-}" "${MARCH:-}"
    "${CC:-cc}" --version
    "${CXX:-c++}" --version
})
for number in $(cd "$new/problems" && echo [0-9][0-9]); do
    printf '%s ' "$number"
    echo "$sums" | awk -v own=" (problems|tests)/$number[_/]" '!/ (problems|tests)\/[0-9][0-9][_\/]/ || $0 ~ own' |
        sha256sum
done >"$new/fingerprints"
print=$(sha256sum <"$new/fingerprints" | cut -d' ' -f1)
if [ "$(cat "$base/fingerprint" 2>/dev/null)" = "$print" ]; then exit; fi

echo "grade: building the test programs, once: a minute or two on two cores"
mkdir -p "$new/build/cpu/check"
# What is built here already need not be built again.
for made in machinery layer reference tests check/layer check/address check/threads; do
    [ ! -e "build/cpu/$made" ] || cp -Rp "build/cpu/$made" "$new/build/cpu/$made"
done
# What was made with warnings as errors serves where they are none.
flags=$new/build/cpu/flags.mk
if [ -e build/cpu/flags.mk ]; then
    sed 's/ -Werror / /g' build/cpu/flags.mk >"$flags" && touch -r build/cpu/flags.mk "$flags"
fi
log=$new/build/base.log
while sleep 10 >/dev/null 2>&1; do echo "grade: $(find "$new/build" -type f | wc -l) files built" >&2; done 9>&- &
telling=$!
trap 'kill $telling 2>/dev/null; rm -rf "$new"' EXIT
${MAKE:-make} -C "$new" --no-print-directory -j"${JOBS:-2}" BACKEND=cpu IMPL=problems judges >"$log" 2>&1 9>&- ||
    { tail -n 40 "$log" >&2; exit 1; }
kill $telling

# The kit: no test, no oracle, no program.
kit=$new/build/kit
mkdir -p "$kit/tests" "$kit/build/cpu/problems"
# Of workbook/ itself, of case/ and worker/, of which a worker is made: no other room's objects.
(cd "$new" && cp -Rp --parents Makefile workbook/*.h workbook/*.mk workbook/words workbook/cpu workbook/case/*.h \
    workbook/nccl/*.h workbook/worker/*.h workbook/worker/tested.c workbook/loop/probe.sh \
    workbook/sanitize/sanitize.mk build/tools.mk build/cpu/flags.mk build/cpu/layer build/cpu/check/layer \
    build/cpu/check/address build/cpu/check/threads build/cpu/machinery/*.o build/cpu/machinery/case/*.o \
    build/cpu/machinery/worker/*.o build/kit)
for test in "$new"/tests/[0-9][0-9]_*.c; do
    name=${test##*/}
    mkdir -p "$kit/problems/${name%%_*}"
    : >"$kit/tests/$name" # which tells the function's
done
find "$kit" -name '*.d' -exec rm {} +
echo "${CC:+CC=$CC} ${CXX:+CXX=$CXX} ${MARCH:+MARCH=$MARCH} WB_BUILDING=yes" >"$kit/variables"

rm -rf "$base"
mv "$new" "$base" && echo "$print" >"$base/fingerprint"
