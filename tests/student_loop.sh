#!/bin/sh
# student_loop.sh - make progress, next, hint-NN, reset-NN, step-NN, start-NN, diff-NN and watch do what they promise,
# on a copy without git, with nothing built but wb; nothing that a student wrote is lost. Each target is asked through
# make once, then its script.
set -u
. tests/prove/frame.sh
built=$PWD/build/${BACKEND:-cpu}
unset MAKEFLAGS MFLAGS GAP LEVEL YES P GUESS SANITIZE
for skeleton in $(sed 's/.*  //' workbook/loop/shipped.sha256); do
    number=$(basename "$(dirname "$skeleton")")
    mkdir -p "$scratch/wb/problems/$number" "$scratch/shipped/$number"
    cp "problems/$number/hints.txt" "problems/$number/checkpoints.txt" "$scratch/wb/problems/$number"
    workbook/loop/shipped.sh "$number" "$scratch/wb/$skeleton" || exit 1
    cp "$scratch/wb/$skeleton" "$scratch/shipped/$number"
done
cp -Rp Makefile .gitignore workbook "$scratch/wb"
mkdir -p "$scratch/wb/${built#"$PWD"/}" && cp -p "$built/wb" "$scratch/wb/${built#"$PWD"/}" || exit 1
cp problems/questions.txt "$scratch/wb/problems"
mkdir "$scratch/wb/tests"
for suite in tests/[0-9]*_*.c; do : >"$scratch/wb/$suite"; done # their names alone matter
cp -R solutions "$scratch"
cd "$scratch/wb" || exit 1
rm -rf workbook/loop/shipped
status=0 numbers=$(cd problems && echo [0-9][0-9] | tr ' ' '\n')
export BACKEND=${BACKEND:-cpu}
wb=build/$BACKEND/wb

run() { "$@" >"$said" 2>&1 </dev/null; status=$?; }
show() { echo "      it ended with $status and said:"; sed 's/^/      /' "$said"; }
says() { grep -qE -- "$1" "$said"; }
# WHAT PATTERN COMMAND...: the command says it; it fails and says it
asked() { what=$1 pattern=$2; shift 2; run "$@"; check "$what" says "$pattern"; }
refused() { what=$1 pattern=$2; shift 2; run "$@"; check "$what" eval '[ $status -ne 0 ] && says "$pattern"'; }
has_lines() { [ "$(grep -cE -- "$1" "$said")" -eq "$2" ]; }
tested() { MAKE=true JOBS=1 "$wb" test "$BACKEND" problems "$@"; }
same() { cmp -s "$1" "$2"; }

# ------------------------ progress and next
run make progress
check "progress, of a fresh copy: every problem, and none is started" \
    has_lines '^[0-9]+  [a-z_0-9]+ +not started +0 / ' "$(echo "$numbers" | wc -l)"
check "progress, of a fresh copy: no points" says '^Score: 0/[1-9][0-9]* \(\+ bonus 0/[1-9][0-9]*'
check "progress builds no problem" test ! -e "build/$BACKEND/problems"
asked "next, of a fresh copy: problem 01" '^Now: 01 tiled_attention\. not started' make next

