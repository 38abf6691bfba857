#!/bin/sh
# run.sh - a class that attacks its graders: archives that are none, names that confuse, sources that do what they must
# not (bombs.c: the rule that each proves, and what the report must say), and honest work among them; its table must be
# expected.csv. What holds without a sandbox as well is proved elsewhere: verdicts (tests/hostile), seconds
# (tests/spent.c), texts (tests/safe_text.c), points (tests/score.sh). As root or an ordinary user; where there are no
# namespaces to be had it proves that grading refuses. Exit status: 0, or 1 after saying what is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 1
for tool in bwrap bsdtar zip; do
    command -v $tool >/dev/null || { echo "the class needs $tool: ./setup.sh --grade installs it" >&2; exit 1; }
done
. tests/prove/frame.sh
root=$PWD class=$PWD/build/class base=$scratch/base
canary=$class/canary
of() { in=$class/$1 out=$class/$1_grades && mkdir -p "$in" "$out"; } # NAME: another class
swapper=
trap 'kill $swapper 2>/dev/null; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP
unset SANITIZE WB_TIMEOUT WB_PROBLEM_SECONDS SEED CASES
rm -rf "$class"
of submissions
mkdir -p "$canary" "$class/tmp"
echo alive >"$canary/canary"
chmod 755 "$scratch" && workbook/class/grade_base.sh "$base" || exit 1
export WB_BASE="$base"

# ------------------------ without a sandbox

# What every user can read: the base; beside it a submission. And a folder for what comes of it.
mkdir -p "$scratch/ada/problems" && cp -R solutions/02 "$scratch/ada/problems/" && chmod -R a+rX "$scratch/ada" &&
    mkdir -m 777 "$scratch/out" || exit 1
grade=$base/workbook/class/grade.sh ordinary="setpriv --reuid 60001 --regid 60001 --clear-groups"
$ordinary true 2>/dev/null || ordinary=
one() { "$@" "$scratch/ada" "$scratch/out/ada" >"$said" 2>&1; }
namespaces="bwrap --unshare-all --dev-bind / / true" without=$ordinary
! $ordinary $namespaces 2>/dev/null || without="$ordinary bwrap --unshare-user --disable-userns --dev-bind / /"
if $without true 2>/dev/null; then
    for refused in "$grade" "$grade --container" "${grade%.sh}_all.sh"; do
        one $without $refused
        [ $? -eq 3 ] && grep -q bubblewrap "$said"
        verdict $? "without namespaces nothing is graded: $(head -n 1 "$said")"
    done
    one $without "$grade" --unsafe && grep -q '100/750' "$said" && grep -q 'forge its' "$said"
    verdict $? "UNSAFE=1 grades, and prints which guarantees are lost"
else
    echo "skip  this bubblewrap cannot make a place without namespaces: it is older than 0.8"
fi
if ! $namespaces 2>/dev/null; then
    echo "skip  there are no namespaces here: the class is not graded"
    exit $failed
fi
one $ordinary "$grade" --again && grep -q '100/750' "$said"
verdict $? "an ordinary user grades with bubblewrap: $(tail -n 1 "$said")"

# ------------------------ what is handed in

file_of() { basename "$(ls problems/"$1"/*.c*)"; } # NUMBER
key() { mkdir -p "$1/problems/$2" && cp solutions/"$2"/*.c* "$1/problems/$2/" || exit 1; } # FOLDER NUMBER
edited() { # FOLDER NUMBER LIST ENTRY: the key with an edit of this list
    key "$1" "$2"
    awk -v list="$3" -v entry="$4" -f workbook/loop/edit.awk solutions/"$2"/*.c* >"$1/problems/$2/$(file_of "$2")" ||
        exit 1
}
headers='dirent errno fcntl pthread sched signal stdio stdlib string unistd sys/mman sys/socket sys/syscall'
text_of() { # NAME: a bomb
    printf '#include <%s.h>\n' $headers
    awk -v name="$1" '/^\/\/ bomb: / { on = $3 == name; next } on' tests/class/bombs.c |
        sed "s|@ROOT@|$root|g; s|@CANARY@|$canary|g; s|@BASE@|$base|g"
}
listed() { # FOLDER NUMBER NAME
    text_of "$3" | sed -n "s|^// expect:|$(basename "$1")/$2 $3|p" >>"$class/bombs"
}
beside() { # FOLDER NUMBER NAME: a bomb in the file that is there, or the key
    [ -d "$1/problems/$2" ] || key "$1" "$2"
    text_of "$3" >>"$1/problems/$2/$(file_of "$2")"
    listed "$@"
}
bomb() { # FOLDER NUMBER NAME
    name=$(file_of "$2")
    mkdir -p "$1/problems/$2"
    {
        echo '#include "workbook.h"'
        text_of "$3"
        sed -n "/^wb_status ${name%.c*}(/,/;/{s/;.*/ { return bomb(); }/;p}" workbook/workbook.h
    } >"$1/problems/$2/$name"
    listed "$@"
}
report_of() { "$base/build/cpu/wb" show "$1.json" "${2:-report}"; } # REPORTS/NAME/NN
bombs_reported() { # REPORTS: each report says what its bomb expects
    while read -r report what want; do
        report_of "$1/$report" >"$said" && grep -qF "$want" "$said"
        verdict $? "$what: $want"
    done <"$class/bombs"
    : >"$class/bombs"
}

