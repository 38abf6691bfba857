#!/bin/sh
# library.sh - libworkbook.so exports the functions of workbook.h and nothing else, as solutions/abi.1 promises
# them; a C99 program that knows the header alone can use it, and one that is running already can load it, as
# Python does. Kernels that no suite has a case for agree with the oracle.
set -u
. tests/prove/frame.sh
: "${ROW:=$scratch/row}"
. tests/prove/judge.sh
made() { $MAKE --no-print-directory -s BACKEND="$BACKEND" "$@"; }
library=$out/lib/libworkbook.so abi=solutions/abi.$(cut -d. -f1 VERSION)
# These have work for many blocks where the library would not take them.
many="08/hopper_same_bits 08/hopper 09/hopper_any_window"
# shellcheck disable=SC2046
made "$library" "$out/lib/libworkbook_all.so" library-workers \
    $(cd problems && printf "$out/tests/%s_test " [0-9][0-9]) \
    $(for one in $many; do echo "$out/variants/${one%/*}/variants/${one#*/}/${one%/*}_worker"; done) >"$said" 2>&1
verdict $? "the library and its workers are built"

${CC:-cc} -E workbook/workbook.h | awk -f solutions/declared.awk >"$scratch/declared"
sed -nE '/^typedef/d; s/[(].*//; s/.*[ *]//p' "$scratch/declared" | sort >"$scratch/names"
for problem in tests/[0-9][0-9]_*.c; do basename "$problem" .c | cut -c 4-; done |
    sort | comm -23 - "$scratch/names" >"$said"
check "workbook.h declares a function of each problem" [ ! -s "$said" ]
nm -D --defined-only "$library" | sed 's/.* //' | sort | diff "$scratch/names" - >"$said" && [ -s "$scratch/names" ]
verdict $? "the library exports (>) what workbook.h declares (<)"
readelf -d "$library" >"$said"
check "its soname is of this version" grep -q "SONAME.*\[libworkbook.so.${abi##*.}\]" "$said"
# Promised to each program that is linked with that library: what is there no more, or otherwise, has to come
# back, or the first figure of VERSION is raised, CHANGELOG.md says so, and there is a new record.
awk '{ printf "%s%s", /^ / || NR == 1 ? "" : "\n", $0 } END { print "" }' "$abi" >"$scratch/promised" 2>/dev/null
! grep -Fxv -f "$scratch/declared" "$scratch/promised" >"$said"
verdict $? "workbook.h declares what $abi promises"
! grep -Fxv -f "$scratch/promised" "$scratch/declared" >"$said"
verdict $? "and what is new is promised, too: append these lines to $abi"

program() { # NAME LIBRARY FLAG...
    of=$2 name=$1
    shift 2
    ${CC:-cc} -Wall -Wextra -Werror "$@" -Iworkbook "tests/$name.c" "$PWD/$of" -lm -Wl,-rpath,"$PWD/$out/lib" \
        -o "$scratch/$name" >"$said" 2>&1 &&
        "$scratch/$name" >"$said" 2>&1
}
check "a C99 program uses it" program library "$library" -std=c99 -Wpedantic -DVERSION="\"$(cat VERSION)\""
# Gradients of pairs of chunks, which no suite asks of one function alone.
check "gradients of pairs of chunks add up" \
    program library_pairs "$out/lib/libworkbook_all.so" -std=c11 -O2 -D_GNU_SOURCE
cat >"$scratch/loads.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : 0;
    if (!library) return !!printf("%s\n", dlerror());
    dlclose(library);
    return dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) ? 0 : !!printf("unloaded, but its signal handlers stay\n");
}
END
${CC:-cc} "$scratch/loads.c" -ldl -o "$scratch/loads" && "$scratch/loads" "$PWD/$library" >"$said" 2>&1
verdict $? "a program that runs loads it, and it stays"

# What is chosen, of any GPU. And cases of kernels that no shape of these suites is large enough for, each of about so
# many products; and of kernels that have work for many blocks.
check "each shape has a kernel that supports it, and each kernel a shape" \
    program library_choice "$out/lib/libworkbook_all.so" -std=c11 -D_GNU_SOURCE workbook/problems.c
"$scratch/library_choice" 4e7 >"$scratch/cases"
while read -r name case kernel; do
    number=${name%%[_/]*} worker=$out/lib/${name}_worker
    case $name in */*) worker=$out/variants/$number/variants/${name#*/}/${number}_worker ;; esac
    CASE=$case judge "$out/tests/${number}_test" "$worker" "$BACKEND" >"$said" 2>&1
    verdict $? "the library's kernel of $name, $case${kernel:+: $kernel}"
done <<END
$(cat "$scratch/cases")
08/hopper_same_bits B=1,Hq=133,Hkv=133,Nq=129,D=64
08/hopper B=1,Hq=133,Hkv=133,Nq=129,D=128
09/hopper_any_window B=1,Hq=133,Hkv=133,Nq=129,D=128,W=7,sinks=2
08 B=12,Hq=3,Hkv=1,Nq=720,D=128
END
exit $failed
