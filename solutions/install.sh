#!/bin/sh
# install.sh BACKEND, install.sh --remove - puts the library that make lib has built into $DESTDIR$PREFIX, or takes it
# away again:
#   include/workbook.h    lib/libworkbook.so, a link to libworkbook.so.1, a link to libworkbook.so.1.0.0
#   lib/pkgconfig, lib/cmake/workbook: for pkg-config and for CMake, which find the rest from where they lie, so the
#   whole may be moved
#   share/workbook/installed: all of these with their sums. What is not as it stands there is not ours: neither
#   overwritten nor removed.
set -eu
umask 022
export LC_ALL=C
fail() { echo "install: $*" >&2; exit 1; }
to=${DESTDIR:+$DESTDIR/}${PREFIX:-/usr/local}
list=share/workbook/installed
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
writable() { # FOLDER...
    for folder; do
        if ! mkdir -p "$to/$folder" 2>"$scratch/why" || [ ! -w "$to/$folder" ]; then
            fail "cannot write into $to/$folder: choose another folder (PREFIX=\$HOME/.local), or use sudo make install"
        fi
    done
}

: >"$scratch/ours"
if [ -f "$to/$list" ]; then (cd "$to" && sha256sum -c $list 2>/dev/null | sed -n 's/: OK$//p') >"$scratch/ours"; fi
remove() {
    while IFS= read -r file; do rm -f "$to/$file"; done <"$scratch/ours"
    rm -f "$to/$list"
}
if [ "$1" = --remove ]; then
    [ -f "$to/$list" ] || fail "there is no $to/$list: nothing was installed there"
    sed 's/^[^ ]*  //' "$to/$list" | grep -Fxv -f "$scratch/ours" | while IFS= read -r file; do
        [ ! -e "$to/$file" ] || echo "install: $to/$file has changed since it was installed, and is kept"
    done
    remove
    rmdir "$to/lib/cmake/workbook" "$to/share/workbook" 2>/dev/null || true
    echo "install: removed from $to"
    exit 0
fi

backend=$1 version=$(cat VERSION) major=$(cut -d. -f1 VERSION)
staged=$scratch/staged
mkdir -p "$staged/include" "$staged/lib/pkgconfig" "$staged/lib/cmake/workbook" "$staged/share/workbook"
cp workbook/workbook.h "$staged/include/"
strip --strip-unneeded -o "$staged/lib/libworkbook.so.$version" "build/$backend/lib/libworkbook.so"
ln -s "libworkbook.so.$version" "$staged/lib/libworkbook.so.$major"
ln -s "libworkbook.so.$major" "$staged/lib/libworkbook.so"
case $backend in
cuda) needs="an NVIDIA GPU's driver; the CUDA runtime is inside" ;;
*) needs="no GPU: kernels run on the CPU execution layer" ;;
esac
cat >"$staged/lib/pkgconfig/workbook.pc" <<END
prefix=\${pcfiledir}/../..
libdir=\${prefix}/lib
includedir=\${prefix}/include
backend=$backend

Name: workbook
Description: the FlashAttention workbook's kernels, backend $backend: needs $needs
Version: $version
Libs: -L\${libdir} -lworkbook
Cflags: -I\${includedir}
END
cat >"$staged/lib/cmake/workbook/workbook-config.cmake" <<END
# find_package(workbook $major) gives workbook::workbook; backend $backend needs $needs.
get_filename_component(workbook_PREFIX "\${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)
set(workbook_BACKEND $backend)
if(NOT TARGET workbook::workbook)
    add_library(workbook::workbook SHARED IMPORTED)
    set_target_properties(workbook::workbook PROPERTIES
        IMPORTED_LOCATION "\${workbook_PREFIX}/lib/libworkbook.so.$version"
        IMPORTED_SONAME libworkbook.so.$major INTERFACE_INCLUDE_DIRECTORIES "\${workbook_PREFIX}/include")
endif()
END
cat >"$staged/lib/cmake/workbook/workbook-config-version.cmake" <<END
# A program made for $major.x is served by each later $major.y.
set(PACKAGE_VERSION $version)
if(PACKAGE_FIND_VERSION_MAJOR EQUAL $major AND NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
END
(cd "$staged" && find . -type f -o -type l) | sed 's|^\./||' | sort >"$scratch/files"

writable include lib lib/pkgconfig lib/cmake/workbook share/workbook
while IFS= read -r file; do
    if { [ -e "$to/$file" ] || [ -L "$to/$file" ]; } && ! grep -Fxq "$file" "$scratch/ours"; then
        fail "$to/$file exists and was not installed by make install: move it away, or choose another PREFIX"
    fi
done <"$scratch/files"
remove # so that nothing is written into a library that runs
(cd "$staged" && xargs sha256sum <"$scratch/files") >"$scratch/list"
mv "$scratch/list" "$staged/$list"
cp -RP "$staged/." "$to/"
case $(id -u)$to in 0/usr | 0/usr/local) ldconfig ;; esac
echo "install: libworkbook.so $version, backend $backend, in $to"
