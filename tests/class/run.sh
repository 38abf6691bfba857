#!/bin/sh
# run.sh - a class: right and wrong solutions, bombs (bombs/NAME.c: the rule that it proves, and what the report must say) and archives that
# are none. Graded by one make grade-all; the table must be expected.csv to the byte. Then: nothing outside was changed or is still
# running; a second run grades what has changed alone; an interrupted run goes on where it stopped.
# As root or an ordinary user; where there are no namespaces to be had it proves that grading refuses. Takes some minutes on two cores.
# Exit status: 0, or 1 after saying what is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v bwrap >/dev/null && command -v bsdtar >/dev/null || { echo "the class needs bubblewrap and bsdtar: ./setup.sh --grade installs them" >&2; exit 1; }
root=$PWD class=$PWD/build/class
in=$class/submissions out=$class/grades canary=$class/canary
make=${MAKE:-make} failed=0 proofs=0 skipped=0
verdict() { # STATUS WHAT
    proofs=$((proofs + 1))
    if [ "$1" -eq 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; failed=$((failed + 1)); fi
}

rm -rf "$class"
mkdir -p "$in" "$canary" "$class/tmp"
echo alive >"$canary/canary"
cc -std=c11 -D_GNU_SOURCE tests/class/zip.c -o "$class/zip" || exit 1

# ------------------------------------------------------------------------------------------------------------ without a sandbox

# A copy that every user can read, a submission in it, and a folder for what comes of it.
open=$(mktemp -d) && chmod 755 "$open" || exit 1
hogs='' swapper=''
trap 'kill $hogs $swapper 2>/dev/null; rm -rf "$open"' EXIT
trap 'exit 1' INT TERM HUP
workbook/class/grade_base.sh "$open/base" || exit 1
mkdir -p "$open/ada/problems" && cp -R solutions/02 "$open/ada/problems/" && chmod -R a+rX "$open" && mkdir -m 777 "$open/out" || exit 1
ordinary="setpriv --reuid 60001 --regid 60001 --clear-groups"
$ordinary true 2>/dev/null || ordinary=
one() { "$@" --base "$open/base" -- "$open/ada" "$open/out/ada"; }
refuses() { # COMMAND...: with a sentence
    "$@" >"$class/said" 2>&1
    [ $? -eq 3 ] && grep -q bubblewrap "$class/said"
    verdict $? "without namespaces nothing is graded: $(head -n 1 "$class/said")"
}
without_namespaces() { # COMMAND...: runs another where there are none
    grade=$open/base/workbook/class/grade.sh
    refuses one "$@" "$grade"
    refuses one "$@" "$grade" --container
    refuses "$@" "$open/base/workbook/class/grade_all.sh" "$open/ada" "$open/out/all"
    one "$@" "$grade" --unsafe >"$class/said" 2>&1 && grep -q '100/750' "$class/said" && grep -q 'forge its' "$class/said"
    verdict $? "UNSAFE=1 grades, and says what no longer holds"
}
namespaces="bwrap --unshare-all --dev-bind / / true" few="bwrap --unshare-user --disable-userns --dev-bind / /"
if ! $ordinary $namespaces 2>/dev/null; then
    without_namespaces $ordinary
elif $ordinary $few true 2>/dev/null; then
    without_namespaces $ordinary $few
else
    echo "skip  this bubblewrap cannot make a place without namespaces: it is older than 0.8"
    skipped=$((skipped + 1))
fi
if ! $namespaces 2>/dev/null; then
    echo "skip  there are no namespaces here: the class is not graded"
    echo "$((proofs - failed)) passed, $failed failed, 1 skipped"
    exit $((failed > 0))
fi
one $ordinary "$open/base/workbook/class/grade.sh" --again >"$class/said" 2>&1 && grep -q '100/750' "$class/said"
verdict $? "an ordinary user grades with bubblewrap: $(tail -n 1 "$class/said")"
mkdir -p "$open/bin"
printf '#!/bin/sh\necho 64\n' | tee "$open/bin/nproc" >"$open/bin/getconf" && chmod -R a+rx "$open/bin"
PATH=$open/bin:$PATH one $ordinary "$open/base/workbook/class/grade.sh" >"$class/said" 2>&1 && grep -q 'graded before' "$class/said"
verdict $? "a grade is the same on a machine of 64 cores: $(tail -n 1 "$class/said")"
jobs() { env -u WB_JOBS "$@" $make --no-print-directory --eval='jobs: ; @echo $$WB_JOBS' jobs; }
[ "$(jobs env SLURM_CPUS_PER_TASK=3)" = 3 ] && [ "$(jobs taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')")" = 1 ]
verdict $? "as many tests at once as the cores that were given out"

# ------------------------------------------------------------------------------------------------------------ the class

file_of() { basename "$(ls problems/"$1"/*.c*)"; } # NUMBER
put() { # FOLDER NUMBER FILE
    mkdir -p "$1/problems/$2" && cp "$3" "$1/problems/$2/$(file_of "$2")" || exit 1
}
key() { put "$1" "$2" "$(ls solutions/"$2"/*.c*)"; } # FOLDER NUMBER
edited() { # FOLDER NUMBER LIST ENTRY: the key with an edit of this list
    mkdir -p "$1/problems/$2"
    awk -v list="$3" -v entry="$4" -f workbook/loop/edit.awk "$(ls solutions/"$2"/*.c*)" >"$1/problems/$2/$(file_of "$2")" || exit 1
}
wrong() { edited "$1" "$2" "solutions/$2/wrong.diff" "$3"; } # FOLDER NUMBER ENTRY
with_paths() { sed "s|@ROOT@|$root|g; s|@CANARY@|$canary|g; s|@BASE@|$out/base|g" "$@"; }
listed() { printf '%s\t%s\t%s\n' "$(basename "$1")" "$2" "$3" >>"$class/bombs"; } # FOLDER NUMBER NAME
beside() { # FOLDER NUMBER NAME: a bomb in a file whose function is right
    key "$1" "$2"
    cat "tests/class/bombs/$3.c" >>"$1/problems/$2/$(file_of "$2")"
    listed "$@"
}
bomb() { # FOLDER NUMBER NAME
    mkdir -p "$1/problems/$2"
    {
        printf '#include "workbook.h"\nstatic int first;  // is this the case of the first test?\n'
        with_paths "tests/class/bombs/$3.c"
        case $2 in
        01) echo 'wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V, const attention_shape *s)
                  { (void)O, (void)L, (void)Q, (void)K, (void)V; first = s->q_len == 1 && s->kv_len == 3; return bomb(); }' ;;
        02) echo 'wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int m, int n, wb_stream stream)
                  { (void)y, (void)x, (void)w, (void)stream; (void)n; first = m == 2; return bomb(); }' ;;
        esac
    } >"$1/problems/$2/$(file_of "$2")"
    listed "$@"
}
packed() { gzip -nc "$1" >"$class/tmp/$2.gz"; echo "$class/tmp/$2.gz"; } # FILE NAME
tiled=problems/01/tiled_attention.c
nl="
"
new() { rm -rf "$class/tmp/new"; mkdir -p "$class/tmp/new"; echo "$class/tmp/new"; }

