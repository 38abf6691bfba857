#!/bin/sh
# small.sh NN WORKER - a key or variant chooses smaller tiles where a block may have less shared memory, and those are
# right too. No machine at hand need have so little: the CPU layer plays a GPU with 64 KB (sm_75) and one with 99 KB
# (sm_86, sm_89, sm_120). Tests that visit every head dimension and every choice of tiles are run.
set -u
. tests/prove/judge.sh
for kilobytes in 64 99; do
    WB_SHARED_KB=$kilobytes judge "$out/tests/$1_test" "$2" "$BACKEND" \
        --filter '*/@(many_tiles|every_input|wide_windows|no_window|whole_function|long_sequence)' || exit 1
    [ "$("$out/wb" show "$record" ok | grep -c .)" -ge 2 ] || exit 1
    echo "$kilobytes KB: $(counts)"
done
