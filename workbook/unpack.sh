#!/bin/sh
# unpack.sh ROOM MB NN/NAME... - run by grade.sh in the sandbox: takes these source files out of the archive on standard input, which may
# be anything. ROOM is an empty folder to unpack in, MB how much may come out. What the archive is shows in its bytes, not its name.
# Of each file only the bytes leave the sandbox. Prints lines of
#   file NN BASE64      problems/NN/NAME, at the top or below one folder
#   left NN REASON      it is there, and cannot be taken
#   reason REASON       nothing can be taken
set -u
export LC_ALL=C
room=$1 limit=$2
shift 2
cd "$room" || exit 1
mkdir tree

refuse() { printf 'reason %s\n' "$*" | tr -c '[:print:]\n' '?' | cut -c 1-300; exit 0; }
bytes_at() { od -An -v -tx1 -j "$1" -N "$2" archive | tr -d ' \n'; }

# Member names, a line each, on standard input.
check_names() {
    odd=$(grep -aE '^/|(^|/)\.\.(/|$)' | head -n 1)
    [ -z "$odd" ] || refuse "the archive has a path that leads out of its folder: $odd"
}

from_tar() { # FILE
    tar -tf "$1" >names 2>said || refuse "the archive is broken: $(head -n 1 said)"
    check_names <names
    grep -aqE '^(\./)?([^/]+/)?problems/' names || refuse "the archive has no folder problems/, at its top or below one folder"
    tar -xf "$1" -C tree --no-same-owner --no-same-permissions --wildcards --no-anchored 'problems/[0-9][0-9]/*' 2>said ||
        grep -q 'Not found in archive' said || refuse "the archive cannot be unpacked: $(head -n 1 said)"
}

from_zip() {
    command -v unzip >/dev/null || refuse "this machine has no unzip: ./setup.sh --grade installs it"
    unzip -Z1 archive >names 2>said </dev/null || {
        grep -q 'Empty zipfile\|zipfile is empty' said names && refuse "the archive is empty"
        refuse "the archive is broken: $(sed -n 's/^ *//; s/^error *\[[^]]*\]: *//; s/\. .*//; /^\[/d; /./{p;q;}' said)"
    }
    check_names <names
    grep -aqE '^([^/]+/)?problems/' names || refuse "the archive has no folder problems/, at its top or below one folder"
    unzip -qq -o -P '' archive '*problems/[0-9][0-9]/*' -d tree >said 2>&1 </dev/null
    case $? in
    0 | 1 | 11) ;;
    *) refuse "the archive cannot be unpacked: $(sed -n 's/^ *//; s/^error: *//; /./{p;q;}' said)" ;;
    esac
}

cat >archive || refuse "the archive is larger than $limit MB"
case $(bytes_at 0 6) in
'') refuse "the file is empty" ;;
504b0304* | 504b0506* | 504b0708*) from_zip ;;
1f8b*)
    gzip -dc <archive 2>said | head -c $(((limit << 20) + 1)) >archive.tar
    [ "$(wc -c <archive.tar)" -le $((limit << 20)) ] || refuse "the archive unpacks to more than $limit MB"
    if [ -s said ]; then refuse "the archive is broken: $(sed -n 's/^ *//; s/^gzip: stdin: *//; /./{p;q;}' said)"; fi
    from_tar archive.tar
    ;;
*)
    [ "$(bytes_at 257 5)" = 7573746172 ] || refuse "this is neither a folder nor a .zip, .tar.gz or .tar archive"
    from_tar archive
    ;;
esac

# The folder that holds problems/.
cd tree || exit 1
top=
if [ -d problems ] && ! [ -L problems ]; then
    top=.
else
    for folder in */; do
        folder=${folder%/}
        if [ "$folder" = __MACOSX ] || [ -L "$folder" ] || ! [ -d "$folder/problems" ] || [ -L "$folder/problems" ]; then continue; fi
        [ -z "$top" ] || refuse "the archive has more than one folder with problems/: '$top' and '$folder'"
        top=./$folder
    done
fi
[ -n "$top" ] || refuse "the archive has no file problems/NN/NAME of the workbook"

for source; do
    number=${source%/*} path=$top/problems/$source
    if [ -L "$path" ] || [ -L "${path%/*}" ]; then
        echo "left $number problems/$source is a link"
    elif [ -f "$path" ]; then
        if [ "$(wc -c <"$path")" -gt 262144 ]; then
            echo "left $number problems/$source is larger than 256 KB"
        else
            printf 'file %s %s\n' "$number" "$(base64 -w 0 <"$path")"
        fi
    elif [ -e "$path" ]; then
        echo "left $number problems/$source is not a file"
    fi
done
