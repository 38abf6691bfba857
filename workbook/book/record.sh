#!/bin/sh
# record.sh FOLDER - what the book's figure of problem 10 shows: the key, and the key with each product waited for at once, as rows of
# `timeline --tsv` without lines of the source, which move. Those that the book has are in plots/data/cpu.
set -eu
out=build/cpu given=Nq=128,Nk=1024,D=128 wrong=$out/wrong/10/products_waited_for_at_once
${MAKE:-make} --no-print-directory -s BACKEND=cpu $out/timeline $out/solutions/10_worker $wrong/10_worker
for run in timeline_10:$out/solutions timeline_10_at_once:$wrong; do
    name=${run%%:*}
    "${run#*:}/10_worker" --record "$1/$name.record" --case $given >/dev/null
    $out/timeline "$1/$name.record" "10 flash_hopper, $given, block 0" --tsv "$1/$name.rows" >"$1/$name.text"
    cut -f 1-9 "$1/$name.rows" >"$1/$name.tsv"
done
