#!/bin/sh
# frames.sh - each skeleton differs from its reference solution only in the gaps, and is recorded as shipped.
. tests/prove/frame.sh
outside() { sed '/^ *\/\/{/,/^ *\/\/}/ { //!d; }' "$1"; } # a file without what stands in its gaps
for skeleton in problems/[0-9][0-9]/*.c problems/[0-9][0-9]/*.cu; do
    outside "$skeleton" >"$scratch/skeleton" && outside "solutions/${skeleton#problems/}" >"$scratch/key" &&
        diff "$scratch/skeleton" "$scratch/key" >"$said"
    verdict $? "$skeleton differs from its reference solution only in the gaps"
    echo "run: sha256sum problems/[0-9][0-9]/*.c problems/[0-9][0-9]/*.cu | sort -k 2 > workbook/loop/shipped.sha256" \
        >"$said"
    check "$skeleton is recorded as shipped" "build/${BACKEND:-cpu}/wb" untouched "$skeleton"
done
exit $failed
