#!/bin/sh
# gradescope.sh ZIP - writes an autograder for Gradescope: setup.sh and run_autograder at its top, beside a class copy
# of the workbook, settings (README.md) and the private cases, if any. An existing file is not overwritten.
set -u
zip=$1
unset ZIP # zip would take it for options
fail() { echo "gradescope: $*" >&2; exit 2; }
command -v zip >/dev/null || fail "zip is not installed"
[ ! -e "$zip" ] || fail "$zip exists, move it away first"
limit=${LIMIT:-$((${SANITIZE:-0} ? 20 : 10))}
case $limit in [123][0-9] | 40) ;; *) fail "LIMIT=$limit: must be a number of minutes from 10 to 40" ;; esac
echo "gradescope: packing a copy of the workbook: some seconds"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
QUIET=1 workbook/class/class_copy.sh "$scratch/workbook" || exit 1
cp workbook/class/run_autograder "$scratch/"
# Run once, as root, when the image of the autograder is built: the tools, and the workbook's trusted programs.
printf '#!/bin/bash\ncd %s && ./setup.sh --grade && workbook/class/grade_base.sh build/grades/base\n' \
    /autograder/source/workbook >"$scratch/setup.sh"
if [ -n "${CASES:-}" ]; then
    workbook/class/cases.sh "$(realpath "$CASES")" ask && cp "$CASES" "$scratch/private_cases" || exit 2
fi
seed=${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')} # as of a class (grade_all.sh)
echo "SEED=$seed SANITIZE=${SANITIZE:-0} limit=$limit" >"$scratch/settings"
mkdir -p "$(dirname "$zip")"
points=$(awk -F ' *[|] *' '$3 ~ /^[0-9]+$/ { sum += $3 } END { print sum + 0 }' "$scratch/workbook/README.md")
at=$(realpath "$zip") && (cd "$scratch" && zip -q -r "$at" .) || exit 1
echo "written: $zip, $(du -h "$zip" | cut -f1), an autograder to upload: $points points; a bonus, if there is one," \
    "is added. SEED=$seed, which reports do not show. On Gradescope, choose a time-out of $limit minutes and half a" \
    "processor. An autograder built with LIMIT=40 has a time-out of 40 minutes and grades more optional problems."
