#!/bin/sh
# unpack.sh ROOM MB READER NN/NAME... - run by grade.sh in the sandbox: takes these source files out of the archive on
# standard input, which may be anything; bsdtar (libarchive) finds out what. An archive in it is opened as well, where
# there is nothing else. ROOM is an empty folder to unpack in, MB how much may come out, READER the program of
# read_sources.c. Of each file only the bytes leave the sandbox. Prints what that prints.
set -u
room=$1 limit=$2 reader=$3
shift 3
cd "$room" || exit 1

refuse() { printf 'reason %s' "$*" | tr '\n' ' ' | cut -c 1-300; exit 0; }
said() { sed -n 's/^bsdtar: //; s/: Unknown error -1$//; /./{p;q;}' said; }

cat >inner || refuse "the archive is larger than $limit MB"
[ -s inner ] || refuse "the file is empty"
command -v bsdtar >/dev/null || refuse "this machine has no bsdtar: ./setup.sh --grade installs it"
for _ in once again; do
    mv inner archive && rm -rf tree && mkdir tree || exit 1
    if ! bsdtar -tf archive >names 2>said </dev/null; then
        [ -s names ] || refuse "this is neither a folder nor an archive, or it is broken"
        refuse "the archive is broken: $(said)"
    fi
    [ -s names ] || refuse "the archive is empty"
    odd=$(tr '\\' / <names | grep -aE '^/|^[A-Za-z]:/|(^|/)\.\.(/|$)' | head -n 1)
    [ -z "$odd" ] || refuse "the archive has a path that points outside its folder: $odd"
    # Some programs of Windows write "\" where a "/" belongs.
    bsdtar -xf archive -C tree --no-same-owner --no-same-permissions -s ',\\,/,g' \
        --exclude '*__MACOSX*' --exclude '*/build/*' --exclude '*/.git/*' --passphrase unknown \
        >/dev/null 2>said </dev/null || {
        [ "$(du -sm tree | cut -f1)" -lt "$limit" ] || refuse "the archive unpacks to more than $limit MB"
        refuse "the archive cannot be unpacked: $(said)"
    }
    chmod -R u+rwX tree
    "$reader" archive tree "$@" >taken 3>inner || exit 1
    grep -q '^inner ' taken || break
done
cat taken
