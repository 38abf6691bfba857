#!/bin/sh
# test.sh BACKEND IMPL NN... - builds and tests problems, says of each where it stands (not started, compile error,
# failed, passed), and counts points by problems/NN/checkpoints.txt. Exit status: 0 if all that was started passes, 1 if
# something fails or does not compile, 2 if the machinery could not run, 3 if something could not be judged, since the
# machine was too busy.
#
# Everything is recorded in build/grade (build/BACKEND/IMPL/grade for another IMPL), in the files that score/grades.h
# names, and of all problems together scores.tsv, report.txt and results.json (Gradescope). These are written
# whatever happens, an interrupt too.
#
#   SANITIZE=1       a problem passes only if the check build (sanitize.sh) finds nothing either, and promises are won
#                    only then; 0: not asked, even after a failure
#   SEED=n           other inputs
#   COVERAGE=1       the worker counts what runs of its source, and lines that no case ran are told (coverage.sh)
#   REPAIR=n         after a failure the search for a change has n seconds of a processor (15); 0: there is none
#   WB_WATCH=yes     watch.sh's: an interrupt ends the run without a word, and leaves what the last whole one recorded
#   WB_CASES=FILE    private cases as well (suite.c); a checkpoint is won only if its own pass too
# For a grader that builds and runs elsewhere (grade.sh):
#   WB_GRADE=FOLDER    where to record            WB_SOURCES=FOLDER    where NN/name.cu lies, instead of IMPL
#   WB_BUILD=COMMAND   builds problem NN ($1), its output is shown if it fails; 3: the machine was too busy, its last
#                      line says so
#   WB_WORKERS=FOLDER  where NN_worker then lies
#   WB_LOOK=COMMAND    for SANITIZE=1: looks at problem NN ($1) with the check build, prints what it finds, and fails if
#                      that is anything; 3: as above
#   WB_GCOV=COMMAND    for coverage.sh
#   WB_UNTIL=TIME      in seconds since 1970: no problem is begun later; WB_DIAGNOSE_SECONDS: of naming a mistake, 60
set -u
. workbook/loop/source.sh
backend=$1 impl=$2
shift 2
out=build/$backend
sources=${WB_SOURCES:-$impl} workers=${WB_WORKERS:-$out/$impl}
if [ "$impl" = problems ]; then record=build/grade; else record=$out/$impl/grade; fi
record=${WB_GRADE:-$record}
[ -z "${WB_CASE:-}" ] || WB_TEST=
one=${WB_CASE:-}${WB_TEST:-}  # a single case or test is tried, and not recorded
[ -z "$one" ] || record=$out/$impl/one_case
cases=${WB_CASES:-}
[ -z "$one" ] || cases=
status=0 number='' problems=''
export WB_COUNTED=
if [ "${COVERAGE:-0}" != 0 ]; then
    tools=${GRADE_SCRATCH:+$GRADE_SCRATCH/kit/}build/tools.mk # a grader's are the kit's
    if [ "$backend" = cpu ] && grep -q '^GCOV := .' "$tools"; then WB_COUNTED=_counted; else
        echo "test: COVERAGE=1 needs BACKEND=cpu, gcc and its gcov; without them no coverage is measured" >&2
    fi
fi

for number; do
    case $number in [1-9]) number=0$number ;; esac
    if ! [ -d "problems/$number" ]; then
        echo "test: there is no problem $number, only$(echo '' problems/[0-9]* | sed 's| problems/| |g')" >&2
        exit 2
    fi
    problems="$problems $number"
