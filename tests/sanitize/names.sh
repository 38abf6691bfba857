#!/bin/sh
# names.sh - what a function defines stays global in the check build, so that a __tsan_read4 of its own does not link.
nm -g --defined-only build/cpu/check/solutions/02_worker.o | grep ' T .*weighted_row_sum_kernel'
