#!/bin/sh
# library.sh - libworkbook.so exports the nine functions and the helpers, and a C99 program that knows the header alone can use it.
set -eu
out=build/${BACKEND:-cpu}
library=$out/lib/libworkbook.so
for name in tiled_attention weighted_row_sum flash_forward flash_causal flash_gqa flash_window flash_sinks flash_gqa_backward \
    flash_sinks_backward wb_status_text wb_last_message wb_device_alloc wb_device_free wb_copy_to_device wb_copy_to_host \
    wb_device_synchronize wb_device_name; do
    nm -D --defined-only "$library" | grep -q " [TW] $name\$" || { echo "FAIL  $library does not export $name"; exit 1; }
done
${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -Iworkbook tests/library.c "$library" -lm -Wl,-rpath,"$PWD/$out/lib" -o "$out/tests/library"
"$out/tests/library"