done
# Of two runs at once each works with a worker and files of its own, and what it has to say of a problem replaces what
# is there at once.
mkdir -p "$record" && work=$(mktemp -d "$record/.run.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT

# Where there is flock(1): see alone.sh. What is begun is not interrupted.
alone() ( trap '' INT TERM HUP; exec 9>>"$record/lock"; flock 9 2>/dev/null; "$@" )
publish() {
    rm -f "$record/$number".*
    mv -f "$work/$number".* "$record/"
}
finish() { # the table, and the files that others read
    trap - INT TERM HUP
    if [ -n "$number" ]; then
        echo "interrupted" >"$work/$number.state"
        alone publish
    fi
    [ -z "$one" ] || exit $status
    alone "$out/score" points "$record" $problems || status=2
    if [ "$impl" = problems ] && [ -z "${WB_GRADE:-}" ]; then "$out/score" after "$record" $problems; fi
    exit $status
}
plain() { "$out/suite" --plain; } # text of a submission's may hold anything
worse() { [ "$status" -ge "$1" ] || status=$1; }

build() {
    tried=$worker
    if [ -n "${WB_BUILD:-}" ]; then
        $WB_BUILD "$number"
    else
        built "$out/tests/${number}_test" "$worker" &&
            tried=$work/${number}_worker && ln "$worker" "$tried"
    fi
}
# Makes these, as far as they are not made, and prints what make says. What is compiled for the first time takes a
# while: that is said, then a bar grows in a terminal, elsewhere comes a line every ten seconds.
built() { # PROGRAM...
    files=0
    for program; do
        [ -e "$program" ] || { files=$(make_these "$@" -n 2>&1 | grep -c '^  [A-Z]*	'); break; }
    done
    if [ "$files" -lt 4 ]; then make_these "$@"; return; fi
    { make_these "$@" 2>&1; echo "made: $?"; } | awk -v all="$files" -v bar="$([ -t 8 ] && echo yes)" '
        function show(text) { printf "%s", text | "cat >&8"; fflush("cat >&8") }
        function now(    time) { "date +%s" | getline time; close("date +%s"); return time }
        BEGIN { said = now(); show("  compiling the test machinery, once: " all " files" (bar ? "" : "\n")) }
        /^made: / { status = $2; next }
        { print }
        /^  [A-Z]*\t/ && ++n && bar {
            show(sprintf("\r  compiling the test machinery, once: [%-30s] %d of %d files",
                substr("##############################", 1, 30 * n / all), n, all))
        }
        !bar && now() - said >= 10 { said = now(); show("  compiled: " n - 1 " of " all " files\n") }
        END { if (bar) show("\n"); close("cat >&8"); exit status }'
}
make_these() { "$MAKE" --no-print-directory -j"$WB_JOBS" BACKEND="$backend" "$@"; }

# Builds one problem and runs its suite. Prints all that there is to say of it, and leaves its state in NN.state.
judge() {
    if [ -z "$file" ]; then
        state="not started"
        echo "  there is no $name.cu or $name.c in $sources/$number"
        return
    fi
    if [ "$impl" = problems ] && "$out/score" untouched "$file"; then
        state="not started"
        echo "  not started: open $file, and read problems/$number/README.md"
        return
    fi
    [ "$impl" != problems ] || [ -n "${WB_GRADE:-}" ] || sha256sum <"$file" >"$work/$number.sum"
    if [ "$(tr -dc '\000' <"$file" | head -c 1 | wc -c)" -ne 0 ]; then
        state="compile error"
        echo "  $file is not UTF-8 but UTF-16, as some editors of Windows write it: save it as UTF-8" |
            tee "$work/$number.compiler"
        return
    fi
    [ -z "${WB_WATCH:-}" ] || echo "  compiling $file"
    build >"$work/$number.log" 2>&1
    built=$?
    if [ $built -eq 3 ] && [ -n "${WB_BUILD:-}" ]; then
        too_busy "compiling it: $(tail -n 1 "$work/$number.log")"
        return
    elif [ $built -ne 0 ]; then
        state="compile error"
        LC_ALL=C awk -f workbook/loop/errors.awk "$work/$number.log" | plain | tee "$work/$number.compiler"
        echo "  $file does not compile"
        return
    fi
    [ ! -s "$work/$number.log" ] ||
        awk '/warning:/ && !said[$0]++' "$work/$number.log" | plain | tee "$work/$number.compiler"
    unwritten=
    [ "$impl" != problems ] || unwritten=$("$out/score" gaps "$number")
    [ -z "$unwritten" ] || echo "$unwritten"
    if [ -n "${WB_TEST:-}" ] && ! "$out/suite" --list "$out/tests/${number}_test" | grep -qxF -e "$WB_TEST"; then
        state="could not run" status=2
        echo "  TEST: $number has no test $WB_TEST, only" $("$out/suite" --list "$out/tests/${number}_test")
        return
    fi
    rm -rf "$work/counted"
    [ -z "$WB_COUNTED" ] || { mkdir "$work/counted" && cp "${worker%_worker}.gcno" "$work/counted/c.gcno"; }
    env ${WB_COUNTED:+"WB_COVERAGE=$work/counted"} WB_WORKER_SHOWN="$worker" WB_RESULTS="$work/$number.results" \
        "$out/suite" ${cases:+--cases "$cases"} "$out/tests/${number}_test" "$tried" "$backend" \
        ${WB_TEST:+--filter "*/$WB_TEST"}
    case $? in
    0) state="passed"; praise ;;
    1) state="failed"; explain ;;
    3) too_busy; return ;;
    *) state="could not run"; return ;;
    esac
    tell_coverage
    [ "${SANITIZE:-0}" = 0 ] || look_closer
}

