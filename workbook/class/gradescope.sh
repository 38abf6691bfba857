#!/bin/sh
# gradescope.sh ZIP - writes an autograder for Gradescope: setup.sh and run_autograder at its top, beside a class copy
# of the workbook and, if CASES=FILE was given, the private cases; SEED=n and SANITIZE=1 too. An existing file is not
# overwritten.
set -u
zip=$1
command -v zip >/dev/null || { echo "gradescope: zip is not installed" >&2; exit 2; }
[ ! -e "$zip" ] || { echo "gradescope: $zip exists, move it away first" >&2; exit 2; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
workbook/class/class_copy.sh "$scratch/workbook" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
cp workbook/class/gradescope/setup.sh workbook/class/gradescope/run_autograder "$scratch/"
: >"$scratch/held_out"
if [ -n "${WB_CASES:-}" ]; then
    workbook/class/cases.sh "$(realpath "$WB_CASES")" && cp "$WB_CASES" "$scratch/held_out" || exit 1
fi
seed=${WB_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')} # as of a class (grade_all.sh)
echo "$seed" >"$scratch/seed"
echo "${SANITIZE:-0}" >"$scratch/sanitize"
mkdir -p "$(dirname "$zip")"
at=$(cd "$(dirname "$zip")" && pwd)/$(basename "$zip")
points=$(awk -F ' *[|] *' '$3 ~ /^[0-9]+$/ { sum += $3 } END { print sum + 0 }' "$scratch/workbook/README.md")
(cd "$scratch" && zip -q -r "$at" setup.sh run_autograder workbook held_out seed sanitize) || exit 1
echo "written: $zip, $(du -h "$at" | cut -f1). Upload it as the autograder: $points points, plus a bonus;" \
    "a time-out of 40 minutes. SEED=$seed, which no report shows."