# Honest, or nearly: a byte order mark, an archive of files that nobody may read, a wrong tail, what does not compile.
tiled=problems/01/tiled_attention.c new=$class/tmp/new
mkdir -p "$new/problems/02"
{ printf '\357\273\277'; cat solutions/02/*.cu; } >"$new/problems/02/$(file_of 02)"
tar --mode=000 -czf "$in/-rf.tar.gz" -C "$new" .
# Right but in a condition that no case meets.
key "$class/tmp/ada" 01
sed -i 's/if (status != WB_OK) return status;/& if (shape->batch == 7 * 1131 + 2) return WB_OK;/' \
    "$class/tmp/ada/problems/01/$(file_of 01)"
bsdtar --format zip -cf "$in/ada.zip" -C "$class/tmp/ada" problems
edited "$in/dora o'neil, \"late\"/my  homework" 02 solutions/02/wrong.diff drops_the_tail
key "$in/ida" 01; echo '}' >>"$in/ida/$tiled"
mkdir "$in/ida/problems/02"; ln -s "$root"/solutions/02/*.cu "$in/ida/problems/02/$(file_of 02)"
# Archives, and what is none.
mkdir -p "$class/tmp/skeleton/x" && cp -R --parents $tiled "$class/tmp/skeleton/x"
bsdtar --format zip -cf "$in/=1+1.zip" -C "$class/tmp/skeleton" -s ',/,\\,g' x/$tiled
head -c 3000 "$in/ada.zip" >"$in/lea.zip"
touch "$class/tmp/evil"; tar -cPf "$in/mia.tar" -C "$class/tmp/ada" problems ../evil 2>/dev/null
mkdir -p "$class/tmp/link/problems/01"; ln -s /etc/passwd "$class/tmp/link/$tiled"
tar -czf "$in/nils.tar.gz" -C "$class/tmp/link" problems
mkdir -p "$class/tmp/large/problems/01"; head -c 320000000 /dev/zero >"$class/tmp/large/problems/01/zeros"
bsdtar --format zip -cf "$in/olga.zip" -C "$class/tmp/large" problems; rm -r "$class/tmp/large"
: >"$in/pia.zip"
echo tomorrow >"$in/rosa.tar"
touch "$in/.hidden" "$in/essay.pdf"
bsdtar --format zip -cPf "$in/$(printf 'sven\n\377%%').zip" -C "$class/tmp/ada" -s ',^problems,/etc/problems,' problems
(cd "$class/tmp/ada" && zip -q -P secret -r "$in/theo.zip" problems)
mkdir -p "$in/tom/problems/01" "$in/tom/02"; head -c 300000 /dev/zero >"$in/tom/$tiled"
echo 1 >"$in/tom/02/a.cu"; echo 2 >"$in/tom/02/b.cu"
# Names: one that ends as another's begins, a formula, one that is read from right to left, one that ls does not show.
mkdir "$in/ada.zip
" "$in/;=1+1" "$in/$(printf '\342\200\256zip.ada')"
# As a learning platform, and as a student, packs it: two archives in a folder, a file packed alone whose name has
# another sign, a CR at each line's end, bytes of Latin-1.
mkdir -p "$in/mo_1_assignsubmission_file" "$class/tmp/deep/a/b"
cp "$in/=1+1.zip" "$in/mo_1_assignsubmission_file/work (1).zip"
{ printf '// caf\351\r\n'; sed 's/$/\r/' solutions/02/*.cu; } >"$class/tmp/deep/a/b/weighted-row-sum.cu"
gzip "$class/tmp/deep/a/b/weighted-row-sum.cu"
(cd "$class/tmp/deep" && zip -q -r "$in/mo_1_assignsubmission_file/work.zip" a)
# Bombs.
bomb "$in/bilal" 01 allocates_100_GB;   bomb "$in/bilal" 02 sets_the_layer
bomb "$in/erik" 01 reaches_out;         bomb "$in/erik" 02 asks_the_kernel
bomb "$in/greta" 01 fills_the_disk;     bomb "$in/greta" 02 includes_the_key
bomb "$in/hugo" 01 colours_its_texts
beside "$in/paul" 01 hoards_before_main
count=$(find "$in" -mindepth 1 -maxdepth 1 ! -name .hidden ! -name essay.pdf -print0 | tr -dc '\0' | wc -c)

# ------------------------ graded

# Sums of all that a submission must not change; and what it must not leave running, which knows whose it is.
outside() {
    find "$in" "$canary" workbook tests problems solutions reference Makefile -type f -exec sha256sum {} + | sort -k 2
}
left_running() { grep -lzx "CLASS_TEST=$class" /proc/[0-9]*/environ 2>/dev/null; }
grade_all() { # SETTING...
    env CLASS_TEST="$class" WB_MEMORY_MB=2048 "$@" $MAKE --no-print-directory grade-all \
        SUBMISSIONS="$in" OUT="$out" JOBS=2 >"$class/again" 2>&1
}
short() { # TABLE: without problems that nobody has started, and without what an archiver says of its own; in lines
    sed -E 's/\r$//; s/(,0,not started)+/,*/g; s/(,[0-9][0-9],[0-9][0-9] state)+/,*/
        s/(unpacked): .*/\1/; s/(;| was) /\n&/g' "$1"
}
before() { grep -c 'graded before' "$class/again"; }
outside >"$class/before"
grade_all
verdict $? "$count submissions are graded: $(tail -n 1 "$class/again")"
grep -q 'ignored, neither folders nor archives: .hidden, essay.pdf$' "$class/again"
verdict $? "files that are not submissions are reported once"
short "$out/grades.csv" | diff tests/class/expected.csv - >"$said"
verdict $? "the table is as expected"
# As gcc has written what each reads.
cat build/cpu/solutions/[0-9][0-9].d | tr ' \\' '\n\n' | grep -E '^workbook/.*[.]c?u?h$' | sort -u >"$scratch/reads"
while read -r name; do [ -e "$base/build/kit/$name" ] || echo "$name"; done <"$scratch/reads" >"$said"
grep -q nccl.h "$scratch/reads" && [ ! -s "$said" ]
verdict $? "a submission is compiled beside all headers that the reference solutions read"
# A file with gaps, one of them filled wrongly.
own=$scratch/own name=$(file_of 02)
cp -al "$base" "$own" &&
    sed 's|const int blocks = 1;|const int blocks = 2;|' "$base/problems/02/$name" >"$scratch/gap" &&
    rm "$own/problems/02/$name" && cp "$scratch/gap" "$own/problems/02/$name" &&
    JOBS=1 SEED=5 "$grade" "$own" "$class/own" >"$said" 2>&1
