# shellcheck shell=sh
# source.sh - for scripts that run in the workbook's root.
: "${MAKE:=make}" "${JOBS:=2}" # make says both; a script may be run by hand
find_source() { # FOLDER NN: sets `name`, the problem's, and `file`, FOLDER/NN/name.cu or name.c; empty if there is none
    for name in tests/"$2"_*.c; do :; done
    name=${name#tests/"$2"_} name=${name%.c}
    for file in "$1/$2/$name.cu" "$1/$2/$name.c" ''; do [ ! -f "$file" ] || return 0; done
}
ring_of() { # NN: the program that starts the ranks of a problem that wants several processes
    case $1 in
    17) echo ring ;;
    18) echo ring_backward ;;
    esac
}
from_of() { "build/${BACKEND:-cpu}/wb" from "$1"; }
grows_from() { # NN: sets `from`, the problem that it grows out of, or `why`, a sentence, if there is none
    from=$(from_of "$1")
    [ -z "$from" ] || return 0
    why="there is no problem $1, only$(echo '' problems/[0-9]* | sed 's| problems/| |g')"
    [ ! -d "problems/$1" ] || why="$1 uses no code of an earlier problem; make next says what to do in $1"
    return 1
}
changed_lines() { # OLD NEW: how many lines of code go and come; wants a folder `scratch`
    awk -f workbook/loop/code.awk "$1" >"$scratch/old.code" && awk -f workbook/loop/code.awk "$2" >"$scratch/new.code"
    diff -d "$scratch/old.code" "$scratch/new.code" | grep -c '^[<>]'
}
machine_of() { # BACKEND: sets `commit`, `gpu`, `driver` and `gpus`, how many: none, none and 0 on the CPU
    commit=$(cat tools/commit 2>/dev/null || git describe --always --dirty --abbrev=10 2>/dev/null || echo unknown)
    gpus=0 gpu=none driver=none
    [ "$1" = cuda ] || return 0
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
    of_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1 | grep . || echo unknown; }
    gpu=$(of_gpu name) driver=$(of_gpu driver_version)
}
head_lines() { # BACKEND COMMAND: what the first lines of a recorded table say
    machine_of "$1"
    printf '# %s\n' "gpu: $gpu" "driver: $driver" \
        "machine: $(getconf _NPROCESSORS_ONLN) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
        "date: $(date -u '+%Y-%m-%d %H:%M') UTC" "commit: $commit" "backend: $1" "command: $2"
}
