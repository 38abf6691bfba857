#!/bin/sh
# help.sh BACKEND IMPL - the targets of the Makefile that carry a comment, and what they would work on.
echo "FlashAttention workbook. Backend: $1. Implementation: $2. Next: make test-01, or read problems/01/README.md"
echo
sed -nE 's/^([a-z][a-z0-9%-]*):[^#]*## (.*)/\1\t\2/p' Makefile workbook/sanitize.mk | while IFS="$(printf '\t')" read -r target text; do
    printf '  make %-12s %s\n' "$(echo "$target" | sed 's/%/NN/')" "$text"
done
echo
sed -n '3,6s/^# */  /p' Makefile
