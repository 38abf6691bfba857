#!/bin/sh
# unpack.sh ROOM MB NN/NAME... - run by grade.sh in the sandbox: finds these source files in the tar of a submission on
# standard input. What is in it may be anything; bsdtar (libarchive) finds out what an archive is. ROOM is an empty
# folder to unpack in, MB how much may come out. Of each file only the bytes leave the sandbox. Prints lines of
#   file NN RANK BASE16 PATH    it could be problems/NN/NAME; the least RANK is the likeliest
#   left NN PATH REASON         it is there, and cannot be taken
#   other PATH                  a source that no problem knows
# unpack.sh pack SUBMISSION - run by grade.sh before, outside: that tar, of 100 MB at most (else it ends with 153),
# without large files that are neither sources nor archives. tar opens each step of a path from the one before, and none
# that is a link, whatever changes meanwhile.
set -u
packed='zip|tar|gz|tgz|bz2|tbz|xz|txz|zst|7z|rar'
if [ "$1" = pack ]; then
    cd "${2%/*}/" && ulimit -f 204800 || exit 3
    LC_ALL=C find "./${2##*/}" -mindepth 1 -type f -size +1M -regextype posix-extended \
        ! -iregex ".*[.](cu?|cc|cpp|cxx|txt|$packed)" | tar -cf - --anchored --exclude './*/build' \
        --exclude './*/.git' --exclude './*/__MACOSX' --no-wildcards -X - -- "./${2##*/}"
    exit
fi
room=$1 limit=$2
shift 2
mkdir "$room/tree" && cd "$room/tree" || exit 3

unpack() { # ARCHIVE FOLDER
    # Some programs of Windows write "\" where a "/" belongs.
    LC_ALL=C.UTF-8 bsdtar -xf "$1" -C "$2" --no-same-owner --no-same-permissions -s ',[\],/,g' -s ',[[:cntrl:]],,g' \
        --exclude '*__MACOSX*' --exclude '*/build/*' --exclude '*/.git/*' --passphrase unknown \
        >/dev/null 2>../said </dev/null
    status=$? inside=${2##*/}
    case ${2##*.},$(cat ../said) in [gbxz][zs]*,*'nrecognized archive format'*) # a file that was packed alone
        bsdcat "$1" >"$2/${inside%.*}" 2>../said
        status=$? ;;
    esac
    chmod -R u+rwX "$2"
    return $status
}
why() { # an archive was not unpacked
    if ! [ -s ../archive ]; then
        echo "is empty"
    elif [ "$(du -sm . | cut -f1)" -ge "$limit" ]; then
        echo "unpacks to more than $limit MB"
    elif grep -qi 'unrecognized archive format\|mtree' ../said; then
        echo "is no archive, or a broken one"
    else
        echo "cannot be unpacked: $(sed -n 's/^bsdtar: //; s/: Unknown error -1$//; /./{p;q;}' ../said)"
    fi
}
cat >../archive && unpack ../archive . # what is no file, folder or link is passed over
# What was handed in, if it is a file, becomes a folder of that name; then the archives in it, and those in them.
LC_ALL=C find . -mindepth 1 -maxdepth 1 -type f >../archives
for _ in 1 2 3 4; do
    while IFS= read -r archive; do
        mv "$archive" ../archive && mkdir "$archive" || exit 3
        [ -s ../archive ] && unpack ../archive "$archive" || {
            printf 'left - %s %s\n' "${archive#./}" "$(why)"
            rm -rf "$archive"
        }
    done <../archives
    LC_ALL=C find . -type f -regextype posix-extended -iregex ".*[.]($packed)" >../archives
done

# How likely: the deeper the less, in an archive less than beside it, elsewhere or under another name less still.
cd ./* 2>/dev/null || exit 0
LC_ALL=C find . -mindepth 1 \( -name '.*' -o -name build -o -name __MACOSX \) -prune -o -printf '%y %s %p\n' |
    LC_ALL=C awk -v known="$*" -v packed="[.]($packed)/" '
    function letters(name) { name = tolower(name); sub(/\.[^.]*$/, "", name); gsub(/[^a-z]/, "", name); return name }
    BEGIN { for (count = split(known, place, " "); ++i <= count; numbers[substr(place[i], 1, 2)]) continue }
    {
        type = $1
        size = $2
        sub(/^[^ ]* [^ ]* [.]\//, "")
        parts = split($0, part, "/")
        name = part[parts]
        sub(/\.[tT][xX][tT]$/, "", name)
        if (type == "l" && name in numbers) print "left " name " " $0 " is a link"
    }
    tolower(name) !~ /\.(cu?|cc|cpp|cxx|h|cuh|hpp)$/ || /^(.*\/)?tests\/[0-9][0-9]_/ { next }
    {
        best = 1000
        for (i = 1; i <= count && name !~ /\.(h|cuh|hpp)$/ && !/^(.*\/)?solutions\//; i++) {
            number = substr(place[i], 1, 2)
            its = substr(place[i], 4)
            its_letters = letters(its)
            rank = index("/" $0 "\n", "/problems/" place[i] "\n") ? 0 : name == its ? 100 : \
                letters(name) == its_letters ? 150 : letters(name) ~ (its_letters "$") ? 200 : \
                part[parts - 1] == number ? 250 : 1000
            if (rank < best) { best = rank; known_as = number }
        }
        why = type == "l" ? "is a link" : type != "f" ? "is not a file" : !size ? "is empty" : \
            size > 262144 ? "is larger than 256 KB" : ""
        path = $0
        rank = best + parts + 50 * gsub(packed, "&")
    }
    best < 1000 && (!best || ++taken[known_as] <= 8) {
        print why ? "left " known_as " " path " " why : "file " known_as " " rank " " path
        next
    }
    path !~ /^(.*\/)?(workbook|tests|reference|train|examples)\// { print "other " path }' |
    while IFS= read -r line; do
        path=${line#file ?? * }
        [ "$path" = "$line" ] || line="${line%"$path"}$(basenc --base16 -w 0 "./$path") $path"
        printf '%s\n' "$line"
    done
