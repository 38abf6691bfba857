#!/bin/sh
# tune.sh BACKEND SOURCE NN FILE [bench options] - which tile sizes suit this GPU? Compiles SOURCE, an implementation of
# problem NN, once for each line of FILE, edited as the line says, and times all of them side by side, a few at a time,
# beside SOURCE as it is. A line: a name, then a sed expression (solutions/NN/tiles.txt). An edit that changes nothing,
# does not compile or gives wrong results is named and left out.
set -u
backend=$1 source=$2 number=$3 file=$4
shift 4
out=build/$backend
folder=$out/tune/$number status=0 batch= count=0
for needed in "$source" "$file"; do
    [ -f "$needed" ] || { echo "tune: there is no $needed" >&2; exit 2; }
done
rm -rf "$folder"
try() { # NAME SED_EXPRESSION
    mkdir -p "$folder/$1"
    edited=$folder/$1/$(basename "$source")
    sed -E "$2" "$source" >"$edited" && { [ "$1" = as_it_is ] || ! cmp -s "$source" "$edited"; } && return
    echo "  $1 changes nothing: $2"
    rm -rf "${folder:?}/$1"
    status=1
}
time_batch() {
    [ -z "$batch" ] || "$out/bench" "$number" --impl as_it_is="$folder/as_it_is/$number.so" $batch \
        --out "$folder/$count.tsv" "$@" || status=1
    batch=
}

try as_it_is ""
grep -v '^#\|^ *$' "$file" >"$folder/edits"
while read -r name edit; do try "$name" "$edit"; done <"$folder/edits"
libraries=$(ls -d "$folder"/*/ | sed "s|\$|$number.so|")
$MAKE --no-print-directory -k -j"$JOBS" BACKEND="$backend" "$out/bench" $libraries >"$folder/log" 2>&1 ||
    grep -E 'error' "$folder/log" | head -n 5
for library in $libraries; do
    name=$(basename "$(dirname "$library")")
    if [ ! -f "$library" ]; then
        echo "  $name does not compile, see $folder/log"
        status=1
    elif [ "$name" != as_it_is ]; then
        batch="$batch --impl $name=$library" count=$((count + 1))
        [ $((count % 6)) -ne 0 ] || time_batch "$@"
    fi
done
time_batch "$@"
exit $status
