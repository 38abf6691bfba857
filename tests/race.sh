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
cp build/cpu/check/problems/10_worker build/cpu/check/problems/03_worker
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
ideas=$(sed -n 's/^  of the lesson.s table of choices: //p' "$said")
check "the table has a row for each, and an idea" [ "$(awk -F '\t' -v idea="$ideas" 'NF == 10 && ($6 != "barriers" || ($10 == idea && idea)) { n++ } END { print n + 0 }' build/race.tsv)" -ge 6 ]
check "of a change to the key: what it costs" grep -q 'choices: does yours do this? It costs: m raised at once.* 706; 639 (the key: 742; 679)' "$said"
check "the next race has the next" [ "$(cut -f 10 build/race.tsv | sort -u | grep -c .)" -eq 4 ]
rm -r solutions
for race in 1 2 3 4 5 6; do run cpu problems 03; done
check "of changes to a base: those that gain, and no others" [ "$(awk -F '\t' '$1 == "03" { sub(/:.*/, "", $10); print $10 }' build/race.tsv | sort -u | tr '\n' '|')" = "by more than 8, the maximum completed only then|rescale if one moved by more than 8 (in base 2)|" ]
run cpu problems 10
check "without a key its own counts alone" grep -q '^  bytes read  *600  *-   -$' "$said"
printf '#!/bin/sh\necho "returned: not implemented"\n' >build/cpu/check/problems/10_worker
run cpu problems 10
check "what gives no result has no counts" eval "[ $? -eq 1 ] && grep -q 'make sanitize-10' '$said'"

# The column of a class's table: grade_race.sh, of a worker that is there, beside what is counted of a key.
printf '#!/bin/sh\nN=3\n%s\n' "$count" >build/cpu/check/problems/10_worker
printf '#!/bin/sh\nshift\nexec "$@"\n' >within
chmod +x within
printf '%s\tbytes read\t200\n' one two >counts
printf 'one\tbarriers\t0\ntwo\tbarriers\t0\n' >>counts
sort -o counts counts
export GRADE_SCRATCH="$scratch" WB_TIMEOUT=5
for_class() { workbook/class/grade_race.sh 10 counts >"$said"; }
for_class
check "for a class: a line of ratios, without those of nothing" [ "$(cat "$said")" = "bytes read 1.50" ]
forging() { printf '#!/bin/sh\nN=3\n%s\n%s\n' "$1" "$count" >build/cpu/check/problems/10_worker; for_class; }
! forging 'echo "counted: bytes read: 1"' && [ "$(cat "$said")" = "it prints counts of its own" ]
verdict $? "what prints counts of its own has none"
forging 'echo "counted: =cmd(1): 1"; echo "counted: bytes written: 99999999999999999999"; echo "<b>"'
check "no other words or numbers are taken" [ "$(cat "$said")" = "bytes read 1.50" ]
! forging 'exit 0' && check "and without a result there are none" grep -q '^no result in one$' "$said"
mkdir -p class/reports/ada && printf 'x\n1\t2\t3\n' >class/reports/ada/record && echo "bytes read 1.50, =x" >class/reports/ada/10.race
score=$here/build/${BACKEND:-cpu}/score
(cd "$here" && ${MAKE:-make} --no-print-directory -s BACKEND="${BACKEND:-cpu}" "build/${BACKEND:-cpu}/score") >"$said" 2>&1
printf './ada\0' | "$score" class class race >table && printf './ada\0' | "$score" class class >without
check "the table has a column of it a problem, where it is asked for" eval 'head -n 1 table | grep -q ",reason,01 race,.*,10 race," && grep -q "^ada,.*,\"bytes read 1.50, =x\"," table && ! grep -q race without'
exit $failed
