#!/bin/sh
# gradescope.sh BASE - what Gradescope would run, run here: its folders, its calls, results where it looks for them.
# BASE is what grade_base.sh has made here: the archive's workbook must make the same. What cannot be had here: its
# machines. Exit status: 0, or 1 after saying what is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ "$(id -u)" = 0 ] || { echo "skip  Gradescope: it runs its autograder as root"; exit 0; }
. tests/prove/frame.sh
there=$scratch
export AUTOGRADER="$there/autograder"
source=$AUTOGRADER/source submission=$AUTOGRADER/submission results=$AUTOGRADER/results/results.json

echo "02 rows rows=19,cols=77" >"$there/held"
WB_CASES=$there/held WB_SEED=5 SANITIZE=1 workbook/class/gradescope.sh "$there/autograder.zip" >"$said" 2>&1
verdict $? "the autograder is packed"
workbook/class/gradescope.sh "$there/autograder.zip" >"$said" 2>&1
[ $? -eq 2 ]; verdict $? "an existing file is not overwritten"
! bsdtar -tf "$there/autograder.zip" | grep -q 'solutions/\|tests/class\|\.git/'
verdict $? "there is no reference solution in it"
echo "02 row rows=19,cols=77" >"$there/odd"
WB_CASES=$there/odd workbook/class/gradescope.sh "$there/odd.zip" >"$said" 2>&1
grep -q 'line 1: there is no checkpoint row of problem 02' "$said" && ! [ -e "$there/odd.zip" ]
verdict $? "a private case of no checkpoint is refused"
sed -n 's/^    \(0[1-9] [a-zA-Z_]* [BHNr][a-z]*=\)/\1/p' workbook/class/README.md >"$there/odd"
[ "$(wc -l <"$there/odd")" -ge 2 ] && workbook/class/cases.sh "$there/odd"
verdict $? "and those of the README are of checkpoints that there are"

mkdir -p "$source" "$submission/problems/02" && bsdtar -xf "$there/autograder.zip" -C "$source"
mkdir -p "$source/workbook/build/grades" && cp -Rp "$1" "$source/workbook/build/grades/base"
sed 's|/autograder/|"$AUTOGRADER"/|; s|\./setup.sh --grade|true|' "$source/setup.sh" >"$there/setup"
bash "$there/setup" >"$said" 2>&1 && ! grep -q building "$said"
verdict $? "its trusted programs are those that are built here"
graded() { # SCORE WHAT [WORDS]: and the results hold these words
    rm -rf "${results%/*}" "$AUTOGRADER/grade"
    "$source/run_autograder" >"$said" 2>&1
    [ "$(sed -n 's/^[[:space:]{]*"score":[[:space:]]*\([0-9]*\),.*/\1/p' "$results" | head -n 1)" = "$1" ] &&
        grep -q "${3:-\"output\"}" "$results"
    verdict $? "$2"
}
cp solutions/02/*.cu "$submission/problems/02/"
graded 100 "a right problem 02 has 100 points, and the private case was tried" 'private case 1'
grep -q 'the check build finds nothing' "$results"
verdict $? "and the check build"
rm -rf "$submission/problems"
graded 0 "an empty submission has 0 points, and a result"
rm "$source/workbook/workbook/class/grade.sh"
graded 0 "a grader that cannot run leaves a result, too" 'could not run'
exit $failed
