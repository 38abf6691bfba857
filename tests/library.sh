#!/bin/sh
# library.sh - libworkbook.so exports every function of workbook.h, and a C99 program that knows the header alone can use it.
set -eu
out=build/${BACKEND:-cpu}
library=$out/lib/libworkbook.so
names=$(sed -nE 's/^(const char \*|wb_status )([a-z_0-9]+)\(.*/\2/p' workbook/workbook.h)
for problem in tests/[0-9][0-9]_*.c; do
    name=$(basename "$problem" .c | cut -c 4-)
    echo "$names" | grep -qx "$name" || { echo "FAIL  workbook.h declares no $name"; exit 1; }
done
for name in $names; do
    nm -D --defined-only "$library" | grep -q " [TW] $name\$" || { echo "FAIL  $library does not export $name"; exit 1; }
done
${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -Iworkbook tests/library.c "$library" -lm -Wl,-rpath,"$PWD/$out/lib" -o "$out/tests/library"
"$out/tests/library"