key "$(new)" 02;                tar -czf "$in/-rf.tar.gz" -C "$class/tmp/new" problems
"$class/zip" $tiled "$(packed problems/01/tiled_attention.c skeleton)" >"$in/=1+1.zip"
"$class/zip" $tiled "$(packed solutions/01/tiled_attention.c key)" >"$in/ada.zip"
bomb "$in/anton" 01 fork_bomb;              bomb "$in/anton" 02 endless_output
key "$(new)" 02; key "$class/tmp/new" 03;   tar -czf "$in/bea.tgz" -C "$class/tmp/new" .
bomb "$in/bilal" 01 allocates_100_GB;       bomb "$in/bilal" 02 exits_with_0
key "$in/chen" 05
bomb "$in/clara" 01 kills_its_parent;       bomb "$in/clara" 02 leaves_a_child
bomb "$in/dmitri" 01 endless_loop;          bomb "$in/dmitri" 02 writes_outside
wrong "$in/dora o'neil, \"late\"/my  homework" 02 drops_the_tail
key "$(new)/emil" 08;                       tar -cf "$in/emil.tar" -C "$class/tmp/new" emil
bomb "$in/erik" 01 reads_the_key;           bomb "$in/erik" 02 reads_the_expected
wrong "$(new)/a/b/.." 01 m_starts_at_0;     tar -czf "$in/fatma.tgz" -C "$class/tmp/new" a
bomb "$in/felix" 01 opens_a_socket;         bomb "$in/felix" 02 forges_a_verdict
wrong "$in/goran" 03 O_not_rescaled;        key "$in/goran" 02
bomb "$in/greta" 01 incbins_the_key;        bomb "$in/greta" 02 includes_the_key
wrong "$(new)" 01 L_without_m;              "$class/zip" "hana/$tiled" "$(packed "$class/tmp/new/$tiled" hana)" >"$in/hana.zip"
bomb "$in/hugo" 01 forges_the_exchange;     bomb "$in/hugo" 02 exits_before_main
key "$in/ida" 02; key "$in/ida" 01;         echo '}' >>"$in/ida/$tiled"
bomb "$in/ivan" 01 empties_the_exchange;    bomb "$in/ivan" 02 replaces_main
bomb "$in/jon" 01 keeps_the_compiler_busy;  bomb "$in/jon" 02 fills_the_disk
mkdir "$in/kim"
seq 2000 >"$class/tmp/numbers"
"$class/zip" $tiled "$(packed "$class/tmp/numbers" numbers)" >"$class/tmp/numbers.zip"; head -c 3000 "$class/tmp/numbers.zip" >"$in/lea.zip"
key "$(new)/x" 01; touch "$class/tmp/new/evil"; tar -cPf "$in/mia.tar" -C "$class/tmp/new/x" problems ../evil
mkdir -p "$(new)/problems/01"; ln -s /etc/passwd "$class/tmp/new/$tiled"; tar -czf "$in/nils.tar.gz" -C "$class/tmp/new" problems
head -c 10000000 /dev/zero | gzip -n >"$class/tmp/zeros.gz"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do cat "$class/tmp/zeros.gz"; done >"$in/olga.tgz"
: >"$in/pia.zip"
echo "I will hand it in tomorrow" >"$in/rosa.txt"
"$class/zip" "/etc/problems/01/tiled_attention.c" "$class/tmp/key.gz" >"$in/$(printf 'sven\n\377%%').zip"
"$class/zip" $tiled "$class/tmp/zeros.gz" >"$in/tom.zip"
bomb "$in/kira" 01 keeps_notes_in_a_keyring; bomb "$in/kira" 02 asks_the_kernel
bomb "$in/lars" 01 looks_into_its_sandbox;  bomb "$in/lars" 02 fills_its_scratch
bomb "$in/mona" 01 forks_a_helper;          bomb "$in/mona" 02 sets_the_layer
bomb "$in/noor" 01 names_a_case;            bomb "$in/noor" 02 colours_its_message
bomb "$in/otto" 01 errors_in_colour;        bomb "$in/otto" 02 says_it_backwards
bomb "$in/uma" 01 warns_in_colour;          mkdir "$in/uma/problems/02"; ln -s "$root"/solutions/02/*.cu "$in/uma/problems/02/$(file_of 02)"
beside "$in/paul" 01 hoards_before_main
mkdir -p "$in/quin/problems/02"; { printf '\357\273\277'; cat solutions/02/*.cu; } >"$in/quin/problems/02/$(file_of 02)" # a byte order mark
key "$(new)" 01; tar --mode=000 -cf "$in/rita.tar" -C "$class/tmp/new" problems
"$class/zip" 'problems\01\tiled_attention.c' "$class/tmp/skeleton.gz" >"$in/sara.zip"
(cd "$class/tmp/new" && zip -q -P secret -r "$in/theo.zip" problems)
# Names: one that ends as another's begins, formulas, one that is read from right to left, one that ls does not show.
mkdir "$in/ada.zip$nl" "$in/$(printf '\342\200\256zip.ada')" "$in/$(printf '\357\274\2351+1')" "$in/;=1+1" "$in/.hidden"
count=$(find "$in" -mindepth 1 -maxdepth 1 -print0 | tr -dc '\0' | wc -c)

# ------------------------------------------------------------------------------------------------------------ graded once

# Sums of all that a submission must not change; and what it must not leave running.
outside() { find "$in" "$canary" workbook tests problems solutions reference Makefile -type f -exec sha256sum {} + | sort -k 2; }
left_running() { # of this class: its graders, and sandboxes whose grader has gone with its scratch
    for process in /proc/[0-9]*; do
        command=$(tr '\0' ' ' <"$process/cmdline")
        case $command in
        *"grade.sh --base $class/"*) echo "${process#/proc/}" ;;
        *"bwrap --unshare"*"--ro-bind /tmp/workbook-grade."*)
            of=${command#*--ro-bind /tmp/workbook-grade.}
            [ -d "/tmp/workbook-grade.${of%%/*}" ] || echo "${process#/proc/}" ;;
        esac
    done 2>/dev/null
}
# Seconds are few, since three bombs use them all: one in every test, until the suite gives up, the others in the first.
export WB_TIMEOUT="${WB_TIMEOUT:-8}" WB_COMPILE_SECONDS="${WB_COMPILE_SECONDS:-20}" WB_MEMORY_MB=2048
grade_all() {
    $make --no-print-directory grade-all SUBMISSIONS="$in" OUT="$out" JOBS=2
}
outside >"$class/before"
begun=$(date +%s)
grade_all
cp -R "$out/reports" "$class/first_reports"
verdict $? "$count submissions are graded, in $(($(date +%s) - begun)) s"
if cmp -s "$out/grades.csv" tests/class/expected.csv; then
    verdict 0 "the table is as expected"
else
    verdict 1 "the table is not as expected:"
    diff tests/class/expected.csv "$out/grades.csv"
fi
bombs_reported() { # REPORTS
    while IFS="$(printf '\t')" read -r name number what; do
        want=$(sed -n '2s|^// expect: ||p' "tests/class/bombs/$what.c" | with_paths)
        report=$1/$name/$number.report
        grep -qF "$want" "$report"
        verdict $? "$what: $want"
        grep -qF "$want" "$report" || head -n 40 "$report"
    done <"$class/bombs"
}
bombs_reported "$out/reports"
outside | cmp -s - "$class/before"
verdict $? "no file outside was changed"
[ -z "$(left_running)" ]
verdict $? "nothing is left running"
for file in "$out"/reports/*/results.json; do # which a forged verdict has not broken
    awk 'BEGIN { RS = "\1" } /^\{.*\}\n$/ && !/[\001-\010\013-\037]/ { whole = 1 } END { exit !whole }' "$file" || { echo "$file"; exit 1; }