# What a pass does not say, until make sanitize-NN has found nothing in the same source (sanitize.sh).
praise() {
    [ "$impl" = problems ] && [ -z "${WB_GRADE:-}$one" ] && [ "${SANITIZE:-0}" = 0 ] || return 0
    cmp -s "$work/$number.sum" "$record/clean.$number" ||
        echo "  the results are correct; races were not checked (make sanitize-$number checks every access)"
}

# What ran in no case: no points hang on it. It is told when all tests pass, and of a submission in any case.
tell_coverage() {
    [ -n "$WB_COUNTED" ] && [ -z "$one" ] && [ "$state${WB_GRADE:-}" != failed ] || return 0
    : >"$work/shipped"
    [ "$impl" != problems ] || workbook/loop/shipped.sh "$number" "$work/shipped" 2>/dev/null
    workbook/loop/coverage.sh "$work/counted" "$file" "$name" "$work/shipped" | sed 's/^/  /' | tee "$work/$number.coverage"
}

too_busy() { # [WHY], which a suite says itself
    state="could not be judged"
    [ -z "${1:-}" ] || echo "  harness: could not be judged: $1"
    echo "  this costs no points: try again when the machine is less busy"
}

# A wrong result often has a cause that can be named. The check build looks at every access of the first failing case,
# while diagnose looks at what the function does, step by step. One of them is told: what a race or a stray access
# leaves is no matter of steps, unless it is a wrong address that they explain. Then a change is looked for that fixes
# it.
explain() {
    given=$("$out/suite" --show "$work/$number.results" case)
    failure=$("$out/suite" --show "$work/$number.results" message)
    case ${WB_GRADE:-}$failure in
    *'cudacpu: timeout in kernel '*) return ;; # it says where, and another look would take as long
    *'no answer in '*) echo "  now a search for the cause, in smaller cases and in the check build: a minute or two" ;;
    esac
    [ -n "${WB_GRADE:-}" ] || built "$out/diagnose" "$out/repair" >/dev/null 2>&1
    find_looker # first: with it, what the search compiles without a lock is there
    checking=
    if [ -n "$given" ] && [ "${SANITIZE:-}" != 0 ] && [ -z "${WB_GRADE:-}" ]; then
        WB_CASE= workbook/sanitize/sanitize.sh "$backend" "$impl" --after "$number" "$given" \
            >"$work/$number.sanitize" 2>&1 8>/dev/null &
        checking=$!
    fi
    begin_repair "$given"
    diagnose "$given" >"$work/$number.mistake"
    steps= gaps=
    [ ! -s "$work/$number.step" ] || IFS='	' read -r steps gaps <"$work/$number.step"
    looked=0 kind='' shown=''
    if [ -n "$checking" ]; then
        wait "$checking"
        looked=$?
        # The kind of a report; the failure may have shown it.
        kind=$(sed -n '1s/^ *sanitize: \(.*\) in .*/\1/p' "$work/$number.sanitize")
        # A gap that is not written gives no value: that is said already.
        if [ -n "$unwritten" ] && [ "$kind" = 'an uninitialised variable' ]; then kind='' && : >"$work/$number.sanitize"; fi
    fi
    case $failure in *'cudacpu: '*) [ -z "$kind" ] || shown=yes ;; esac
    case $failure in
    *'cudacpu: illegal address'* | *'cudacpu: launch '*) shown= ;;
    *"cudacpu: $kind in kernel "*) shown=same ;;
    esac
    case $shown$kind in
    same*)
        echo "  the check build reports the same for $given: $kind"
        sed -n '/^ *read /p' "$work/$number.sanitize" | plain
        ;;
    'yesout of bounds' | 'out of bounds')
        if [ -n "$shown" ] || [ "$steps" = address ]; then
            cat "$work/$number.mistake"
            echo "  the check build sees the consequence: $kind, line$(places <"$work/$number.sanitize")"
        else
            report
        fi
        ;;
    *timeout) case $failure in *'no answer in '*) report ;; *) cat "$work/$number.mistake"; looked=3 ;; esac ;;
    *) if [ -s "$work/$number.sanitize" ]; then report; else cat "$work/$number.mistake"; fi ;;
    esac
    if [ -n "$checking" ] && [ $looked -eq 0 ]; then
        echo "  the check build finds nothing in $given"
    elif [ $looked -eq 3 ]; then
        echo "  the check build was stopped: no answer for $given after 10 s" \
            "(make sanitize-$number waits longer)"
    fi
    repair
}
report() {
    rm -f "$work/$number.mistake" # steps that saw what a race left
    gaps=
    echo "  the check build reports for $given:"
    plain <"$work/$number.sanitize"
}
# Lines of the source that a report names: " 19 82".
places() { sed -n "s|.*[/ ]$(basename "$file"):\([0-9]*\).*|\1|p" | sort -un | sed 's/^/ /' | tr -d '\n'; }
# A worker of the layer is asked, which a GPU machine builds for it, as the check build. Of a submission: within limits,
# whatever its case costs.
find_looker() {
    looker=$tried
    [ "$backend" != cpu ] || return
    looker=build/cpu/$impl/${number}_worker
    [ -z "${WB_GRADE:-}" ] || return
    [ -x "$looker" ] || echo "  now building for the CPU layer, which finds errors that a GPU hides" >&8
    $MAKE --no-print-directory -j"$WB_JOBS" BACKEND=cpu "$looker" >/dev/null 2>&1
}
diagnose() {
    [ -x "$out/diagnose" ] && [ -x "$looker" ] || return
    {
        if [ -n "${WB_GRADE:-}" ]; then ulimit -t "${WB_DIAGNOSE_SECONDS:-60}" && ulimit -v 4194304; fi
        WB_WORKER=$looker WB_BACKEND=cpu WB_SPENT=$work/$number.spent WB_TIMEOUT=5 OMP_WAIT_POLICY=passive \
            "$out/diagnose" --record "$work/$number.step" --source "$file" "$number" ${1:+"$1"} 2>/dev/null
    } | plain | sed 's/^/  /'
}