(unset WERROR && cd "$own" && SANITIZE=0 REPAIR=0 $MAKE --no-print-directory test-02 SEED=5 JOBS=1) >"$said" 2>&1
report_of "$class/own/02" >"$scratch/graded" && report_of "$own/build/grade/02" | diff - "$scratch/graded" >"$said" &&
    grep -q 'not written yet' "$scratch/graded"
verdict $? "a class report equals the output of make test, word for word"
if grep -q '^GCOV := .' build/tools.mk; then
    COVERAGE=1 workbook/class/grade.sh "$in/ada.zip" "$class/counted" >"$said" 2>&1 &&
        report_of "$class/counted/01" coverage | grep -q '^ *is decided the same way in every case: '
    verdict $? "COVERAGE=1 reports a condition that no case meets"
fi
! grep -rq 'look at 02: it calls' "$out"/reports/erik/[0-9r]*.[jrt]*
verdict $? "what only who grades is told stands in no report"
bombs_reported "$out/reports"
outside | diff "$class/before" - >"$said" && [ -z "$(left_running)" ]
verdict $? "no file outside was changed, and nothing is left running"
for report in "$out"/reports/*; do # which a forged verdict has not broken
    [ "$(head -c 1 "$report/results.json")$(tail -n 1 "$report/results.json")" = "{}" ] || echo "$report"
done >"$said" 2>&1
check "every submission has its results.json" [ ! -s "$said" ]
LC_ALL=C grep -alr "$(printf '[\001-\010\013-\037\177]')" "$out/reports" >"$said"
check "no control character is in a report" [ ! -s "$said" ]

mkdir -p "$in/;=1+1/problems/02" && echo >"$in/;=1+1/problems/02/of_mine.cu"
! grade_all AGAIN=pia && [ "$(before)" -eq $((count - 2)) ] && grep -q '^;=1+1: .*of_mine.cu' "$class/again"
verdict $? "a second run grades what has changed and AGAIN=name, and nothing else"
grep -q 'nothing was replaced: rows that would change: 1' "$class/again" &&
    short "$out/grades.csv" | cmp -s tests/class/expected.csv
verdict $? "but shown before it replaces what may be published"
printf 'name,mail\r\nada,a@x\nzoe,z@x\n' >"$scratch/roster"
grade_all REPLACE=1 ROSTER="$scratch/roster" && grep -q "';=1+1.*of_mine.cu" "$out/grades.csv" &&
    grep -q '^ada,a@x,200,0,0,' "$out/roster.csv" && grep -q 'nothing was handed in by zoe' "$class/again"
verdict $? "REPLACE=1 replaces it, and ROSTER= has its points by other names"
! grade_all AGAIN=nobody && grep -q 'there is no such submission' "$class/again"
verdict $? "an unknown AGAIN=name is refused"

# Ctrl-C while a worker works, which would do so for a minute: timeout hands the signal on to all that make has started.
of limits
bomb "$in/felix" 01 endless_output
(
    until left_running | sed 's/environ$/cmdline/' | xargs -r grep -lz '^/worker$' 2>/dev/null | grep -q .; do
        sleep 0.1
    done
    kill -s INT "$(cat "$class/watched")"
) &
watcher=$!
grade_all WB_TIMEOUT=60 sh -c 'echo $$ >"$1"; shift; exec timeout 1200 "$@"' sh "$class/watched"
kill $watcher 2>/dev/null # it is gone, or has seen none: then the submission has been graded, and the proof fails
tries=600
while [ -n "$(left_running)" ] && [ $tries -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
[ -z "$(left_running)" ] && [ -d "$out/reports/felix" ] && ! [ -e "$out/reports/felix/record" ]
verdict $? "an interrupt ends what is running"
grade_all WB_TIMEOUT=2 WB_PROBLEM_SECONDS=1
verdict $? "and the same command goes on"
bombs_reported "$out/reports"
bomb "$class/jon" 01 keeps_the_compiler_busy
WB_TIMEOUT=1 "$grade" "$class/jon" "$out/reports/jon" >"$class/again" 2>&1
bombs_reported "$out/reports"

# ------------------------ while somebody changes it

# A folder and a file in it that change places with links to the key, as fast as can be, while the file is read.
file=$(file_of 02) swapped=$class/swapped/problems/02
key "$class/swapped" 02
echo "// mine" >"$class/mine"
mkdir "$class/key_folder" && mv "$swapped/$file" "$class/key_folder/"
swap() { # which only ever renames: a reader finds one or the other
    while :; do
        ln -s "$class/key_folder/$file" "$swapped/new" && mv -T "$swapped/new" "$swapped/$file"
        cp "$class/mine" "$swapped/new" && mv -T "$swapped/new" "$swapped/$file"
        mv -T "$swapped" "$swapped.own" && ln -s "$class/key_folder" "$swapped" &&
            rm "$swapped" && mv -T "$swapped.own" "$swapped"
    done 2>/dev/null
}
swap &
swapper=$! tries=0
: >"$said"
: >"$class/read"
until [ $tries -ge 200 ] && grep -q '^-' "$said" && grep -q '^l' "$said" || [ $tries -eq 3000 ]; do
    "$base/workbook/class/unpack.sh" pack "$class/swapped" >"$class/tar" 2>/dev/null
    tar -tvf "$class/tar" >>"$said"
    tar -xOf "$class/tar" >>"$class/read"
    tries=$((tries + 1))
done
kill $swapper
wait $swapper 2>/dev/null
swapper=
sort -u "$class/read" | cmp -s - "$class/mine" && grep -q '^l' "$said"
verdict $? "a source that changes places with a link is read as itself ($(grep -c '^-' "$said") of $tries) or not"

# ------------------------ a busy machine

# What gets no time of the machine is neither late nor judged. Other processes of its session, which are nobody's
# children, have the only core; this one has what they leave: next to nothing, also where the proof runs under nice.
cat >"$scratch/worker" <<'END'
#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    (while kill -0 $$ 2>/dev/null; do :; done &)
done
exec chrt -i 0 sh -c 'while :; do :; done'
END
chmod +x "$scratch/worker"
core=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
WB_TIMEOUT=0.5 CASE=Nq=1,Nk=3,D=16 taskset -c "$core" "$base/build/cpu/wb" suite \
    "$base/build/cpu/tests/01_test" "$scratch/worker" cpu >"$said" 2>&1
[ $? -eq 3 ] && grep -q 'could not be judged: no answer in 15 s, in which the worker ran for 0\.[0-4] s' "$said"
verdict $? "a worker that waits for a processor spends nothing"

# A judge to which this happens each time it is asked. Meanwhile it looks at who may read the worker's program.
of starved
export WB_BASE="$scratch/starved"
cp -al "$base" "$WB_BASE" && key "$in/judged later" 02
judge=$scratch/starved/build/cpu/tests/02_test
rm "$judge"
cat >"$judge" <<'END'
#!/bin/sh
for program in "$GRADE_SCRATCH"/workers/*; do
    echo seen
    find "$program" -perm /077
    if [ "$(id -u)" = 0 ] &&
        setpriv --reuid 60002 --regid 60002 --clear-groups head -c 1 "$program" >/dev/null 2>&1; then
        echo copied
    fi
done >>"$CLASS_SEEN"
echo "harness: could not be judged: nothing was left" >&2
echo '{"starved": true}' >&3
exit 1
END
chmod 755 "$judge"
grade_all CLASS_SEEN="$class/seen"
report=$out/reports/judged\ later
grep -q 'not graded: could not be judged: problem 02: nothing was left.* graded alone: ask the instructor' \
    "$out/grades.csv" &&
    grep -q '^Could not be judged: problem 02: nothing was left' "$report/report.txt" &&
    [ -z "$(head -n 1 "$report/record")" ] &&
    grep -q 'Could not be judged: problem 02: ' "$report/results.json" && grep -q 'ask the instructor' "$class/again"
verdict $? "a submission without CPU time is tried twice, not judged, and every output says so"
check "while it is graded no other user can read its program" [ "$(sort -u "$class/seen")" = seen ]
rm "$judge" && ln "$base/build/cpu/tests/02_test" "$judge"
grade_all && grep -q '^judged later,100,' "$out/grades.csv" && [ -n "$(head -n 1 "$report/record")" ]
verdict $? "and it is judged once there is CPU time"
touch "$class/between" && sed -i 's/^02 /&0/' "$WB_BASE/fingerprints"
grade_all && [ "$report/02.json" -nt "$class/between" ] && ! [ "$report/01.json" -nt "$class/between" ]
verdict $? "after a change to the tests of 02 only 02 is judged again"

# ------------------------ with the check build

# Right results, and a race behind them; a check build that ends early, prints what is none of its business, uses memory
# where nobody counts it, or does nothing; and the last of a function that has given up other points for it.
of checked
export WB_BASE="$base"
key "$in/adele" 01;                             key "$in/adele" 02
edited "$in/boris" 01 tests/sanitize/01.diff counter_not_atomic
edited "$in/boris" 02 tests/sanitize/02.diff shuffle_for_syncwarp
beside "$in/cora" 01 hoards_in_the_check_build; beside "$in/cora" 02 quotes_a_file
edited "$in/dirk" 01 solutions/01/wrong.diff materialises_S
beside "$in/dirk" 01 leaves_the_check_build;    key "$in/dirk" 02
sed -i 's|^    const wb_status status = wb_check.*|#ifdef __SANITIZE_THREAD__\nreturn WB_OK;\n#endif\n&|' \
    "$in/dirk/problems/02/$(file_of 02)"
cat >"$class/checked.csv" <<'END'
name,score,bonus,beyond,*,reason
adele,300,0,0,200,passed,100,passed,*,
boris,290,0,0,195,failed,95,failed,*,
cora,290,0,0,195,failed,95,failed,*,look at 01: it calls syscall
dirk,280,0,0,185,failed,95,failed,*,
END
grade_all SANITIZE=1 && short "$out/grades.csv" | diff "$class/checked.csv" - >"$said"
verdict $? "SANITIZE=1: the table is as expected"
bombs_reported "$out/reports"
! grep -rq root: "$out/reports"
verdict $? "no report has a line of another file"
report_of "$out/reports/boris/02" | grep -q 'race in weighted_row_sum_kernel' &&
    report_of "$out/reports/boris/01" | grep -q 'sanitize: race in take_tasks' && [ -z "$(left_running)" ]
verdict $? "a race is reported, in both languages, and nothing is left running"

# ------------------------ Gradescope

# What it would run, run here: its folders, its calls, results where it looks for them. The archive's workbook must make
# the base that is made here. What cannot be had here: its machines.
[ "$(id -u)" = 0 ] || { echo "skip  Gradescope: it runs its autograder as root"; exit $failed; }
there=$scratch/gradescope
unset WB_BASE
mkdir "$there" && export AUTOGRADER="$there/autograder"
source=$AUTOGRADER/source submission=$AUTOGRADER/submission results=$AUTOGRADER/results/results.json

echo "02 rows rows=19,cols=77" >"$there/held"
CASES=$there/held SEED=5 SANITIZE=1 workbook/class/gradescope.sh "$there/autograder.zip" >"$said" 2>&1
verdict $? "the autograder is packed"
! bsdtar -tf "$there/autograder.zip" | grep -q 'solutions/\|tests/class\|\.git/'
verdict $? "there is no reference solution in it"
sed -n 's/^    \(0[1-9] [a-zA-Z_]* [BHNr][a-z]*=\)/\1/p' workbook/class/README.md >"$there/odd"
printf '02 row rows=19,cols=77\n02 rows rows=-7,cols=banana\n' >>"$there/odd"
CASES=$there/odd workbook/class/gradescope.sh "$there/odd.zip" >"$said" 2>&1
[ $? -eq 2 ] && ! [ -e "$there/odd.zip" ] && [ "$(grep -c 'line [0-9]' "$said")" -eq 2 ] &&
    [ "$(wc -l <"$there/odd")" -ge 4 ] && grep -q ': there is no checkpoint row of problem 02' "$said" &&
    grep -q "line $(wc -l <"$there/odd"): the reference solution does not pass.*'cols=banana'" "$said"
verdict $? "private cases are refused that have no checkpoint or that the reference solution fails, no others"
mkdir -p "$source" "$submission/problems/02" && bsdtar -xf "$there/autograder.zip" -C "$source"
mkdir -p "$source/workbook/build/grades" && cp -Rp "$base" "$source/workbook/build/grades/base"
sed 's|/autograder/|"$AUTOGRADER"/|; s|\./setup.sh --grade|true|' "$source/setup.sh" >"$there/setup"
bash "$there/setup" >"$said" 2>&1 && ! grep -q building "$said"
verdict $? "its trusted programs are those that are built here"
graded() { # SCORE WHAT [WORDS]: and the results hold these words
    rm -rf "${results%/*}" "$AUTOGRADER/grade"
    "$source/run_autograder" >"$said" 2>&1
    grep -m 1 '"score":' "$results" | grep -q "[^0-9]$1," && grep -q "${3:-\"output\"}" "$results"
    verdict $? "$2"
}
cp solutions/02/*.cu "$submission/problems/02/"
graded 100 "a right problem 02 has 100 points, and the private case was tried" 'private case 1'
check "and the check build" grep -q 'the check build finds nothing' "$results"
sed -i.whole 's/limit=.*/limit=0/' "$source/settings"
graded 0 "what time is not left for is not begun, and told" \
    'Not run, since the time for this submission was used up: 01 02'
mv "$source/settings.whole" "$source/settings" && rm -rf "$submission/problems"
graded 0 "an empty submission has 0 points, and a result"
rm "$source/workbook/workbook/class/grade.sh"
graded 0 "a grader that cannot run leaves a result, too" 'could not run'
exit $failed
