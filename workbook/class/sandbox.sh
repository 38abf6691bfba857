# sandbox.sh - read by grade.sh and grade_build.sh: how a program that nobody trusts is started (threats.md says
# against what).
#
# bwrap: of this machine it sees /usr, read only, and what the words add; a /tmp in memory, which a worker has not; no
# terminal. limits, where $isolation is --container or --unsafe: it sees the machine's files as its user does, another
# one than that of the judge. Only root can give it one; where it would be the judge's own, nothing is graded, unless
# unsafe. Either way confine.c is in between: system calls, limits, environment, and whatever is left running.

sandbox_seconds=1800 # of a processor, for all of a submission

quoted() { # WORD...: the words, each in quotes
    for word; do
        case $word in *\'*) word=$(printf '%s' "$word" | sed "s/'/'\\\\''/g") ;; esac
        printf "'%s' " "$word"
    done
}

# An unused user: beyond all that a machine gives out, or, in a container that knows 65536 users, where it gives none
# out. 0: none can be had.
sandbox_user() {
    if [ "$(awk '{ n += $3 } END { print (n > 3000000000) }' /proc/self/uid_map)" = 1 ]; then
        user=$((2000000000 + $$))
    else
        user=$((60100 + $$ % 4000))
    fi
    if setpriv --reuid $user --regid $user --clear-groups true 2>/dev/null; then echo $user; else echo 0; fi
}

# The words that make a command the sandbox's user's.
sandbox_as() { [ "$sandbox_uid" = 0 ] || echo "setpriv --reuid $sandbox_uid --regid $sandbox_uid --clear-groups"; }

# Sets `room`, a new folder that the sandbox may write in: its /tmp, or, without bwrap, one in GRADE_SCRATCH.
sandbox_room() {
    room=/tmp
    [ "$sandbox" != bwrap ] || return 0
    room=$GRADE_SCRATCH/room
    rm -rf "$room"
    mkdir -m 700 "$room"
    [ "$sandbox_uid" = 0 ] || chown "$sandbox_uid:$sandbox_uid" "$room"
}

sandbox_bwrap() { # TMP_MB
    # shellcheck disable=SC2046
    quoted $(sandbox_as) bwrap --unshare-all --unshare-user --as-pid-1 --die-with-parent --new-session \
        --hostname sandbox --ro-bind /usr /usr
    for folder in bin sbin lib lib32 lib64 libx32; do
        [ -L "/$folder" ] || quoted --ro-bind-try "/$folder" "/$folder"
        [ ! -L "/$folder" ] || quoted --symlink "usr/$folder" "/$folder"
    done
    quoted --ro-bind-try /etc/alternatives /etc/alternatives --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache \
        --proc /proc --remount-ro /proc --dir /dev --dev-bind /dev/null /dev/null --dev-bind /dev/zero /dev/zero \
        --dev-bind /dev/urandom /dev/urandom
    if [ "$1" -gt 0 ]; then quoted --perms 1777 --size $(($1 << 20)) --tmpfs /tmp; else quoted --dir /tmp; fi
    quoted --chdir /tmp
}

# Prints the words to put before the program, quoted for the shell: confine.c explains them. TMP_MB: what fits in its
# /tmp; 0: it has none.
sandbox_words() { # MB PROCESSES FILE_MB SECONDS TMP_MB CALLS [confine's WORD...] -- [bwrap's WORD...]
    memory=$1 processes=$2 files=$3 seconds=$4 tmp=$5 calls=$6 more=
    shift 6
    while [ "$1" != -- ]; do more="$more $1"; shift; done
    shift
    if [ "$sandbox" = bwrap ]; then
        sandbox_bwrap "$tmp"
        quoted --ro-bind "$GRADE_SCRATCH/confine" /confine "$@" --remount-ro / -- /confine
    else
        # A worker starts no processes, so its user's others are workers, too.
        [ "$calls" = worker ] || more="$more all=1"
        # Without a user of its own it is counted with whatever the person at the keyboard runs.
        [ "$sandbox_uid" != 0 ] || processes=$((processes + $(ps -L -o lwp= -u "$(id -u)" 2>/dev/null | wc -l)))
        quoted "$GRADE_SCRATCH/confine" "user=$sandbox_uid"
    fi
    # shellcheck disable=SC2086
    quoted "calls=$calls" "memory=$memory" "processes=$processes" "files=$files" "seconds=$seconds" $more
    [ "$calls" != tools ] || quoted /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LC_ALL=C.UTF-8
}

sandbox_find() { # chooses `sandbox` (bwrap or limits) and `sandbox_uid`, or ends with 3 and a sentence
    command -v setpriv >/dev/null ||
        { echo "grade: grading needs setpriv: ./setup.sh --grade installs it" >&2; exit 3; }
    sandbox_uid=$(sandbox_user) sandbox=limits why=
    if [ "${isolation:-}" != --container ] && command -v bwrap >/dev/null; then
        # Whether it can do here all that is asked of it: a kernel may forbid namespaces, to everyone or in a container.
        why=$(eval "$(sandbox_bwrap 1) -- true" 2>&1) && { sandbox=bwrap; return; }
        why=$(echo "$why" | head -n 1)
    fi
    case ${isolation:-},$sandbox_uid in
    --unsafe,0)
        echo "grade: UNSAFE, and no bubblewrap: a submission runs as you. It can read and write your files, change" \
            "the grader, and forge its points. Only time, memory and system calls are limited." >&2 ;;
    --unsafe,*)
        echo "grade: UNSAFE, without bubblewrap: a submission is user $sandbox_uid and sees what every user sees" >&2 ;;
    --container,[1-9]*) ;;
    --container,0)
        echo "grade: --container works without bubblewrap, but only root can give the submission another user" >&2
        exit 3 ;;
    *)
        echo "grade: bubblewrap (bwrap) does not work here: ${why:-./setup.sh --grade installs it}. Without it a" \
            "submission could read your files, and, as you are not root, change the grader. For people you trust, use" \
            "UNSAFE=1 (--unsafe). As root in a container with a single submission, use --container." >&2
        exit 3 ;;
    esac
}
