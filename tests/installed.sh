#!/bin/sh
# installed.sh - what make install puts somewhere serves a program elsewhere: examples/attention.c, as C11 and as
# C++, by pkg-config and by CMake, after the folder was moved. A path may have blanks. What is not as it was
# installed is neither overwritten nor removed.
set -u
. tests/prove/frame.sh
out=build/${BACKEND:-cpu} root=$PWD
refused() { ! made install PREFIX="$1" && grep -q "$2" "$said"; }
files() { (cd "$1" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort | tr '\n' ' '); }
installed="include/workbook.h lib/cmake/workbook/workbook-config-version.cmake"
installed="$installed lib/cmake/workbook/workbook-config.cmake lib/libworkbook.so"
version=$(cat VERSION)
installed="$installed lib/libworkbook.so.${version%%.*} lib/libworkbook.so.$version"
installed="$installed lib/pkgconfig/workbook.pc share/workbook/installed "

check "make install, into a path with a blank" made install PREFIX="$scratch/a place"
check "puts there what it should" [ "$(files "$scratch/a place")" = "$installed" ]
mv "$scratch/a place" "$scratch/another place"
here=$scratch/another\ place
export PKG_CONFIG_PATH="$here/lib/pkgconfig"
mkdir "$scratch/elsewhere" && cd "$scratch/elsewhere" || exit 2
echo 'int wb_check_forward(void) { return 3; }' >own.c # a program's own function: the library calls the library's
compiled() { # FLAG...
    eval "${CC:-cc} $* -Wall -Wextra -Wpedantic -Werror '$root/examples/attention.c' own.c \
        $(pkg-config --cflags --libs workbook) '-Wl,-rpath,$here/lib' -lm -o attention" >"$said" 2>&1 &&
        ./attention >"$said" 2>&1
}
check "the example compiles and runs elsewhere, as C11" compiled -std=c11
check "and as C++" compiled -x c++ -std=c++11
if command -v cmake >/dev/null; then
    with_cmake() { # WORDS of find_package
        rm -rf project && cp -R "$root/examples" project &&
            sed -i "s/find_package(workbook .*/find_package(workbook $*)/" project/CMakeLists.txt &&
            cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$here" >"$said" 2>&1 &&
                cmake --build project/build >"$said" 2>&1
    }
    check "and by CMake" eval 'with_cmake 1 REQUIRED && project/build/attention >"$said" 2>&1'
    check "and rejects another version" eval \
        '! with_cmake 2 REQUIRED && ! with_cmake 1.999 REQUIRED && grep -q "version: $version" "$said"'
else
    echo "not run: the CMake project, there is no cmake"
fi
cd "$root" || exit 2

touch "$here/include/yours.h"
ln "$here/lib/libworkbook.so.$version" "$scratch/running"
check "make install again" made install PREFIX="$here"
check "writes into no library that may be in use" [ ! "$scratch/running" -ef "$here/lib/libworkbook.so.$version" ]
echo "# mine" >>"$here/lib/pkgconfig/workbook.pc"
check "changed files are not overwritten" refused "$here" "workbook.pc exists and was not installed"
check "make uninstall" made uninstall PREFIX="$here"
check "leaves changed files, and yours" [ "$(files "$here")" = "include/yours.h lib/pkgconfig/workbook.pc " ]
check "a file of another program is not overwritten" refused "$here" "workbook.pc exists and was not installed"

stage=$scratch/stage
check "DESTDIR" made install PREFIX=/usr DESTDIR="$stage"
check "is where it goes" [ "$(files "$stage/usr")" = "$installed" ]
check "and the files there do not contain it" eval '! grep -rq "$stage" "$stage"'
check "it is stripped" eval '! readelf -SW "$stage/usr/lib/libworkbook.so" | grep -q -e debug_ -e symtab'
cat >"$scratch/past.c" <<'END' # K has no page: the layer's report, where there are no symbols; D 64 by the copy engine
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <workbook.h>
int main(int argc, char **argv)
{
    attention_shape shape = {1, 1, 1, 64, 64, argc > 1 ? atoi(argv[1]) : 32, 1, 1, 0, 0};
    void *x = calloc(1, 8192), *K = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return flash_gqa(x, x, x, K, x, &shape, 0);
}
END
names_no_other() {
    ${CC:-cc} -I"$stage/usr/include" "$scratch/past.c" "$stage/usr/lib/libworkbook.so" \
        "-Wl,-rpath,$stage/usr/lib" -o "$scratch/past" >"$said" 2>&1 && ! "$scratch/past" >"$said" 2>&1 &&
        grep -q "illegal address in kernel kernel, block" "$said" && ! "$scratch/past" 64 >"$said" 2>&1 &&
        grep -q "illegal address in kernel kernel, block" "$said" && grep -q "at .*\.cu:[1-9]" "$said"
}
[ "${BACKEND:-cpu}" != cpu ] || check "and a report gives no kernel another one's name" names_no_other
exit $failed
