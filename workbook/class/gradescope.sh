#!/bin/sh
# gradescope.sh ZIP - writes an autograder for Gradescope: setup.sh and run_autograder at its top, beside a class copy
# of the workbook and, if CASES=FILE was given, the private cases; SEED=n, SANITIZE=1 and LIMIT=minutes too, in which
# half a processor grades all that is required (run_autograder). An existing file is not overwritten.
set -u
zip=$1
command -v zip >/dev/null || { echo "gradescope: zip is not installed" >&2; exit 2; }
[ ! -e "$zip" ] || { echo "gradescope: $zip exists, move it away first" >&2; exit 2; }
limit=${LIMIT:-$((${SANITIZE:-0} ? 20 : 10))}
case $limit in [1-9] | [1-9][0-9]) ;; *) echo "gradescope: LIMIT=$limit: minutes, 10 to 40" >&2; exit 2 ;; esac
echo "gradescope: packing a copy of the workbook: some seconds"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
workbook/class/class_copy.sh "$scratch/workbook" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
cp workbook/class/run_autograder "$scratch/"
# Run once, as root, when the image of the autograder is built: the tools, and the workbook's trusted programs.
printf '#!/bin/bash\ncd %s && ./setup.sh --grade && workbook/class/grade_base.sh build/grades/base\n' \
    /autograder/source/workbook >"$scratch/setup.sh"
: >"$scratch/held_out"
if [ -n "${WB_CASES:-}" ]; then
    workbook/class/cases.sh "$(realpath "$WB_CASES")" ask && cp "$WB_CASES" "$scratch/held_out" || exit 1
fi
seed=${WB_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')} # as of a class (grade_all.sh)
echo "$seed" >"$scratch/seed"
echo "${SANITIZE:-0}" >"$scratch/sanitize" && echo "$limit" >"$scratch/limit"
mkdir -p "$(dirname "$zip")"
at=$(cd "$(dirname "$zip")" && pwd)/$(basename "$zip")
points=$(awk -F ' *[|] *' '$3 ~ /^[0-9]+$/ { sum += $3 } END { print sum + 0 }' "$scratch/workbook/README.md")
(cd "$scratch" && zip -q -r "$at" setup.sh run_autograder workbook held_out seed sanitize limit) || exit 1
echo "written: $zip, $(du -h "$at" | cut -f1), an autograder to upload: $points points, a bonus comes on top." \
    "SEED=$seed, which no report tells. Choose a time-out of $limit minutes. Half a processor is enough: what is" \
    "required takes at most $((limit * 56 / 60)) of them; others are graded as far as time is left (LIMIT=40: more)."
