#!/bin/sh
# lab.sh - make lab: profiles of four slow kernels of 03 (plots/data/cpu/lab.txt). SAY="A NAME" answers why A is slow,
# with a NAME of the table in problems/lab.md.
# lab.sh record NAME... - prints that file, of these kernels (solutions/03/slow.diff), whose workers are built; not the
# names, but a sha256 of each answer.
set -u
page=problems/lab.md table=plots/data/cpu/lab.txt given=Hq=2,Nq=256,D=64
say() { echo "lab: $*" >&2; exit 2; }
sum() { echo "$*" | sha256sum | cut -d' ' -f1; }
reasons() { sed -n 's/^| `\([a-zA-Z_]*\)` | \(.*\) |$/\1: \2/p' "$page"; }

if [ "${1:-}" = record ]; then
    record=build/cpu/profiling/slow/record
    shift
    for name in "$@"; do
        letter=$(echo "${letter:-@}" | tr @A-C A-D)
        CUDACPU_PROFILE=$record "build/cpu/profiling/slow/$name/03_worker" --case "$given" --guard 0 >/dev/null ||
            exit 1
        echo "$letter:"
        awk -v needs="$(build/cpu/needs 03 "$given")" -v source="build/cpu/slow/$name/flash_forward.cu" \
            -f workbook/profile/profile.awk "$record" >"$record.text"
        sed 's|build/cpu/slow/[^/]*/||; /^sectors (of 32 bytes)/,$d' "$record.text"
        printf 'answer: %s\n\n' "$(sum "$letter $name")"
    done
    sed '1,/^sectors (of 32 bytes)/{/^sectors/!d}' "$record.text"
    exit
fi

if [ -n "${SAY:-}" ]; then
    set -f
    # shellcheck disable=SC2046
    set -- $(echo "$SAY" | sed 's/^ *\([A-Da-d]\):* /\U\1 /')
    case $#$* in
    *[!A-Za-z0-9_\ ]* | [!2]*) say 'SAY="A NAME" must be a letter from A to D and a name of the list' ;;
    esac
    answer=$(awk -v letter="$1:" '$0 == letter { of = 1 } of && /^answer: / { print $2; exit }' "$table")
    [ -n "$answer" ] || say "the letter must be from A to D"
    reason=$(reasons | grep "^$2:") || say "the list has no such name"
    [ "$(sum "$1 $2")" = "$answer" ] || { echo "$1: no, it is slow for another reason"; exit; }
    echo "$1: right. ${reason#*: }"
    exit
fi
grep -v '^answer: ' "$table"
reasons | sort | sed '1s/^/What could be slow:\n\n/'
printf '\nWhy is each slow? make lab SAY="A NAME"; make profile-03 shows yours.\n'
