#!/bin/sh
# editor.sh - what editors are told of each file is true: clang takes every problem, as shipped and blank, with the
# flags of compile_commands.json without a word, and no key is named there. CLANG: another clang than the path's.
set -u
clang=${CLANG:-clang}
command -v "$clang" >/dev/null || { echo "skip  there is no clang"; exit 77; }
. tests/prove/frame.sh

workbook/loop/compile_commands.sh >"$scratch/commands"
! grep 'solutions' "$scratch/commands" || fail "a key is named"
flags() { sed -n "s|.*\"file\": \"$1\", \"command\": \"[^ ]* \(.*\) -c $1\"}.*|\1|p" "$scratch/commands"; }
for source in problems/[0-9][0-9]/*.c problems/[0-9][0-9]/*.cu; do
    number=$(basename "$(dirname "$source")") flags=$(flags "$source")
    blank=$scratch/blank.${source##*.} name=$(basename "${source%.*}")
    workbook/loop/shipped.sh "$number" "$scratch/skeleton" 2>/dev/null &&
        awk -v number="$number" -v name="$name" -f workbook/loop/blank.awk "$scratch/skeleton" >"$blank" ||
        fail "make blank-$number"
    for text in "$source" "$blank"; do
        # shellcheck disable=SC2086
        "$clang" $flags -fsyntax-only "$text" >"$scratch/log" 2>&1 && [ -n "$flags" ] && [ ! -s "$scratch/log" ] ||
            { fail "$text: $flags"; head -20 "$scratch/log"; }
    done
done

# That it reads kernels at all.
kernel=$(ls problems/02/*.cu)
sed 's/<<<[^>]*>>>/<<<1>>>/' "$kernel" >"$scratch/wrong.cu"
# shellcheck disable=SC2046
! "$clang" $(flags "$kernel") -fsyntax-only "$scratch/wrong.cu" >"$scratch/log" 2>&1 &&
    grep -q 'too few execution configuration arguments' "$scratch/log" ||
    { fail "a launch without a block goes unnoticed"; cat "$scratch/log"; }
exit $failed
