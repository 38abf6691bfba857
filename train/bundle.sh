#!/bin/sh
# bundle.sh BUNDLE NAME... - adds what make train needs on a GPU machine to a bundle (workbook/bench/bundle.sh,
# BACKEND=cuda): the program, both halves of the layers and the wrong ones, the lessons as its text, and of each NAME
# (wrong.sh) the kernels. There, in the bundle:
#   train/record.sh OUT [PART...]
set -eu
bundle=$1 out=build/cuda train=build/cuda/train
shift
case $(uname -m) in x86_64) march=x86-64-v3 ;; *) march=armv8-a ;; esac
mkdir -p "$train"
build() { ${MAKE:-make} --no-print-directory -j"${WB_JOBS:-2}" BACKEND=cuda ARCH="${ARCH:-90a}" MARCH=$march "$@"; }
targets="$train/train $train/layers_host $train/layers_device"
for name in $(awk -v list=tests/train/layers.diff -v tell=names -f workbook/loop/edit.awk); do
    targets="$targets $train/wrong_layers/$name/layers_host"
done
kernels=$out/lib/libworkbook.so
for number in 07 09; do
    for of in solutions problems variants/$number/variants/hopper; do kernels="$kernels $out/$of/$number.so"; done
done
changed() { train/wrong.sh cuda "$1" | sed -n "2s|.*|& 07|p; 3s|.*|& 09|p" >"$train/changed"; } # NAME
for name; do
    changed "$name"
    while read -r folder number; do kernels="$kernels $out/$folder/$number.so"; done <"$train/changed"
done
# shellcheck disable=SC2086
build $targets
# shellcheck disable=SC2086
build $kernels
for name; do # in a bundle every name has both
    changed "$name"
    to=$bundle/$train/wrong/$(echo "$name" | tr / _)
    mkdir -p "$to"
    while read -r folder number; do cp "$out/$folder/$number.so" "$to/$number.so"; done <"$train/changed"
done
for file in $targets $kernels train/table.sh train/record.sh train/alike.sh train/context.sh; do
    mkdir -p "$bundle/$(dirname "$file")"
    cp "$file" "$bundle/$file"
done
mkdir -p "$bundle/lib"
# shellcheck disable=SC2086
for target in $targets; do ldd "$target" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'; done | sort -u |
    grep -vE '/(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cudart|cublas(Lt)?|cuda)|ld-linux[^/]*)\.so' |
    xargs -I{} cp -L {} "$bundle/lib/"
cat problems/[0-9][0-9]/README.md >"$bundle/$train/lessons.txt"
echo "$*" >"$bundle/$train/names"
git describe --always --dirty --abbrev=10 >"$bundle/commit"