record() { # NN STATE [MORE], as make test would leave it: lines of status, test, line, case
    mkdir -p build/grade
    {
        printf '{"state": "%s", %s "tests": [' "$2" "${3:-}"
        awk '{ printf "{\"status\": \"%s\", \"test\": \"%s\", \"line\": %d, \"case\": \"%s\"}, ", $1, $2, $3, $4 }'
        echo 'null]}'
    } >"build/grade/$1.json"
}
now_is() { sed -i.bak "s/\"state\": \"[a-z ]*\"/\"state\": \"$2\"/" "build/grade/$1.json"; } # NN STATE
tests_of() { # NN
    awk -F'|' '!/^#/ && NF > 1 { print $3 }' "problems/$1/checkpoints.txt" | tr -s ' ' '\n' | sed 's/^if://; /^$/d'
}
test_of() { tests_of "$1" | sed -n "$2p"; } # NN WHICH
passing() { tests_of "$@" | sed -n 's/./ok &/p'; }
edit() { echo "// $2" >>"$(echo problems/"$1"/*.c*)"; touch -t 202001010000 problems/"$1"/*.c*; }
points() { sed -n "s/^$1 .*[^0-9]\([0-9][0-9]*\) \/ .*/\1/p" "$said"; }
edit 01 mine
printf '%s\n' "ok $(test_of 01 1)" "FAIL $(test_of 01 2) 20 B=1,Nq=6,D=16" "FAIL other 10 Nq=1" | record 01 failed
edit 02 mine && passing 02 | record 02 passed
edit 03 mine && passing 03 | record 03 "compile error"
passing 04 | record 04 failed # but the file is as shipped
edit 05 mine && passing 05 | head -n 3 | record 05 failed && touch -t 203001010000 problems/05/flash_gqa.cu
edit 06 mine
skipped=$(tests_of 07 | tail -n 1)
edit 07 mine && passing 07 | sed "s/ok $skipped/SKIP $skipped/" | record 07 passed
asked "progress: with untouched gaps: unfinished, with the next checkpoint" \
    '^01 .* unfinished +[0-9]+ / [0-9]+  [a-z]' "$wb" progress
check "progress: passed" says '^02 .* passed +([0-9]+) / +\1  done$'
check "progress: does not compile, so no points" says '^03 .* compile error +0 / [0-9]+  make test-03$'
check "progress: reset since, so not started and without points" \
    says '^04 .* not started +0 / [0-9]+  read problems/04/README.md$'
check "progress: changed since" says '^05 .* unfinished +[0-9]+ / +[0-9]+  changed since: make test-05$'
passing 05 | head -n 3 | record 05 failed "\"sum\": \"$(sha256sum <problems/05/flash_gqa.cu | cut -d ' ' -f 1)\","
"$wb" progress >"$scratch/touched"
! grep -q '^05 .*changed since' "$scratch/touched"
verdict $? "progress: a touched or restored file is unchanged"
check "progress: written in, never tested" says '^06 .* not tested +0 / +[0-9]+  make test-06$'
check "progress: passed, except for tests that cannot run here" \
    says '^07 .* passed +[0-9]+ / +[0-9]+  .* \(not judged here\)$'
check "progress: the sum" says "^Score: $(($(points 01) + $(points 02) + $(points 05) + $(points 07)))/"
asked "next: the command has the case of the missing test, not of the first failure" \
    'make test-01 CASE=B=1,Nq=6,D=16$' "$wb" next
check "next: says what is missing" says "test +$(test_of 01 2)\$"
passing 01 | record 01 passed
asked "next: 02 has passed, 03 does not compile" '^Now: 03 ' "$wb" next
asked "after the tests of 01 and 02: 03" '^Next: .*make test-03$' "$wb" after build/grade 01 02
{ passing 05 | head -n 3; echo "FAIL $(test_of 05 4) 9 B=2,D=16"; } | record 05 failed
touch -t 202001010000 problems/05/flash_gqa.cu
asked "after the tests of 05: 05 again, with the case" '^Next: 05, .*make test-05 CASE=B=2,D=16$' \
    "$wb" after build/grade 05
asked "next P=5: of that problem, though an earlier one is not done" '^Now: 05 flash_gqa\. unfinished, ' \
    env P=5 "$wb" next
refused "next: a problem that is not there" 'no problem 98' env P=98 "$wb" next
{ passing 05 | head -n 3; echo "FAIL $(test_of 05 4) 9 B=2,D=16"; } | record 05 failed '"step": "step",'
touch -t 202001010000 problems/05/flash_gqa.cu
asked "after a finding: that, and not the next checkpoint" '^Next: 05, the finding above; ' \
    "$wb" after build/grade 05
asked "the table: unfinished, where gaps are untouched" '^  05  flash_gqa +unfinished ' \
    "$wb" points build/grade 05
sum=$("$wb" progress | sed -n 's/^Score: \([0-9]*\).*/\1/p')
check "its sum agrees with progress: nothing for 04, which was reset" says "^Score: $sum/"
touch -t 203001010000 problems/02/weighted_row_sum.cu
asked "next: 02 has changed since it passed" '^Now: 02 ' "$wb" next
for number in $numbers; do
    edit "$number" mine
    passing "$number" | record "$number" passed
done
asked "next: everything has passed" '^Everything has passed' "$wb" next
check "next: and a question about the problem that passed last" says '^A question about 19 that no test asks'

# ------------------------ predict
loop=workbook/loop
mkdir -p build/cpu/problems
echo 'echo 2560000 >&3' >build/cpu/problems/03_worker
chmod +x build/cpu/problems/03_worker
predict() { env MAKE=true GUESS="$1" $loop/predict.sh 03; }
asked "predict: without a number the question alone" 'How many times as many' make predict-03
asked "predict: the count is shown next to the prediction" '^  counted    2$' predict 3
asked "predict: accepts per cents" '^  counted    2: right$' predict 200%
refused "predict: a GUESS that is not a number" 'GUESS=a lot must be a number' predict 'a lot'
now_is 05 failed
refused "predict: counts nothing before the problem has passed" 'must pass before .* .state: unfinished' \
    env GUESS=1 $loop/predict.sh 5
now_is 05 passed
run env P=03 "$wb" next
check "next: an answered question is not asked again" eval '! says "A question about"'

# ------------------------ hint
mine=problems/03/flash_forward.cu was=$scratch/shipped/03/flash_forward.cu
copy() { cp "$scratch/shipped/$1"/* "problems/$1/"; }
copy 03
for level in 1 2 3; do
    asked "hint, level $level" "gap \"max\".*level $level of 3" env LEVEL=$level "$wb" hint 03
done
mkdir -p $loop/shipped && cp -R "$scratch/shipped/03" $loop/shipped
sed -i.bak 's/TODO(03) max:/now max:/' $mine
asked "hint: the first gap that is untouched" 'gap "rescale" .*level 1 of 3' "$wb" hint 03
asked "gaps: those that are as shipped, in a line" \
    '^  not written yet: rescale, accumulate, finalize, tail  \(make hint-03\)$' "$wb" gaps 03
sed -i.bak 's/$/\r/' $mine
asked "gaps: and of a file that an editor of Windows has saved" 'not written yet: rescale, ' "$wb" gaps 03
sed 's/TODO(03)/now:/' $mine >"$scratch/mine" && cp "$scratch/mine" $mine
run "$wb" hint 03
check "hint: with every gap touched, lists them" has_lines 'make hint-03 GAP=' 5
run "$wb" gaps 03
check "gaps: prints nothing if every gap is touched" test ! -s "$said"
sed -e 's|return WB_OK|return  WB_OK|' -e '1s|$| //|' "$scratch/mine" >$mine
asked "gaps: says where given code was changed" \
    '^     line 1: was `' "$wb" gaps 03
{ cat "$scratch/mine" && echo 'static int mine(int x) { return x; }'; } >$mine
run "$wb" gaps 03
check "gaps: a function of one's own changes no given code" test ! -s "$said"
printf '\357\273\277%s' "$(tr -d '\r' <"$scratch/mine")" >$mine
run "$wb" gaps 03
check "gaps: nor does an editor's mark, or a last line without an end" test ! -s "$said"
asked "hint through make: a gap with spaces in its name, and a level" 'gap "dS for dQ".* level 2 of 3' \
    make hint-08 GAP="dS for" LEVEL=2
refused "hint: a name that fits two gaps" 'more than one' env GAP=mask "$wb" hint 06
rm -rf $loop/shipped

# ------------------------ reset
cp $mine "$scratch/mine"
mkdir -p $loop/shipped/03 && echo "something else" >$loop/shipped/03/flash_forward.cu
refused "reset: a skeleton that is not the shipped one is refused" 'workbook/loop/shipped/03' \
    $loop/reset.sh 03
check "reset: the file is unchanged" same $mine "$scratch/mine"
cp -R "$scratch/shipped/03" $loop/shipped
now_is 03 failed
run make reset-03
check "reset: removes the old file's report" [ ! -e build/grade/03.json ]
check "reset from $loop/shipped" same $mine "$was"
check "reset keeps the student's file" same $mine.1 "$scratch/mine"
asked "reset: nothing to do" 'nothing to do' $loop/reset.sh 03
run make blank-03
grep -q wb_check_forward $mine && ! grep -q '//[{]' $mine && [ -f $mine.2 ] && same $mine.1 "$scratch/mine"
verdict $? "blank: the contract alone, the other file is kept beside the backup before"
asked "blank: a hint by the name of its gap" 'gap "rescale" \(problems/03/flash_forward.cu\), level 1 of 3' \
    env GAP=rescale "$wb" hint 03
asked "blank: hints without a name" 'has no gaps' "$wb" hint 03
run $loop/reset.sh 03
check "blank: reset goes back" same $mine "$was"
for number in $numbers; do cp "$scratch/shipped/$number"/* "problems/$number/"; done
rm $mine $mine.[2-9]
run $loop/reset.sh 03
check "reset: a file that is gone comes back" same $mine "$was"
echo "// an attempt" >problems/03/attempt.cu
asked "neither a backup nor another file is the source" "^$mine\$" \
    make -s --eval='show:;@echo $(call source,problems,03)' show
asked "test-3 is test-03; with a file beside the skeleton nothing is started" \
    '^  not started: open problems/03/flash_forward.cu' tested 3
check "and nothing is won" says '^  03  flash_forward +not started +0 / 200'
refused "test-98: there is no such problem" 'no problem 98, only 01 02 .* 10 11' tested 98
rm problems/03/attempt.cu
# What has just passed: a suite that passes everything.
suite=build/$BACKEND/tests/03_test
have_worker() { # of 03, which nobody starts
    mkdir -p build/"$BACKEND"/problems build/"$BACKEND"/tests && : >build/"$BACKEND"/problems/03_worker
}
have_worker && echo "// mine" >>$mine
cat >"$suite" <<'end'
#!/bin/sh
echo '{"status": "ok", "test": "a"}
{"end": true}' >&3
end
chmod +x "$suite"
asked "a problem that has passed: races were not checked" 'races were not checked \(make sanitize-03' tested 03
sed -i "1a \"clean\": \"$(sha256sum <$mine | cut -d " " -f 1)\"," build/grade/03.json
run tested 03
check "but for a source in which make sanitize found nothing" eval "! says 'make sanitize-03'"
cp $mine "$scratch/mine" && echo "// spoilt" >>$mine && printf '\0' >>$mine
run tested 03
says "cp build/grade/passed/03.cu $mine restores it" && same build/grade/passed/03.cu "$scratch/mine"
verdict $? "a file that passed is kept, and named when another fails"
cp "$scratch/mine" $mine && touch problems/03/other.cuh
asked "handin: what it packed, and what it did not" "^  $mine  passed, 0 of 200" \
    env MAKE=true JOBS=1 $loop/handin.sh "$BACKEND" "$scratch/in.tar.gz" 02 03
check "handin: of each problem the one file" [ "$(tar -tzf "$scratch/in.tar.gz")" = "$mine" ]
echo '#include "other.cuh"' >>$mine
run $loop/handin.sh "$BACKEND" "$scratch/none.tar.gz" 03
! [ -e "$scratch/none.tar.gz" ] && says "move problems/03/other.cuh into $mine"
verdict $? "handin: refuses a file that needs one that would not be packed"
cp "$scratch/mine" $mine
rm problems/03/other.cuh
cp "$scratch/shipped/03"/* problems/03/
run make clean
check "clean keeps backups" test -f $mine.1
rm -rf $loop/shipped
git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm shipped
for change in one two; do
    echo "// $change" >>$mine
    git add -A && git -c user.name=a -c user.email=a@b commit -qm "$change"
done
run $loop/reset.sh 03
check "reset from the git history" same $mine "$was"
git status --short >"$said"
check "git does not see backups" test "$(cat "$said")" = " M $mine"
rm -rf .git

# ------------------------ step
cp -R "$scratch/shipped/04" $loop/shipped
echo "// mine alone" >>$mine
asked "step: my file of the problem before, against what is shipped" '^-// mine alone' make step-04
says '^\+\+\+ shipped/04/flash_causal.cu' && says '^\+ *//[{] bounds' && ! grep -qF "${TMPDIR:-/tmp}" "$said"
verdict $? "step: shows the new gap, and no removed folder"
run make step-04 COMMENTS=1
awk '/^---/ { part++ } /^-\/\/ mine alone/ { mine = part } /^\+ *const int.*\/\// { mixed = 1 }
    /^\+ *\/\/[{] bounds/ { gap = part } END { exit !(mine == 2 && gap == 1 && !mixed) }' "$said"
verdict $? "step: with COMMENTS=1, gaps in the code and comments after it"
refused "step: without a predecessor" '^step-02: 02 uses no code of an earlier problem; make next' make step-02

# ------------------------ start
cp -R "$scratch/shipped/03" "$scratch/shipped/04" $loop/shipped
rm -f build/grade/03.* problems/04/*.[1-9]
refused "start: only after the problem before" 'starts from your 03, which has not passed' make start-04
sed 's|TODO(03)|mine:|; s|^#include "tile.cuh"|&  // mine outside|; s|^ *kernel<<<.*|&  // mine beside|' \
    "$was" >$mine
passing 03 | record 03 passed
refused "start: comments of mine are no code" 'uses none of your code' env MAKE=true $loop/reset.sh 04 start
sed -i.bak 's|// mine: .*|&\nint mine;|; s|$|\r|' $mine && passing 03 | record 03 passed
run env MAKE=true $loop/reset.sh 04 start
grep -q '^int mine;$' problems/04/flash_causal.cu && grep -q '// mine outside' problems/04/flash_causal.cu &&
    grep -q 'TODO(04) bounds' problems/04/flash_causal.cu && ! grep -q 'S_max' problems/04/flash_causal.cu
verdict $? "start: my code for 03 is in 04, in a gap and outside, beside the gaps of 04"
check "start: my lines that 04 replaces are named" says '^    .*kernel<<<.*// mine beside'
check "start: the other file is kept" same problems/04/flash_causal.cu.1 "$scratch/shipped/04/flash_causal.cu"
echo >>$mine
refused "start: no file that has changed since its tests" 'passed and changed since' $loop/reset.sh 04 start
cp "$scratch/shipped/03"/* problems/03/ && cp "$scratch/shipped/04"/* problems/04/ && rm -rf $loop/shipped

# ------------------------ diff
refused "diff without solutions/" '^diff-03: there is no reference solution here' \
    env YES=1 $loop/step.sh 03 diff
mv "$scratch/solutions" .
refused "diff asks first, and refuses without a terminal" 'without a terminal' $loop/step.sh 03 diff
asked "diff shows the reference solution" 'any_above' make diff-03 YES=1
asked "step between reference solutions" '^\+ .*if \(j > i\) s = -INFINITY;' make step-04 KEYS=1

# ------------------------ watch
# In the place of the tests is a program that notes who it is, and does not end.
have_worker && echo "// mine" >>$mine
printf '#!/bin/sh\necho $$ >pid; echo "$0" >>asked; exec sleep 3600\n' >"$suite" && chmod +x "$suite"
MAKE=true P=3 "$wb" watch "$BACKEND" >"$said" 2>&1 &
watcher=$!
asked_times() {
    until [ -f asked ] && [ "$(grep -c . asked)" -eq "$1" ]; do kill -0 $watcher && sleep 0.1 || return; done
}
asked_times 1
first=$(cat pid) && echo "// saved" >>"$mine" && asked_times 2 && ! kill -0 $first 2>/dev/null
verdict $? "watch: a save ends the tests that run, and starts them again"
kill $watcher && wait $watcher
[ "$(sort -u asked)" = "$suite" ] && ! grep -q 'Terminated\|Score' "$said" && ! ls -d build/grade/.run.* 2>/dev/null
verdict $? "watch: of the problem asked for, and what is ended says and leaves nothing"

# ------------------------ after a failure
cat >"$suite" <<'end'
#!/bin/sh
echo '{"status": "FAIL", "test": "a", "case": "N=1", "finding": "deadlock\u0009", "message": "it printed  cudacpu"}
{"end": true}' >&3
end
mkdir -p build/cpu/check/problems
cat >build/cpu/check/problems/03_worker <<'end'
#!/bin/sh
[ "$1" != --cases ] || { echo N=1; exit; }
{ printf '%s\t\tSignals' "$FOUND" >"/dev/fd/$2"; } 2>/dev/null # --report
printf 'cudacpu: %s in kernel f_kernel, block (0,0,0)\n   who waits\n' "$FOUND" >&2
exit 66
end
chmod +x build/cpu/check/problems/03_worker
export FOUND=deadlock
run tested 03
says 'reports the same in N=1: deadlock' && says 'read .*Signals' && ! says 'who waits'
verdict $? "the check build does not repeat the report of a failure"
FOUND=race
run tested 03
says 'the check build reports for N=1:' && says 'who waits'
verdict $? "another is shown"
sed -i 's/FAIL/ok/' "$suite"
SANITIZE=1 run tested 03
says 'the results are correct, but' && says 'sanitize: race in kernel' && says 'again    make sanitize-03 CASE=N=1'
verdict $? "SANITIZE=1: what is right is looked at, too"
exit $failed
