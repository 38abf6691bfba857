#!/bin/sh
# arm64.sh [ROOT] - tries the workbook on arm64 Linux, on a machine of another kind: in ROOT (build/arm64) a Debian with what setup.sh installs
# there; every key compiled for it, here, by a cross compiler; then run in it, under qemu-user: the suites of all keys, the layer's own, the
# check build on its small cases. As root, on Debian: apt-get install mmdebstrap qemu-user-static binfmt-support g++-aarch64-linux-gnu.
# No part of make check: it takes long. README.md here says when it was tried and with what result.
# Exit status: 0, 1 if something failed, 2 if it could not be tried.
set -u
root=${1:-build/arm64}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
give_up() { echo "arm64: $*" >&2; exit 2; }
grep -qs enabled /proc/sys/fs/binfmt_misc/qemu-aarch64 || give_up "this kernel does not start arm64 programs: is binfmt_misc mounted, and qemu-user-static registered?"
command -v aarch64-linux-gnu-g++ >"$scratch/which" || give_up "there is no aarch64-linux-gnu-g++"

if ! [ -d "$root/workbook" ]; then
    mmdebstrap --arch=arm64 --variant=minbase --include=make,git,ca-certificates bookworm "$root" || give_up "no Debian root"
    mkdir "$root/workbook"
fi
root=$(cd "$root" && pwd)
git archive HEAD | tar -x -C "$root/workbook" || give_up "git archive"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc" || give_up "no /proc in $root"
inside() { chroot "$root" sh -c "cd /workbook && $*"; }
inside ./setup.sh || give_up "setup.sh"

numbers=$(cd problems && echo [0-9][0-9])
programs="build/cpu/suite build/cpu/tests/layer_test build/cpu/tests/tile_words_test"
for number in $numbers; do
    programs="$programs build/cpu/tests/${number}_test build/cpu/solutions/${number}_worker build/cpu/check/solutions/${number}_worker"
done
# The check build renames symbols with objcopy, which must be the other machine's.
ln -s "$(command -v aarch64-linux-gnu-objcopy)" "$scratch/objcopy"
to="--sysroot=$root -fdebug-prefix-map=$root=" # sources lie in /workbook there
libraries=$root/usr/lib/aarch64-linux-gnu/openblas-pthread
# shellcheck disable=SC2086
(cd "$root/workbook" && PATH=$scratch:$PATH ${MAKE:-make} --no-print-directory -j"${WB_JOBS:-2}" BACKEND=cpu MARCH=armv8-a \
    CC="aarch64-linux-gnu-gcc $to" CXX="aarch64-linux-gnu-g++ $to" \
    OPENBLAS_CFLAGS="-I$root/usr/include/aarch64-linux-gnu/openblas-pthread" OPENBLAS_LIBS="-L$libraries -lopenblas" $programs) || give_up "it does not compile"

failed=0
tried() { # WHAT COMMAND
    if inside "$2" >"$scratch/log" 2>&1; then echo "ok    $1: $(tail -n 1 "$scratch/log")"; else echo "FAIL  $1"; cat "$scratch/log"; failed=1; fi
}
# The memory of a process is here that of the emulator, which these tests cannot judge.
emulated='memory memory_does_not_grow memory_of_a_square memory_does_not_depend_on_the_group'
for number in $numbers; do
    tried "suite $number" "WB_TIMEOUT=300 build/cpu/suite --exempt '$emulated' build/cpu/tests/${number}_test build/cpu/solutions/${number}_worker cpu"
done
for own in tile_words layer; do tried "$own" "build/cpu/suite build/cpu/tests/${own}_test none cpu"; done
for number in $numbers; do
    tried "check build $number" "export ASAN_OPTIONS=detect_leaks=0; for given in \$(build/cpu/check/solutions/${number}_worker --cases list); do
        timeout 600 build/cpu/check/solutions/${number}_worker --case \$given --guard 0 || exit 1; done"
done
exit $failed
