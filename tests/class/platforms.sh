#!/bin/sh
# platforms.sh - what Gradescope, GitHub Actions and Classroom 50 would run, run here: their folders, their calls, results where they look for them.
# What cannot be had here: their machines, and the actions that actions.yml names. Exit status: 0, or 1 after saying what is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD there=$PWD/build/platforms failed=0
verdict() { # STATUS WHAT
    if [ "$1" -eq 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; failed=$((failed + 1)); fi
}
command -v zip >/dev/null && command -v bsdtar >/dev/null || { echo "this test needs zip and bsdtar: ./setup.sh --grade installs them" >&2; exit 1; }
rm -rf "$there"
mkdir -p "$there"

# ------------------------------------------------------------------------------------------------------------ Gradescope

echo "02 rows rows=19,cols=77" >"$there/held"
WB_CASES=$there/held WB_SEED=5 SANITIZE=1 workbook/class/gradescope.sh "$there/autograder.zip" >"$there/log" 2>&1
verdict $? "the autograder is packed"
echo "02 row rows=19,cols=77" >"$there/odd"
WB_CASES=$there/odd workbook/class/gradescope.sh "$there/odd.zip" 2>&1 | grep -q 'line 1: there is no checkpoint row of problem 02' && ! [ -e "$there/odd.zip" ]
verdict $? "a held-out case of no checkpoint is refused"
sed -n 's/^    \(0[1-9] [a-zA-Z_]* [BHNr][a-z]*=\)/\1/p' workbook/class/README.md >"$there/odd"
[ "$(wc -l <"$there/odd")" -ge 2 ] && workbook/class/cases.sh "$there/odd"
verdict $? "and those of the README are of checkpoints that there are"
workbook/class/gradescope.sh "$there/autograder.zip" >>"$there/log" 2>&1
[ $? -eq 2 ]; verdict $? "an existing file is not overwritten"
! bsdtar -tf "$there/autograder.zip" | grep -q 'solutions/\|tests/class\|\.git/'
verdict $? "there is no answer key in it"
export AUTOGRADER=$there/autograder
mkdir -p "$AUTOGRADER/source" "$AUTOGRADER/submission/problems/02"
bsdtar -xf "$there/autograder.zip" -C "$AUTOGRADER/source"
mkdir -p "$AUTOGRADER/source/workbook/build/cpu/check"
for made in flags.mk machinery layer reference tests check/layer check/address check/threads; do  # built here already: there setup.sh takes its time
    [ ! -e build/cpu/$made ] || cp -Rp build/cpu/$made "$AUTOGRADER/source/workbook/build/cpu/$made"
done
(cd "$AUTOGRADER/source/workbook" && workbook/class/grade_base.sh build/grades/base) >>"$there/log" 2>&1
verdict $? "its trusted programs are built"
score() { sed -n 's/^[[:space:]]*"score":[[:space:]]*\([0-9]*\),$/\1/p' "$1" 2>/dev/null | head -n 1; }
cp solutions/02/*.cu "$AUTOGRADER/submission/problems/02/"
"$AUTOGRADER/source/run_autograder" >>"$there/log" 2>&1
[ "$(score "$AUTOGRADER/results/results.json")" = 100 ]; verdict $? "a right problem 02 has 100 points"
grep -q 'held-out case 1' "$AUTOGRADER/results/results.json"; verdict $? "the held-out case was tried"
grep -q 'the check build finds nothing' "$AUTOGRADER/results/results.json"; verdict $? "and the check build"
rm -rf "$AUTOGRADER/submission/problems" "$AUTOGRADER/results" "$AUTOGRADER/grade"
"$AUTOGRADER/source/run_autograder" >>"$there/log" 2>&1
[ "$(score "$AUTOGRADER/results/results.json")" = 0 ]; verdict $? "an empty submission has 0 points, and a result"
rm -rf "$AUTOGRADER/results" "$AUTOGRADER/grade"
mv "$AUTOGRADER/source/workbook/workbook/class/grade.sh" "$there/"
"$AUTOGRADER/source/run_autograder" >>"$there/log" 2>&1
grep -q '"score": 0' "$AUTOGRADER/results/results.json"; verdict $? "a grader that cannot run leaves a result, too"
mv "$there/grade.sh" "$AUTOGRADER/source/workbook/workbook/class/"

# --------------------------------------------------------------------------------------------------- Actions, Classroom 50

mkdir -p "$there/submission/problems/02"
cp solutions/02/*.cu "$there/submission/problems/02/"
workbook=$AUTOGRADER/source/workbook
(cd "$there" && GITHUB_STEP_SUMMARY=$there/summary "$workbook/workbook/class/actions.sh" submission grade) >>"$there/log" 2>&1 &&
    grep -q 'Score: 100/[1-9]' "$there/summary"
verdict $? "the run's summary holds the report"
steps=$(sed -n 's/^ *run: //p' workbook/class/actions.yml | tr '\n' ';')
[ "$steps" = "cd workbook && ./setup.sh --grade;sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0;workbook/workbook/class/actions.sh submission grade;" ]
verdict $? "actions.yml runs what was run here"
printf '#!/bin/sh\ncp -Rp %s "$5"\nprintf "#!/bin/sh\\n" >"$5/setup.sh"\n' "$workbook" >"$there/git" && chmod +x "$there/git"
(cd "$there/submission" && PATH=$there:$PATH WORKBOOK=class CLASSROOM=cs COMMIT_URL=here python3 "$root/workbook/class/classroom50.py") >>"$there/log" 2>&1 &&
    grep -q '"classroom50/result/v1"' "$there/submission/result.json" && [ "$(score "$there/submission/result.json")" = 100 ]
verdict $? "Classroom 50 gets a result of 100 points"
! python3 workbook/class/classroom50.py 2>>"$there/log"
verdict $? "and is told where nothing says what the class copy is"

[ $failed -eq 0 ] || tail -n 30 "$there/log"
cd "$root" && exit $((failed > 0))
