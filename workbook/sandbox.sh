# sandbox.sh - read by grade.sh: how a program that nobody trusts is started. It prints words of a command line, quoted for the shell:
#
#   sandbox_find                  chooses `sandbox`: bwrap, or limits where only those are had and WB_ISOLATION allows it
#   sandbox_words MB PROCESSES FILE_MB SECONDS TMP_MB [WORD...]
#                                 the words to put before the program. MB: of address space. FILE_MB: the largest file it may write.
#                                 SECONDS: of processor time. TMP_MB: what fits in its /tmp. WORDs go to bwrap.
#   quoted WORD...                the words, each in quotes
#
# bwrap: namespaces of its own for users, processes, the network, names and mounts; nothing of this machine but /usr, read only, and
# what the WORDs add; a /tmp in memory; no capability, no way to get one; no terminal; it ends with whoever started it.
# limits: the same limits, an empty environment and, for root, the unprivileged user; it sees the machine's files as that user does.
# Either way it has a user of its own when root starts it, and is what the kernel ends first when memory runs out.
#
#   WB_ISOLATION=auto             bwrap, or nothing: this is the default
#   WB_ISOLATION=unsafe           limits, if there is no bwrap
#   WB_ISOLATION=container        limits: this container exists for one submission

quoted() {
    for word; do
        case $word in *\'*) word=$(printf '%s' "$word" | sed "s/'/'\\\\''/g") ;; esac
        printf "'%s' " "$word"
    done
}

# An unused user: beyond all that a machine gives out, or, in a container that knows 65536 users, where it gives none out.
sandbox_user() {
    if [ "$(awk '{ n += $3 } END { print (n > 3000000000) }' /proc/self/uid_map)" = 1 ]; then
        echo $((2000000000 + $$))
    else
        echo $((60100 + $$ % 4000))
    fi
}

sandbox_view() { # what is seen of the system
    for folder in bin sbin lib lib32 lib64 libx32; do
        if [ -L "/$folder" ]; then
            quoted --symlink "usr/$folder" "/$folder"
        elif [ -d "/$folder" ]; then
            quoted --ro-bind "/$folder" "/$folder"
        fi
    done
    for file in /etc/alternatives /etc/ld.so.cache; do
        [ ! -e $file ] || quoted --ro-bind $file $file
    done
}

sandbox_words() {
    memory=$1 processes=$2 file=$3 seconds=$4 tmp=$5
    shift 5
    limits=$(quoted "$(command -v prlimit)" "--as=$((memory << 20))" "--fsize=$((file << 20))" "--cpu=$seconds" --core=0)
    quoted env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LC_ALL=C.UTF-8
    [ "$(id -u)" -ne 0 ] || quoted setpriv --reuid "$sandbox_uid" --regid "$sandbox_uid" --clear-groups
    if [ "$sandbox" = bwrap ]; then
        quoted "$(command -v bwrap)" --unshare-all --unshare-user --disable-userns --die-with-parent --new-session --hostname sandbox --ro-bind /usr /usr
        sandbox_view
        quoted --proc /proc --dir /dev --dev-bind /dev/null /dev/null --dev-bind /dev/zero /dev/zero --dev-bind /dev/urandom /dev/urandom \
            --perms 1777 --size $((tmp << 20)) --tmpfs /tmp "$@" --remount-ro / --chdir /tmp --
        # Inside, where the user's processes are counted apart from all others of this machine.
        printf '%s' "$limits"
        quoted "--nproc=$processes"
    else
        # Here they are counted with all others of the user, who may be the person at the keyboard.
        [ "$(id -u)" -eq 0 ] || processes=$((processes + $(ps -L -o lwp= -u "$(id -u)" 2>/dev/null | wc -l)))
        printf '%s' "$limits"
        quoted "--nproc=$processes" setpriv --no-new-privs --inh-caps=-all --pdeathsig KILL
    fi
}

# Whether bwrap can do here all that is asked of it: a kernel may forbid namespaces, to everyone or in a container.
sandbox_works() {
    command -v bwrap >/dev/null && sandbox=bwrap && eval "$(sandbox_words 512 16 1 10 1) true" 2>"$1"
}

sandbox_find() {
    for tool in prlimit setpriv timeout; do
        command -v $tool >/dev/null || { echo "grade: there is no $tool: without it nothing limits a submission. ./setup.sh --grade installs it." >&2; exit 3; }
    done
    sandbox_uid=$(sandbox_user) sandbox=limits
    [ "${WB_ISOLATION:-auto}" != container ] || return 0
    said=$(mktemp) || exit 1
    if sandbox_works "$said"; then rm -f "$said"; return 0; fi
    why=$(head -n 1 "$said")
    rm -f "$said"
    sandbox=limits
    [ "${WB_ISOLATION:-auto}" != unsafe ] || return 0
    {
        if command -v bwrap >/dev/null; then
            echo "grade: bubblewrap does not work here: $why"
        else
            echo "grade: there is no bubblewrap (bwrap) here; ./setup.sh --grade installs it"
        fi
        echo "grade: without it isolation is limits only (time, memory, processes, file size): a submission could read your files and"
        echo "       use the network. For people you trust: UNSAFE=1 (--unsafe). In a container that holds one submission: --container"
    } >&2
    exit 3
}