done
verdict $? "every submission has its results.json"
! LC_ALL=C grep -alr "$(printf '[\001-\010\013-\037\177]')" "$out"/reports "$out/grades.csv" | LC_ALL=C grep -v '/[0-9][0-9]\.log$' | LC_ALL=C grep -v 'csv$'
verdict $? "no control character is in a report"

# ------------------------------------------------------------------------------------------------------------ and again

grade_all >"$class/again" && [ "$(grep -c 'graded before' "$class/again")" -eq "$count" ] && cmp -s "$out/grades.csv" tests/class/expected.csv
verdict $? "a second run grades nothing"
rm "$in/kim" -r && key "$in/kim" 02
grade_all >"$class/again" && [ "$(grep -c 'graded before' "$class/again")" -eq $((count - 1)) ] && grep -q '^kim: 100/[1-9]' "$class/again"
verdict $? "what has changed is graded again"

AGAIN=-rf.tar.gz grade_all >"$class/again" && [ "$(grep -c 'graded before' "$class/again")" -eq $((count - 1)) ] && grep -q '^-rf.tar.gz: 100/' "$class/again"
verdict $? "AGAIN=name grades one again"
! AGAIN=nobody grade_all >"$class/again" 2>&1 && grep -q 'there is no such submission' "$class/again"
verdict $? "and only one that there is"

