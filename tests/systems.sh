#!/bin/sh
# systems.sh [SYSTEM...] - the README's commands as a newcomer gives them, on systems that are new: each is made by debootstrap, gets a clone
# of what is committed here, and installs by setup.sh what it wants. SYSTEM: a release of Debian and a compiler, as in trixie/clang++;
# without any, six of them. A table in Markdown at the end, for people, and the same as a record in build/systems/systems.tsv: copied to
# tests/systems.tsv it is what make tables puts into README.md here.
#
#   STEPS="setup demo ..."  some of them: setup demo test own check grade train (without it, all). test: all suites of the keys; own: those of
#                           the machinery; check: make check without the wrong solutions, which are as wrong everywhere, with g++ alone
#   SEED=n                  what else differs is drawn: who gives the commands (root, or a user by sudo), what sh is, locale, umask and path; the
#                           commit's own number by default
#   JOBS=n                  systems at a time; 1
#
# As root, on Linux, with debootstrap; Debian's mirror is the one that this machine's apt has, or MIRROR. Where that cannot be it says so, and that
# is no failure, unless REQUIRED is set. Exit status: 0; 1 if a step failed.
set -u
cd "$(dirname "$0")/.." || exit 1
skip() { echo "systems: skipped: $*"; [ -z "${REQUIRED:-}" ]; exit; }
[ "$(id -u)" -eq 0 ] || skip "only root can make a system"
command -v debootstrap >/dev/null || skip "there is no debootstrap (apt-get install debootstrap)"
commit=$(git rev-parse --short=7 HEAD) || exit 1
mirror=${mirror:-${MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 !~ /-/ && $3 == "main" { print $4; exit }')}}
[ -n "$mirror" ] || skip "apt knows no mirror of Debian here: apt-get update, or MIRROR=..."
[ $# -gt 0 ] || set -- bookworm/g++ trixie/g++ sid/g++ bookworm/clang++ trixie/clang++ sid/clang++
: "${STEPS:=setup demo test own check grade train}" "${SEED:=$((0x$commit))}"
place=$PWD/build/systems
mkdir -p "$place"

draw() { # WHAT CHOICE...: one of them, by the seed, the system and what it is for
    number=$((0x$(echo "$SEED $system $1" | sha256sum | cut -c1-7)))
    shift $((1 + number % ($# - 1)))
    echo "$1"
}

# Runs a command in the system, with its own mounts and processes, which end with it. No chroot: in one, graders get no namespaces.
inside() {
    unshare --mount --pid --fork --propagation private sh -c '
        cd "$1" && mount --rbind . . && cd "$1" && mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys &&
            mount -t tmpfs -o mode=1777 tmpfs tmp && mkdir -p .host && pivot_root . .host && cd / && umount -l .host || exit 125
        shift
        exec "$@"' sh "$root" "$@"
}

# Runs a line of shell as whoever gives the commands, where the clone is.
command_of_user() {
    run="umask $umask; cd ~ && { [ ! -d '$path' ] || cd '$path'; } && $*"
    # shellcheck disable=SC2086
    if [ "$user" = root ]; then
        inside env -i HOME=/root TERM=dumb PATH="$search" $locale sh -c "$run"
    else
        inside setpriv --reuid ada --regid ada --init-groups env -i HOME=/home/ada TERM=dumb USER=ada PATH="$search" $locale sh -c "$run"
    fi
}
search=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# A new system, and a clone in it.
bootstrap() {
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase --include=make,git,ca-certificates,sudo,util-linux "$release" "$root" "$mirror" || return 1
    cp /etc/resolv.conf "$root/etc/"
    {
        apt-config dump | grep '^Acquire::[a-z]*::\(Proxy\|Verify\)' # as this machine reaches its mirror
        echo 'Acquire::Check-Valid-Until "false";'                      # a mirror may be a copy of some weeks ago
    } >"$root/etc/apt/apt.conf.d/90mirror"
    [ "$sh" = dash ] || ln -sf bash "$root/bin/sh"
    inside useradd -m -s /bin/bash ada && echo 'ada ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/ada" || return 1
    git clone -q --bare . "$root/srv/workbook.git" && chmod -R a+rX "$root/srv" || return 1
    case $compiler in
    g++) words=' WERROR=1' ;;
    clang++) words=' WERROR=1 CC=clang CXX=clang++' && inside sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends clang libomp-dev libclang-rt-dev' || return 1 ;;
    esac
    command_of_user "git config --global --add safe.directory '*'; git clone -q /srv/workbook.git '$path'"
}

step() { # NAME: as a user would give it
    case $1 in
    setup) command_of_user "./setup.sh --grade" ;;
    demo) command_of_user "make demo$words" ;;
    test) command_of_user "make test IMPL=solutions$words" ;;
    own) command_of_user "make -j2 own$words && status=0 && for suite in build/cpu/tests/[!0-9]*_test; do build/cpu/suite \$suite none cpu || status=1; done; exit \$status" ;;
    check) command_of_user "make check FAST=1$words" ;;
    grade) command_of_user "mkdir -p /tmp/ada/problems && cp -R solutions/03 /tmp/ada/problems && make grade SUBMISSION=/tmp/ada$words >build/graded && cat build/graded && grep -q '200/750' build/graded" ;;
    train) command_of_user "make train IMPL=solutions STEPS=50$words" ;;
    esac
}
versions() { # compiler make glibc gnuplot python, as they say it of themselves
    for of in "$compiler -dumpfullversion 2>/dev/null || $compiler -dumpversion" "make --version" "ldd --version" "gnuplot --version" "python3 --version"; do
        command_of_user "{ $of; }" 2>/dev/null | sed -n '1s/[^0-9]*\([0-9][0-9.]*\).*/\1/p' | grep . || echo -
    done
}

