#!/bin/sh
# help.sh BACKEND IMPL - the targets of the Makefile that carry a comment, by what one wants to do, and what they would work on.
list=$(sed -nE 's/^([a-z][a-z0-9%-]*):[^#]*## (.*)/\1\t\2/p' Makefile workbook/sanitize.mk)
show() {
    while IFS="$(printf '\t')" read -r target text; do
        printf '  make %-12s %s\n' "$(echo "$target" | sed 's/%/NN/')" "$text"
    done
}
group() { # TITLE TARGET...
    echo
    echo "$1"
    shift
    for target; do
        echo "$list" | awk -F '\t' -v target="$target" '$1 == target' | show
        list=$(echo "$list" | awk -F '\t' -v target="$target" '$1 != target')
    done
}
echo "FlashAttention workbook. Backend: $1. Implementation: $2. Next: make next, or read problems/README.md"
group "Begin" demo setup next progress
group "Work on a problem" test-% watch hint-% run-% sanitize-% mask-% reset-% diff-% test sanitize report
group "Measure" bench-% plot-% bench plot tune-% record bundle compile-gpu
group "Run a class (workbook/class/README.md)" class-copy grade-all grade gradescope
group "The workbook itself" check check-all mutants class-test lib format clean help
[ -z "$list" ] || { echo; echo "$list" | show; }
echo
sed -n '3,6s/^# */  /p' Makefile