# Ctrl-C while a worker of one of the two works: timeout hands the signal on to all that make has started.
rm -f "$out/reports/bea.tgz/record" "$out/reports/goran/record"
(
    until pgrep -f '^/worker --' >/dev/null; do sleep 0.1; done
    kill -s INT "$(cat "$class/watched")"
) &
watcher=$!
sh -c 'echo $$ >"$1"; shift; exec timeout 120 "$@"' sh "$class/watched" \
    $make --no-print-directory grade-all SUBMISSIONS="$in" OUT="$out" JOBS=2 >"$class/again" 2>&1
kill $watcher 2>/dev/null # it is gone, or has seen none: then both have been graded, and the proof fails
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -z "$(left_running)" ] || sleep 1; done
[ -z "$(left_running)" ] && ! [ -e "$out/reports/bea.tgz/record" ] && ! [ -e "$out/reports/goran/record" ]
verdict $? "an interrupt ends what is running"
grade_all >"$class/again" && [ "$(grep -c 'graded before' "$class/again")" -ge $((count - 2)) ]
verdict $? "an interrupted run goes on"
grep -v '^kim,' "$out/grades.csv" >"$class/rest" && grep -v '^kim,' tests/class/expected.csv | cmp -s - "$class/rest"
verdict $? "with the same grades"

