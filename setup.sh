#!/bin/sh
# setup.sh - installs what the workbook needs and this machine lacks: compilers, make, OpenBLAS, Criterion, cJSON,
# libmd, gnuplot. It says what it does, uses sudo where it is not root, and never touches a GPU driver or the
# CUDA Toolkit. At the end it offers to compile the test machinery; QUIET=1: it does not.
#   ./setup.sh                   install
#   ./setup.sh --grade           and what make grade-all needs on Linux to run a class's submissions: bubblewrap,
#                                bsdtar, libseccomp, zip
#   ./setup.sh [--grade] --check only say what is missing; exit status 1 if anything is
set -u
grade= check=
for option; do
    case $option in
    --grade) grade=yes ;;
    --check) check=yes ;;
    *) sed -n '2,8s/^# //p' "$0" >&2; exit 2 ;;
    esac
done

container="Container only: open the folder in an editor that knows dev containers, or use the two lines of README.md,"
container="$container \"Your machine\"."
if [ "$(uname -s)" != Linux ]; then
    echo "setup: $(uname -s): the sandbox, the workers and the execution layer need Linux. $container" >&2
    exit 1
fi

# Compiles and links a few lines; what a package manager calls a package does not matter then.
links() { # libraries...
    printf '%s\n' "$program" >"$scratch/t.c"
    cc -x c "$scratch/t.c" $(pkg-config --cflags openblas 2>/dev/null) -o "$scratch/t" "$@" >"$scratch/log" 2>&1
}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

find_missing() {
    missing=
    command -v cc >/dev/null && command -v c++ >/dev/null || missing="$missing compiler"
    for tool in make awk pkg-config gnuplot flock; do
        command -v $tool >/dev/null || missing="$missing $tool"
    done
    for tool in ${grade:+bwrap bsdtar zip setpriv taskset}; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    program='#include <cblas.h>
void openblas_set_num_threads(int); int main(void) { openblas_set_num_threads(1); return 0; }'
    # shellcheck disable=SC2046
    links $(pkg-config --libs openblas 2>/dev/null || echo -lopenblas) || missing="$missing openblas"
    program='#include <criterion/criterion.h>
Test(a, b) { cr_assert(1); }'
    links -lcriterion || missing="$missing criterion"
    program='#include <cjson/cJSON.h>
int main(void) { cJSON_Delete(cJSON_CreateObject()); return 0; }'
    links -lcjson || missing="$missing cjson"
    program='#include <sys/types.h>
#include <sha256.h>
int main(void) { char sum[SHA256_DIGEST_STRING_LENGTH]; return !SHA256Data((const unsigned char *)"", 0, sum); }'
    links -lmd || missing="$missing libmd"
    program='#include <seccomp.h>
int main(void) { return !seccomp_version(); }'
    [ -z "$grade" ] || links -lseccomp || missing="$missing seccomp"
    missing=${missing# }
}

packages="build-essential make gawk pkg-config binutils gnuplot-nox libopenblas-dev libcriterion-dev libcjson-dev"
packages="$packages libmd-dev util-linux ${grade:+bubblewrap libarchive-tools libseccomp-dev zip}"

find_missing
if [ -z "$missing" ]; then
    echo "setup: compilers, make, OpenBLAS, Criterion, cJSON, libmd, gnuplot are here${grade:+, and what grading needs}"
elif [ -n "$check" ]; then
    echo "setup: missing: $missing"
    exit 1
else
    if ! command -v apt-get >/dev/null; then
        echo "setup: missing: $missing. Only apt-get is supported, and it is not here: install these by hand." >&2
        command -v dnf >/dev/null && echo "setup: Fedora has no package of Criterion, the C library. $container" >&2
        exit 1
    fi
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        sudo=sudo
        command -v sudo >/dev/null || { echo "setup: neither root nor sudo: run this as root" >&2; exit 1; }
    fi
    echo "setup: missing: $missing"
    echo "setup: $sudo apt-get installs: $packages"
    # shellcheck disable=SC2086
    $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install \
        -y -qq --no-install-recommends $packages >"$scratch/install" 2>&1 ||
        { tail -n 20 "$scratch/install" >&2; echo "setup: the installation failed, see above" >&2; exit 1; }
    find_missing
    rm -f build/tools.mk # what make has noted of this machine
    if [ -n "$missing" ]; then
        echo "setup: still missing after the installation: $missing" >&2
        cat "$scratch/log" >&2
        exit 1
    fi
    echo "setup: done"
fi

if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    if nvidia-smi -L >/dev/null 2>&1; then
        echo "setup: CUDA Toolkit and a GPU: kernels run on $(nvidia-smi -L | head -n 1 | cut -d'(' -f1)"
    else
        echo "setup: CUDA Toolkit without a GPU: kernels run on the CPU execution layer; make compile-gpu works too"
    fi
else
    echo "setup: no CUDA Toolkit: kernels run on the CPU execution layer, everything else works."
    echo "       For a GPU, install the Toolkit, 12.0 or later, from https://developer.nvidia.com/cuda-downloads"
    echo "       (choose only the toolkit; leave a GPU's driver to the machine's administrator)."
fi
[ -z "$check${QUIET:-}" ] && [ -z "$(ls build/c*/tests/01_test 2>/dev/null)" ] || exit 0
if [ -t 0 ] && [ -t 1 ]; then
    printf 'setup: compile the test machinery now, one to three minutes? Otherwise the first test compiles it. Y/n '
    read -r answer
    case $answer in n* | N*) ;; *) make --no-print-directory suites ;; esac
else
    echo "setup: make suites compiles the test machinery, one to three minutes; otherwise make test-NN compiles it"
fi
