#!/bin/sh
# profile.sh - make profile-NN: counts that are known (profile/known.cu) or a GPU's (plots/data), the page, what is
# refused. make lab: its kernels are correct, and its page is what they do today.
set -u
BACKEND=cpu out=build/cpu
. tests/prove/frame.sh
made "$out/needs" "$out/wb" "$out/tests/03_test" "$out/profiling/known/known_worker" \
    "$out/profiling/solutions/02_worker" "$out/profiling/solutions/03_worker" || { show; exit 1; }

# ------------------------ lines
known() { # SOURCE: what stands behind //= is what was counted, and nothing else was
    CUDACPU_PROFILE=$scratch/known "$out/profiling/known/known_worker" && awk '
        FNR == NR { if (FNR > 1) { for (i = 3; i <= NF; i++) got[$2] = got[$2] " " $i } next }
        at = index($0, "//= ") {
            n = split(substr($0, at + 4), want, " ")
            all = ""
            for (i = 1; i <= 10; i++) all = all " " (i <= n ? want[i] : 0)
            if (all != got[FNR]) { print FNR ": counted" got[FNR] ", known" all; bad = 1 }
            lines++
            delete got[FNR]
        }
        END { for (line in got) { print "line " line " has counts"; bad = 1 } exit bad || lines < 30 }' \
        "$scratch/known" "$1" >"$said"
}
check "each line asks for what is known" known tests/profile/known.cu
sed 's|//= 1 32 4|//= 1 31 4|' tests/profile/known.cu >"$scratch/other.cu"
! known "$scratch/other.cu"
verdict $? "a sector more or less is noticed"

# Two lines are the compiler's or the inputs': nvcc loads four neighbours of shared memory at once; how often a maximum
# grows hangs on the numbers.
like_a_gpu() { # NN CASE
    CUDACPU_PROFILE=$scratch/counted "$out/profiling/solutions/$1_worker" --case "$2" --guard 0 >"$said" 2>&1 ||
        return 1
    awk -F '\t' -v of="$1,$2" -v source="$(echo solutions/"$1"/*.cu)" '
        BEGIN { while ((getline line <source) > 0) { sub(/^ */, "", line); text[++n] = line } }
        FNR == NR { if ($1 == of) { gpu[$2] = $3 " " $4 " " $5 " " $6 " " $7 " " $8 " " $9; lines++ } next }
        FNR > 1 {
            counted = $3 " " $4 " " $5 " " $7 " " $9 " " $10 " " $11
            if (!(text[$2] in gpu)) { print "no GPU has counted: " text[$2]; bad = 1 }
            else if (gpu[text[$2]] != counted && text[$2] !~ /sum_smem\[thread\]|alpha = exp2/) {
                print text[$2] ": counted " counted ", on a GPU " gpu[text[$2]]
                bad = 1
            }
            seen++
        }
        END { exit bad || seen != lines }' plots/data/h100/profile.tsv "$scratch/counted" >"$said"
}
check "all lines of 02 are as an H100 counts them" like_a_gpu 02 rows=64,cols=4096
check "all lines of 03 are" like_a_gpu 03 Hq=2,Nq=256,D=64

# ------------------------ the page
made profile-03 IMPL=solutions && grep -q '^Multiplied and added .* 1.00 times$' "$said"
verdict $? "make profile-03 compares with what the algorithm needs"
made profile-03 IMPL=solutions CASE=Nq=100,D=16 && grep -q '^Multiplied and added .* 1.64 times$' "$said"
verdict $? "of a case that is given"
for refused in "01 runs on the host" "17 several ranks" "99 there is no" "02 not started"; do
    ! made "profile-${refused%% *}" IMPL=problems && grep -q "${refused#* }" "$said"
    verdict $? "make profile-${refused%% *} says: ${refused#* }"
done

# ------------------------ the lab
names=$(awk -v list=solutions/03/slow.diff -v tell=names -f workbook/loop/edit.awk) right=
for letter in A B C D; do
    for name in $names; do
        ! made lab SAY="$letter $name" || ! grep -q "^$letter: right" "$said" || right="$right $name"
    done
done
[ "$(echo $right | tr ' ' '\n' | sort)" = "$(echo $names | tr ' ' '\n' | sort)" ]
verdict $? "each letter has one answer, each slow kernel a letter:$right"
made $(for n in $names; do echo "$out/profiling/slow/$n/03_worker" "$out/slow/$n/03_worker"; done) &&
    workbook/profile/lab.sh record $right >"$said" && diff plots/data/cpu/lab.txt "$said" >"$scratch/differs"
verdict $? "plots/data/cpu/lab.txt is what lab.sh record$right prints"
for name in $names; do
    "$out/wb" suite "$out/tests/03_test" "$out/slow/$name/03_worker" cpu >"$said" 2>&1
    verdict $? "$name passes the suite of 03"
done
exit $failed
