#!/bin/sh
# errors.sh BACKEND IMPL NN - how far attention over int8 (14) or e4m3 (16) is from the truth, beside bf16 (13, 10):
# make errors, errors-16.
set -u
out=build/$1 impl=$2
case $3 in
14) bf16=13 name=int8 table=14_flash_decode_int8_errors ;;
16) bf16=10 name=e4m3 table=16_flash_fp8_errors ;;
*) echo "make errors-$3: there is errors-16, and errors of 13 and 14" >&2; exit 2 ;;
esac
$MAKE --no-print-directory -s -j"$WB_JOBS" BACKEND="$1" "$out/errors" "$out/$impl/$bf16.so" "$out/$impl/$3.so" || exit 2
mkdir -p "$out/results"
"$out/errors" "$3" bf16="$out/$impl/$bf16.so" $name="$out/$impl/$3.so" >"$out/results/$table.tsv"