# ------------------------------------------------------------------------------------------------- while somebody changes it

# A folder and a file in it that change places with links to the key, as fast as can be, while the file is read.
mkdir "$class/swapped" && key "$class/swapped" 02 && echo "// mine" >"$class/mine"
swapped=$class/swapped/problems/02 file=$(file_of 02)
mv "$swapped/$file" "$class/the_key"
take() { "$out/base/build/cpu/take" folder "$class/swapped" "02/$file"; }
swap() { # which only ever renames: a reader finds one or the other
    while :; do
        ln -s "$class/the_key" "$swapped/new" && mv -T "$swapped/new" "$swapped/$file"
        cp "$class/mine" "$swapped/new" && mv -T "$swapped/new" "$swapped/$file"
        mv -T "$swapped" "$swapped.own" && ln -s "$class/key_folder" "$swapped" && rm "$swapped" && mv -T "$swapped.own" "$swapped"
    done 2>/dev/null
}
mkdir "$class/key_folder" && cp "$class/the_key" "$class/key_folder/$file"
swap &
swapper=$!
for _ in $(seq 300); do take; done >"$class/taken"
kill $swapper
wait $swapper 2>/dev/null
swapper=
sed -n 's/^file 02 //p' "$class/taken" | sort -u | base64 -d >"$class/read"
cmp -s "$class/read" "$class/mine" && grep -q 'is a link' "$class/taken"
verdict $? "a source that changes places with a link is read as itself, $(grep -c '^file' "$class/taken") of 300 times, or not at all"

# -------------------------------------------------------------------------------------------------------------- a busy machine