# One change, or two, that makes what is wrong right: looked for when nothing is left to be written, since what is found
# has been tried. It compiles beside the check build, with which it shares nothing, and learns later what has been said.
begin_repair() { # CASE
    searching=
    [ "$impl" = problems ] && [ -z "${WB_GRADE:-}$unwritten" ] && [ -n "${1:-}" ] || return 0
    [ "${REPAIR:-15}" != 0 ] && [ -x "$out/repair" ] || return 0
    made=build/cpu/repaired said=$work/said
    mkdir -p $made && rm -f "$said" && mkfifo "$said" && exec 7<>"$said" || return 0
    (
        exec 9>>$made/$number.lock
        flock -n 9 2>/dev/null || { echo "not searched: another run is searching in $number"; exit; }
        WB_WORKER=$made/${number}_worker WB_BACKEND=cpu OMP_WAIT_POLICY=passive nice "$out/repair" \
            --seconds "${REPAIR:-15}" --said "$said" "$file" $made/$number.cu \
            "WB_BUILDING=yes $MAKE --no-print-directory BACKEND=cpu $made/${number}_worker 2>&1" "$number" "$1"
    ) >"$work/$number.tried" 8>/dev/null &
    searching=$!
}
repair() {
    [ -n "$searching" ] || return 0
    echo "  now searching for an edit that fixes it, ${REPAIR:-15} CPU seconds and compiling (REPAIR=0: no search)" >&8
    printf '%s\n%s\n' "$gaps" "$(printf '%s\n' "$failure" "$(cat "$work/$number.sanitize" 2>/dev/null)" | places)" >&7
    wait "$searching"
    plain <"$work/$number.tried" | sed 's/^/  tried: /' | tee -a "$work/$number.mistake"
    rm -f "$work/$number.tried"
}

