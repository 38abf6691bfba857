#!/bin/sh
# library.sh - libworkbook.so exports the functions of workbook.h and nothing else, as solutions/abi.1 promises them; a C99 program that knows the
# header alone can use it, and one that is running already can load it, as Python does. Where a function has more than one kernel, or a form with a
# workspace, each agrees with the oracle. Told "names", it looks neither at the promise nor at the kernels.
set -eu
out=build/${BACKEND:-cpu}
library=$out/lib/libworkbook.so
abi=solutions/abi.$(cut -d. -f1 VERSION)
${CC:-cc} -E workbook/workbook.h | awk -f solutions/declared.awk >"$out/tests/declared"
names=$(sed -nE '/^typedef/d; s/[(].*//; s/.*[ *]//p' "$out/tests/declared")
for problem in tests/[0-9][0-9]_*.c; do
    name=$(basename "$problem" .c | cut -c 4-)
    echo "$names" | grep -qx "$name" || { echo "FAIL  workbook.h declares no $name"; exit 1; }
done
nm -D --defined-only "$library" | sed 's/.* //' | sort >"$out/tests/exported"
echo "$names" | sort | diff - "$out/tests/exported" || { echo "FAIL  $library lacks what workbook.h declares (<), or exports more (>)"; exit 1; }
readelf -d "$library" | grep -q "SONAME.*\[libworkbook.so.${abi##*.}\]" || { echo "FAIL  $library has another soname"; exit 1; }
${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -DVERSION="\"$(cat VERSION)\"" -Iworkbook tests/library.c "$library" -lm -Wl,-rpath,"$PWD/$out/lib" -o "$out/tests/library"
"$out/tests/library"
cat >"$out/tests/loads.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : 0;
    if (!library) return !!printf("FAIL  %s\n", dlerror());
    dlclose(library);
    return dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) ? 0 : !!printf("FAIL  the library goes, and its signal handlers stay\n");
}
END
${CC:-cc} "$out/tests/loads.c" -ldl -o "$out/tests/loads"
"$out/tests/loads" "$PWD/$library"
[ "${1:-}" != names ] || exit 0
cat "$abi" >"$out/tests/promised" 2>/dev/null || true # none yet of a new first figure
if grep -Fxv -f "$out/tests/declared" "$out/tests/promised"; then
    echo "FAIL  workbook.h declares this no more, or otherwise, and $abi promises it to each program that is linked with that library. Give it back, or"
    echo "      raise the first figure of VERSION, and say so in CHANGELOG.md: then there is a new record"
    exit 1
fi
if grep -Fxv -f "$out/tests/promised" "$out/tests/declared" >"$out/tests/new"; then
    cat "$out/tests/new"
    echo "FAIL  this is new, and not promised yet. Promise it: cat $out/tests/new >>$abi"
    exit 1
fi

# Gradients of pairs of chunks, which no suite asks of one function alone.
${CC:-cc} -std=c11 -O2 -D_GNU_SOURCE -Wall -Wextra -Werror -Iworkbook tests/library_pairs.c "$out/lib/libworkbook_all.so" -lm -Wl,-rpath,"$PWD/$out/lib" -o "$out/tests/library_pairs"
"$out/tests/library_pairs"

# Of each function for which solutions/library.c chooses, some tests of its suite: every D, so every row of the table, and ends anywhere.
# Those with a workspace, NN_FORM_worker, get one that ends with its last byte (library_forms.c).
for worker in "$out"/lib/[0-9][0-9]*_worker; do
    name=$(basename "$worker" _worker)
    WB_JOBS=1 "$out/suite" "$out/tests/${name%_*}_test" "$worker" "${BACKEND:-cpu}" \
        --filter '*/@(worked_by_hand|ragged*|every_head_dim|every_group_size|odd_groups|groups|whole_function|own_stream|bad_input_a*)' >"$out/lib/$name.log" ||
        { echo "FAIL  the library's kernels of $name"; cat "$out/lib/$name.log"; exit 1; }
done

# Rows of the table, and kernels that have work for many blocks, that no shape of these suites is large enough for.
# NN/VARIANT: one that the library would not take for so little.
while read -r name case; do
    number=${name%%[_/]*} worker=$out/lib/${name}_worker log=$out/lib/$(echo "$name" | tr / _).log
    case $name in */*) worker=$out/variants/$number/variants/${name#*/}/${number}_worker ;; esac
    WB_CASE=$case "$out/suite" "$out/tests/${number}_test" "$worker" "${BACKEND:-cpu}" >"$log" ||
        { echo "FAIL  the library's kernel of $name, $case"; cat "$log"; exit 1; }
done <<'END'
03 B=1,Hq=2,Hkv=2,Nq=520,Nk=550,D=32
04 B=1,Hq=2,Hkv=2,Nq=520,D=32
05 B=1,Hq=2,Hkv=1,Nq=520,D=32
06 B=1,Hq=2,Hkv=1,Nq=1000,D=64,W=800
06 B=1,Hq=2,Hkv=1,Nq=900,D=32,W=800
07 B=1,Hq=2,Hkv=1,Nq=900,D=32,W=800,sinks=3
07 B=1,Hq=2,Hkv=1,Nq=600,D=32,W=100,sinks=3
07 B=1,Hq=6,Hkv=1,Nq=1068,D=128,W=886,sinks=3
08_fastest B=1,Hq=4,Hkv=4,Nq=2050,D=16
09 B=1,Hq=2,Hkv=1,Nq=2050,D=64,W=128,sinks=4
09 B=1,Hq=2,Hkv=1,Nq=600,D=16,W=100,sinks=3
11 B=1,Hq=2,Hkv=1,Nq=1000,D=128,W=800
11 B=1,Hq=2,Hkv=1,Nq=900,D=32,W=800
10 B=1,Hq=400,Hkv=400,Nq=65,Nk=65,D=128,causal=1
13 B=1,Hq=2,Hkv=1,Nq=1,Nk=2100,D=64
13 B=8,Hq=24,Hkv=2,Nq=4,Nk=2100,D=64
13 B=8,Hq=24,Hkv=2,Nq=4,Nk=2100,D=128
14 B=1,Hq=2,Hkv=1,Nq=1,Nk=2100,D=64
10 B=1,Hq=96,Hkv=96,Nq=129,Nk=129,D=128
10 B=1,Hq=48,Hkv=48,Nq=200,Nk=200,D=128
08/hopper_same_bits B=1,Hq=133,Hkv=133,Nq=257,D=64
08/hopper B=1,Hq=133,Hkv=133,Nq=257,D=128
08 B=1,Hq=140,Hkv=70,Nq=100,D=64
08 B=1,Hq=140,Hkv=70,Nq=128,D=128
08 B=1,Hq=400,Hkv=400,Nq=20,D=64
08_in B=2,Hq=16,Hkv=1,Nq=127,D=64
08_fastest B=1,Hq=16,Hkv=2,Nq=65,D=128
08 B=12,Hq=3,Hkv=1,Nq=720,D=128
08_fastest B=12,Hq=3,Hkv=1,Nq=720,D=128
09/hopper_any_window B=1,Hq=133,Hkv=133,Nq=257,D=128,W=7,sinks=2
09 B=1,Hq=140,Hkv=70,Nq=100,D=128,W=7,sinks=2
09_in B=1,Hq=4,Hkv=2,Nq=800,D=64,W=200,sinks=3
12 B=5,Hq=16,Hkv=1,Nq=128,D=64,W=64
12_in B=1,Hq=4,Hkv=2,Nq=800,D=128,W=200
END
