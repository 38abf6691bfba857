#!/bin/sh
# race.sh - make race-NN: of times, by a bench that hands over a recorded table, beside what peers are recorded to take; of counts, by workers that
# print some; and what is kept of both. That the check build counts right is proved by sanitize/run.sh.
set -u
here=$(pwd)
. tests/prove/frame.sh
for part in workbook plots problems tests; do ln -s "$here/$part" "$scratch/$part"; done
mkdir -p "$scratch/solutions/10" "$scratch/build/cuda" "$scratch/build/cpu/check/problems" "$scratch/build/cpu/check/solutions"
cd "$scratch" || exit 2
cat >build/cuda/score <<'end'
#!/bin/sh
exit 1
end
# The key's first recorded row, and one that takes 1.2 times as long.
cat >build/cuda/bench <<'end'
#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" != --out ] || table=$2; shift; done
sed "s|^# gpu: .*|# gpu: $GPU|" plots/data/h200/10_flash_hopper.tsv |
    awk -F '\t' -v OFS='\t' '!/^10\t/ { print } /^10\tkey\t/ && !n++ { print; $2 = "yours"; $14 *= 1.2; print }' >"$table"
end
count='case $2 in list) echo one; echo two ;; *) echo "returned: ok"; echo "counted: bytes read: $((N * 100))"; echo "counted: barriers: 0" ;; esac'
printf '#!/bin/sh\nN=3\n%s\n' "$count" >build/cpu/check/problems/10_worker
printf '#!/bin/sh\nN=2\n%s\n' "$count" >build/cpu/check/solutions/10_worker
cp build/cuda/score build/cpu/score
chmod +x build/*/* build/cpu/check/*/*
run() { MAKE=true WB_JOBS=1 workbook/bench/race.sh "$@" >"$said" 2>&1; }

export GPU="NVIDIA H200"
run cuda problems 10
verdict $? "on a GPU"
shape=$(awk -F '\t' '/^10\tkey\t/ { print $3 "\t" $4 "\t" $5 "\t" $6 "\t" $7 "\t" $8 "\t"; exit }' plots/data/h200/10_flash_hopper.tsv)
peer=$(grep "^10	fa4	$shape" plots/data/h200/peers.tsv | awk -F '\t' '$13 == 0 { print $14 }')
check "yours over the key's" grep -q '^  time, ms .* 1[.]20$' "$said"
check "and over a peer's, recorded in the same shape on such a GPU" grep -q "^  fa4, recorded 20[0-9-]* .* $peer  *[0-9.]*$" "$said"
GPU="NVIDIA Q1"
run cuda problems 10
check "another GPU has no peers" eval '! grep -q fa4 "$said" && grep -q "1[.]20$" "$said"'
run cpu problems 10
check "without a GPU: counts, summed over the cases" grep -q '^  bytes read  *600  *400   1[.]50$' "$said"
check "that say what they are" grep -q 'a count and no time' "$said"
check "nothing of nothing has no ratio" grep -q '^  barriers  *0  *0   -$' "$said"
ideas=$(sed -n 's/^  of the lesson.s table of choices: \([^:]*\):.*/\1/p' "$said")
check "the table has a row for each, and an idea" [ "$(awk -F '\t' -v idea="$ideas" 'NF == 10 && ($6 != "barriers" || ($10 == idea && idea)) { n++ } END { print n + 0 }' build/race.tsv)" -ge 6 ]
check "the next race has the next" [ "$(cut -f 10 build/race.tsv | sort -u | grep -c .)" -eq 4 ]
rm -r solutions
run cpu problems 10
check "without a key its own counts alone" grep -q '^  bytes read  *600  *-   -$' "$said"
printf '#!/bin/sh\necho "returned: not implemented"\n' >build/cpu/check/problems/10_worker
run cpu problems 10
check "what gives no result has no counts" eval "[ $? -eq 1 ] && grep -q 'make sanitize-10' '$said'"
exit $failed
