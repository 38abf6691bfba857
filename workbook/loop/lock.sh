#!/bin/sh
# lock.sh FILE PID [WHAT] - gives process PID the lock FILE, after waiting for whoever has it. If WHAT is given and it has to wait, it
# says so once, on descriptor 8 where that is open, else as an error. A lock ends with its process, however that ends, or when the
# process removes FILE. FILE holds the process's number and when it was started, since numbers come again.
set -u
lock=$1 me=$2 what=${3:-}
guard=$lock.guard
[ -d "${lock%/*}" ] || mkdir -p "${lock%/*}" || exit 1

life() { # PID: "PID BEGINNING" of a process that lives, else nothing
    if [ -r /proc/self/stat ]; then
        read -r stat 2>/dev/null <"/proc/$1/stat" || return
        stat=${stat##*) }
        # shellcheck disable=SC2086
        set -- "$1" $stat
        [ "$2" = Z ] || echo "$1 ${21}"
    else
        started=$(ps -o lstart= -p "$1") && echo "$1 $started"
    fi
}
# Between looking and taking nobody else may look. A guard that stands for two seconds was left behind.
if command -v flock >/dev/null; then
    exec 9>"$guard"
    enter() { flock 9; }
    leave() { flock -u 9; }
else
    enter() {
        tries=200
        until mkdir "$guard.d" 2>/dev/null; do
            sleep 0.01
            tries=$((tries - 1))
            [ $tries -gt 0 ] || { rmdir "$guard.d" 2>/dev/null; tries=200; }
        done
    }
    leave() { rmdir "$guard.d"; }
    trap leave EXIT
fi

while :; do
    enter
    read -r holder 2>/dev/null <"$lock" || holder=
    if [ -z "$holder" ] || [ "${holder%% *}" = "$me" ] || [ "$(life "${holder%% *}")" != "$holder" ]; then
        life "$me" >"$lock"
        exit 0
    fi
    leave
    if [ -n "$what" ]; then
        said="waiting: $what (process ${holder%% *})"
        { echo "$said" >&8; } 2>/dev/null || echo "$said" >&2
        what=
    fi
    sleep 0.1
done