# Also of what has failed: who gives up a point or two must not save the promises by it.
look_closer() {
    if [ -s "$work/$number.sanitize" ]; then # explain has found something
        "$out/suite" --fail "$work/$number.results" "check build" promises
        return
    fi
    ${WB_LOOK:-workbook/sanitize/sanitize.sh "$backend" "$impl"} "$number" >"$work/$number.look" 2>&1
    looked=$?
    if [ $looked -eq 0 ]; then
        echo "  the check build finds nothing"
    elif [ $looked -eq 3 ]; then
        too_busy "the check build: $(tail -n 1 "$work/$number.look")"
        return
    else
        [ "$state" = failed ] || echo "  the results are correct, but"
        echo "  the check build found errors:"
        state="failed"
        "$out/suite" --fail "$work/$number.results" "check build" promises
    fi
    grep -av '^$\|^==' "$work/$number.look" | plain | tee "$work/$number.sanitize"
    rm -f "$work/$number.look"
}

# Where a run is watched its end comes with the next save, to all of it at once: the shell waits in a way in which it
# does not report that.
judged() {
    { judge; echo "$state" >"$work/$number.state"; } | tee "$work/$number.report"
}

# A student's file that passes is kept, for who spoils it later and wants its points back.
keep() {
    [ "$impl" = problems ] && [ -z "${WB_GRADE:-}$one" ] && [ -n "$file" ] || return 0
    kept=$record/passed/$next.${file##*.}
    if [ "$state" = passed ]; then
        mkdir -p "$record/passed" && sha256sum <"$file" | cmp -s - "$record/$next.sum" && cp "$file" "$kept"
    elif [ -f "$kept" ] && ! cmp -s "$file" "$kept"; then
        echo "  an earlier version of your file passed; cp $kept $file restores it and its points"
    fi
}

exec 8>&2 # a build that waits says so there
trap 'status=2; finish' INT TERM HUP
[ -z "${WB_WATCH:-}" ] || trap 'exec 2>/dev/null; wait; exit 2' INT TERM HUP

if [ "$backend" = cpu ]; then where="the CPU execution layer (no GPU needed)"; else where="the GPU"; fi
if [ "$impl" = problems ]; then whose="your code, problems/"; else whose="$impl/"; fi
echo "FlashAttention workbook: $whose on $where"
machine=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
gpu=$([ "$backend" = cpu ] || nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
run=$(printf '%s\t%s\n' date "$(date -u '+%Y-%m-%d %H:%M UTC')" backend "$backend" seed "${WB_SEED:-1}" \
    machine "$(getconf _NPROCESSORS_ONLN) x ${machine:-$(uname -m)}${gpu:+, $gpu}")

late=
for next in $problems; do
    if [ -n "${WB_UNTIL:-}" ] && [ "$(date +%s)" -ge "$WB_UNTIL" ]; then
        late="$late $next"
        continue
    fi
    number=$next
    find_source "$sources" "$number"
    echo
    echo "== $number $name"
    worker=$workers/$number${WB_COUNTED}_worker
    echo "$run" >"$work/$number.run"
    if [ -z "${WB_WATCH:-}" ]; then judged; else judged & wait $! 2>/dev/null; fi
    read -r state <"$work/$number.state"
    alone publish
    number=
    keep
    case $state in
    "compile error" | failed) worse 1 ;;
    "could not run") worse 2 ;;
    "could not be judged")
        worse 3
        [ -z "${WB_GRADE:-}" ] ||
            sed -n "s/^  harness: could not be judged: /Could not be judged: problem $next: /p" "$record/$next.report" |
            tail -n 1 >>"$record/00.note"
        ;;
    esac
done
[ -z "$late" ] || echo "Not run, since the time for this submission was used up:$late" >>"$record/00.note"
finish