two=$(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }' | head -n 2 | paste -s -d , -)
busy() { # PROCESSES: on two cores
    hogs=
    for _ in $(seq "$1"); do
        setsid taskset -c "$two" sh -c 'while :; do :; done' & # a session each: kernels share out cores by session
        hogs="$hogs $!"
    done
}
parent() { # PROCESS
    read -r line <"/proc/$1/stat" && line=${line##*) } && line=${line#? } && echo "${line%% *}"
}
ours() { # PROCESS: is it below the grader?
    above=$1
    while [ "${above:-0}" -gt 1 ] && [ "$above" != "$grader" ]; do above=$(parent "$above"); done
    [ "$above" = "$grader" ]
}
graded() { # NAME SETTING...: the only submission of that folder, on two cores
    name=$1
    shift
    mkdir -p "$class/${name}_grades" && ln -sfn "$out/base" "$class/${name}_grades/base"
    taskset -c "$two" env "$@" MAKE="$make" workbook/class/grade_all.sh "$class/$name" "$class/${name}_grades" >"$class/said" 2>&1
}
# A key that is drawn. By a clock it would take several times the seconds that it has to compile.
drawn=$(ls solutions | grep -x '[0-9][0-9]' | shuf -n 1)
key "$class/loaded/keys" "$drawn"
busy 20
graded loaded
kill $hogs
wanted=$(awk '!/^#/ { sum += $2 } END { print sum }' "problems/$drawn/checkpoints.txt")
got=$(awk -F, 'NR == 2 { print $2 + $3 + $4 }' "$class/loaded_grades/grades.csv")
[ "$got" = "$wanted" ]
verdict $? "beside 20 busy processes on two cores the key of $drawn has $got of $wanted points"

# Beside the key, in the sandbox.
key "$class/raced/key" 02
key "$class/raced/forger" 02
cat >>"$class/raced/forger/problems/02/$(file_of 02)" <<'END'
#include <cstdio>
static const struct forger { ~forger() { printf("counted: bytes read: 1\n"), fflush(stdout); } } forger_;
END
graded raced RACE=1 && grep -q '^key,.*,"bytes read 1.00, bytes written 1.00, barriers 1.00"' "$class/raced_grades/grades.csv" && grep -q '^forger,100,.*,it prints counts of its own' "$class/raced_grades/grades.csv"
verdict $? "RACE=1: a column of what is counted beside the key, and no points of it"

# Sleeping a little in every case.
bomb "$class/slept/sleeper" 01 sleeps_a_little
graded slept WB_TIMEOUT=4 WB_PROBLEM_SECONDS=12
grep -q 'used up the 12 s of this problem' "$class/slept_grades/reports/sleeper/01.results"
verdict $? "seconds that are slept add up, too"

# A worker to which the machine gives nothing, since everything else goes first: nothing is known of it, and that is all that is said. Its
# program is nobody else's, meanwhile.
bomb "$class/starved/judged later" 01 endless_loop
busy 8
graded starved WB_TIMEOUT=2 &
grader=$! seen=
while kill -0 $grader 2>/dev/null; do
    for process in $(pgrep -f '^/worker --'); do
        ours "$process" || continue
        chrt -a -i -p 0 "$process"
        echo 19 >"/proc/$process/autogroup"
        program=$(tr '\0' '\n' <"/proc/$(parent "$(parent "$process")")/cmdline" | grep -x '/tmp/workbook-grade.*/workers/.*' | head -n 1)
        [ -s "$program" ] || continue
        if setpriv --reuid 60002 --regid 60002 --clear-groups head -c 1 "$program" >/dev/null || [ "$(find "$program" -perm /077)" ]; then seen="$seen copied"; else seen="$seen kept"; fi
    done 2>/dev/null
    sleep 0.1
done
kill $hogs
report=$class/starved_grades/reports/judged\ later
grep -q 'not graded: could not be judged: problem 01: no answer in 60 s, in which it had [01]\.[0-9] s of the machine.* Alone, too: ask the instructor' "$class/starved_grades/grades.csv" &&
    grep -q '^Could not be judged: problem 01: no answer in 60 s' "$report/report.txt" && grep -q 'Could not be judged: problem 01: ' "$report/results.json" && ! [ -e "$report/record" ] && grep -q 'ask the instructor' "$class/said"
verdict $? "what the machine gave nothing to is not judged, and every output says so"
[ -n "$seen" ] && [ -z "$(echo "$seen" | grep copied)" ]
verdict $? "while it is graded nobody else reads its program"
graded starved WB_TIMEOUT=2
grep -q 'no answer in 2 s' "$report/report.txt" && [ -e "$report/record" ]
verdict $? "and is judged when there is time"

# ------------------------------------------------------------------------------------------------------------ with the check build

# Right results, and a race behind them; a check build that ends early, prints what is none of its business, uses memory where nobody
# counts it, or does nothing; and the last of a function that has given up other points for it.
in=$class/checked out=$class/checked_grades
mkdir "$in"
: >"$class/bombs"
race() { edited "$1" "$2" "tests/sanitize/$2.diff" "$3"; } # FOLDER NUMBER ENTRY
key "$in/adele" 01;                         key "$in/adele" 02
race "$in/boris" 01 counter_not_atomic;     race "$in/boris" 02 stored_by_many
beside "$in/cora" 01 hoards_in_the_check_build; beside "$in/cora" 02 quotes_a_file
key "$in/dirk" 05;                          beside "$in/dirk" 02 leaves_the_check_build
sed -i 's|fill(m, -FLT_MAX);.*|fill(m, -250.f);|; s|^    const wb_status status = wb_check.*|#ifdef __SANITIZE_THREAD__\nreturn WB_OK;\n#endif\n&|' "$in/dirk/problems/05/$(file_of 05)"
export SANITIZE=1 WB_TIMEOUT=15
grade_all && cmp -s "$out/grades.csv" tests/class/checked.csv
verdict $? "SANITIZE=1: the table is as expected"
diff tests/class/checked.csv "$out/grades.csv"
bombs_reported "$out/reports"
! grep -rq root: "$out/reports"
verdict $? "no report has a line of another file"
grep -q 'race in weighted_row_sum_kernel' "$out/reports/boris/02.report" && grep -q 'sanitize: race in take_tasks' "$out/reports/boris/01.report"
verdict $? "a race is reported, in both languages"
[ -z "$(left_running)" ]
verdict $? "nothing is left running"

for script in "tables.sh" "slurm.sh $class/grades/base"; do
    tests/class/$script # says itself what it skips
    verdict $? "tests/class/${script%% *}"
done
echo "$((proofs - failed)) passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
