#!/bin/sh
# systems.sh SYSTEM... - ./setup.sh, make demo and make check as a newcomer gives them, on systems that are new.
# SYSTEM: a release of Debian and a compiler, as in trixie/clang++. Each is made by debootstrap below
# build/systems, and gets a clone of what is committed here. Who gives the commands, what sh is, locale, umask and
# path are drawn, by SEED=n, the commit's own number by default. ONLY=REGEX: of make check these rows. As root, on
# Linux; Debian's mirror is this machine's, or MIRROR.
# Exit status: 0; 1 if a step failed; 77 if it cannot be tried.
set -u
skip() { echo "skip  systems: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "only root can create a system"
command -v debootstrap >/dev/null || skip "there is no debootstrap (apt-get install debootstrap)"
mirror=${MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' | awk '$1 == "Debian" && $2 !~ /-/ && $3 == "main" { print $4; exit }')}
[ -n "$mirror" ] || skip "apt has no Debian mirror here: run apt-get update, or set MIRROR=..."
commit=$(git rev-parse --short=7 HEAD) || exit 1
[ $# -gt 0 ] || { sed -n '2,7s/^# //p' "$0"; exit 2; }
mkdir -p build/systems
search=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

draw() { # WHAT CHOICE...: one of them, by the seed, the system and what it is for
    number=$((0x$(echo "${SEED:-$((0x$commit))} $system $1" | sha256sum | cut -c1-7)))
    shift $((1 + number % ($# - 1)))
    echo "$1"
}

# Runs a command in the system, with its own mounts and processes, which end with it. No chroot: in one, graders
# get no namespaces.
inside() {
    unshare --mount --pid --fork --propagation private sh -c '
        cd "$1" && mount --rbind . . && cd "$1" && mount -t proc proc proc && mount --rbind /dev dev &&
            mount --rbind /sys sys && mount -t tmpfs -o mode=1777 tmpfs tmp &&
            mount -t tmpfs -o mode=1777 tmpfs dev/shm && # names there have numbers of processes, which start anew here
            mkdir -p .host && pivot_root . .host && cd / && umount -l .host || exit 125
        shift
        exec "$@"' sh "$root" "$@"
}

given() { # LINE: of shell, by who gives the commands, where the clone is
    line="umask $umask; cd ~ && { [ ! -d '$path' ] || cd '$path'; } && $*"
    as=/root
    [ "$user" = root ] || as="/home/$user"
    # shellcheck disable=SC2086
    inside setpriv --reuid "$user" --regid "$user" --init-groups \
        env -i HOME="$as" USER="$user" TERM=dumb PATH="$search" $locale sh -c "$line"
}

# A new system, and a clone in it.
bootstrap() {
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase --include=make,git,ca-certificates,sudo,util-linux "$release" "$root" "$mirror" ||
        return 1
    cp /etc/resolv.conf "$root/etc/"
    { # the mirror as this machine reaches it; it may be a copy of some weeks ago
        apt-config dump | grep '^Acquire::[a-z]*::\(Proxy\|Verify\)'
        echo 'Acquire::Check-Valid-Until "false";'
    } >"$root/etc/apt/apt.conf.d/90mirror"
    [ "$sh" = dash ] || ln -sf bash "$root/bin/sh"
    inside useradd -m -s /bin/bash ada && echo 'ada ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/ada" || return 1
    git clone -q --bare . "$root/srv/workbook.git" && chmod -R a+rX "$root/srv" || return 1
    [ "$compiler" = g++ ] ||
        inside sh -c 'apt-get update -qq &&
            apt-get install -y -qq --no-install-recommends clang libomp-dev libclang-rt-dev' || return 1
    given "git config --global --add safe.directory '*'; git clone -q /srv/workbook.git '$path'"
}

status=0
for system; do
    release=${system%/*} compiler=${system#*/} root=$PWD/build/systems/$(echo "$system" | tr / _)
    user=$(draw user root ada ada) sh=$(draw sh dash bash) umask=$(draw umask 022 077)
    locale=$(draw locale '' LANG=C LANG=C.UTF-8) path=$(draw path workbook 'my courses/flash attention')
    words=
    [ "$compiler" = g++ ] || words=" CC=clang CXX=clang++"
    bootstrap >"$root.log" 2>&1 || { echo "FAIL  $system could not be created"; tail -n 5 "$root.log"; status=1
    continue; }
    failed=
    for step in ./setup.sh "make demo$words" "make check$words${ONLY:+ ONLY='$ONLY'}"; do
        given "$step" >"$root.log" 2>&1 || { failed="$failed, $step"; tail -n 40 "$root.log"; }
    done
    if [ -z "$failed" ]; then word=ok; else word=FAIL status=1; fi
    echo "$word $system:${failed:+${failed#,} failed;} $user, $sh, ${locale:-no locale}, umask $umask, $path"
    rm -rf --one-file-system "$root"
done
exit $status