try() { # SYSTEM: its row of the table
    system=$1
    release=${system%/*} compiler=${system#*/} root=$place/$(echo "$system" | tr / _)
    user=$(draw user root ada ada) sh=$(draw sh dash bash) umask=$(draw umask 022 077) locale=$(draw locale '' LANG=C LANG=C.UTF-8)
    path=$(draw path workbook 'my courses/flash attention')
    echo "systems: $system, for $user, sh is $sh, ${locale:-no locale}, umask $umask, in '$path'"
    begun=$(date +%s) cells=
    if ! bootstrap >"$root.log" 2>&1; then
        tail -n 5 "$root.log"
        echo "systems: $system: FAIL: it could not be made"
        return
    fi
    echo "systems: $system: made in $(($(date +%s) - begun)) s"
    for step in $STEPS; do
        begun=$(date +%s)
        if [ "$step$compiler" = checkclang++ ]; then
            result=-
        elif step "$step" >"$root.$step.log" 2>&1; then
            result=$(($(date +%s) - begun))
        else
            result=FAIL
            sed 's/^/    /' "$root.$step.log" | tail -n 40
        fi
        echo "systems: $system: $step: $result"
        cells="$cells$(printf '\t')$result"
    done
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s%s\n' "$system" "$(versions | paste -s)" "$user" "$sh" "${locale:--}" "$umask" "$path" "$cells" >"$root.row"
    rm -rf --one-file-system "$root"
}
if [ "${1:-}" = --one ]; then
    try "$2"
    exit 0
fi
rm -f "$place"/*.row
export STEPS SEED mirror
printf '%s\n' "$@" | xargs -P "${JOBS:-1}" -n 1 "$0" --one

table=$place/systems.tsv
{
    printf '# Tried on %s: commit %s, seed %s, %s cores, %s at a time; a step in seconds.\n' "$(date +%Y-%m-%d)" "$commit" "$SEED" "$(getconf _NPROCESSORS_ONLN)" "${JOBS:-1}"
    printf 'system\tcompiler\tmake\tglibc\tgnuplot\tpython\tuser\tsh\tlocale\tumask\tpath\t%s\n' "$(echo "$STEPS" | tr ' ' '\t')"
    for system; do cat "$place/$(echo "$system" | tr / _).row"; done
} >"$table"
echo
echo '<!-- systems: -->' >"$place/table.md"
awk -f plots/tables.awk "$table" "$place/table.md"
[ "$(grep -vc "^#" "$table")" -eq $(($# + 1)) ] && ! grep -q FAIL "$table"
