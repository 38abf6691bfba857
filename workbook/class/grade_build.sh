#!/bin/sh
# grade_build.sh - what wb test has done in the sandbox for grade.sh, in a submission's tree:
#   NN         compiles problem NN (NN_counted: so that it counts), and leaves in build/cpu/problems/NN_worker a script
#              that starts the worker in the sandbox
#   look NN    where SANITIZE=1: compiles its check build (workbook/sanitize), and has the judge give it the small cases
#              of make sanitize-NN. It is a worker like any other: nothing was found if it ends well and its results are
#              right
#   gcov       coverage.sh gcov, of a tar on standard input with what workers counted
# Exit status: 0; 1 after what the compiler said, or what was found; 3 if the machine was too busy, and the last line
# says so.
set -u
. workbook/class/sandbox.sh
look=
case $1 in
look) look=yes; shift ;;
gcov)
    sandbox_room
    # shellcheck disable=SC2034 # eval reads them
    gcov=$(sed -n 's/^GCOV := //p' "$GRADE_SCRATCH/kit/build/tools.mk")
    of='cd "$1" && tar -xof - && sh coverage.sh gcov . "$2"'
    eval "$(sandbox_words 1024 16 64 60 64 tools --) /bin/sh -c \"\$of\" sh \"\$room\" \"\$gcov\"" | head -c 100000000
    exit ;;
esac
number=${1%_counted} name=$(basename "$(ls "problems/${1%_counted}"/*.c*)") tree=$PWD
cd "$GRADE_SCRATCH" || exit 1

# In: the source on standard input. Out: the worker on standard output, which is a file of limited size, and on
# descriptor 3 gcc's notes for gcov, where it counts. The folder it is made in is nobody else's, and the kit has
# neither test nor oracle nor key.
to_compile='
    kit=$1 room=$2 source=$3 worker=$4
    shift 4
    cp -Rp "$kit" "$room/w" && cd "$room/w" && cat >"problems/$source" || exit 1
    make --no-print-directory -s BACKEND=cpu IMPL=problems "$@" "$worker" >&2 && cat "$worker" || exit 1
    notes=${worker%_worker}.gcno
    [ ! -f "$notes" ] || cat "$notes" >&3'
build() { # PROGRAM [CONFINE'S WORDS...]: a program of the kit's Makefile, below build/cpu
    program=$1 worker=$GRADE_SCRATCH/workers/$(echo "$1" | tr / _) seconds=$((2 * WB_TIMEOUT))
    shift
    awk -v most="$sandbox_seconds" '{ spent += $1 } END { exit spent > most }' "$WB_SPENT" ||
        { echo "the time for this submission is used up"; exit 1; }
    sandbox_room
    if [ "$sandbox" = bwrap ]; then kit=/kit shown=/worker; else kit=$GRADE_SCRATCH/kit shown=$worker; fi
    words=$(sandbox_words 2048 64 64 $((2 * seconds)) 256 tools -- --ro-bind "$GRADE_SCRATCH/kit" /kit)
    # shellcheck disable=SC2046
    command="/bin/sh -c \"\$to_compile\" sh \"\$kit\" \"\$room\" \$number/\$name build/cpu/\$program"
    eval "\"\$GRADE_SCRATCH/wb\" within $seconds $words $command $(cat kit/variables)" \
        <"$tree/problems/$number/$name" >"$worker" 2>said 3>"$worker.notes"
    status=$?
    head -c 65536 said
    case $status in
    75) tail -n 1 said; exit 3 ;;
    124 | 137) echo "the compiler was stopped: it took more than $seconds CPU seconds"; exit 1 ;;
    esac
    [ $status -eq 0 ] && [ -s "$worker" ] || exit 1
    # It is the sandbox's user's alone, who cannot change it either.
    chmod 500 "$worker" && { [ "$sandbox_uid" = 0 ] || chown "$sandbox_uid:$sandbox_uid" "$worker"; } || exit 1

    mkdir -p "$tree/build/cpu/${program%/*}"
    words=$(sandbox_words "$WB_MEMORY_MB" $((64 + 2 * $(nproc))) 64 $((600 + 2 * WB_PROBLEM_SECONDS)) 0 worker \
        "$@" CUDACPU_TIMEOUT=0 CUDACPU_THREADS=2 -- --ro-bind "$worker" /worker)
    cat >"$tree/build/cpu/$program" <<END
#!/bin/sh
# Each test starts one or more, and talks to it over descriptor 3, a socket. Of a test's environment it gets how many
# threads are asked for, within what most_threads() of worker.c says; else two, as it has processors (judge/session.c).
echo 1000 >/proc/self/oom_score_adj
cd / || exit 1
threads=\${OPENBLAS_NUM_THREADS:-2} most=$((1 + WB_MEMORY_MB / 512))
[ "\$threads" -le \$most ] || threads=\$most
exec $words OPENBLAS_NUM_THREADS=\$threads $(quoted "$shown") "\$@"
END
    chmod 755 "$tree/build/cpu/$program"
    [ ! -s "$worker.notes" ] || mv -f "$worker.notes" "$tree/build/cpu/${program%_worker}.gcno"
}

if [ -z "$look" ]; then
    build "problems/$1_worker"
    exit
fi
if [ "$sandbox" = bwrap ]; then built_in=/tmp/w; else built_in=$GRADE_SCRATCH/room/w; fi
for program in "check/problems/${number}_worker" "check/problems/${number}_threads_worker"; do
    case $program,$name in *_threads_worker,*.cu) continue ;; esac
    # Shadows of memory have to lie where they have to lie: addresses are not limited there, what is used of them is.
    (build "$program" resident=1) >look.built 2>&1
    case $? in
    0) ;;
    3) tail -n 1 look.built; exit 3 ;;
    *) echo "  the check build does not compile"; head -n 40 look.built; exit 1 ;;
    esac
    (cd "$tree" && CASE=small WB_TIMEOUT=$((3 * WB_TIMEOUT)) build/cpu/wb suite \
        --record "$GRADE_SCRATCH/look.results" \
        "build/cpu/tests/${number}_test" "build/cpu/$program" cpu) >look.said 2>&1
    case $? in
    0) continue ;;
    3) sed -n 's/^  harness: could not be judged: //p' look.said | tail -n 1; exit 3 ;;
    esac
    case=$("$tree/build/cpu/wb" show look.results case)
    echo "  case $case"
    # What AddressSanitizer and its kin have to say, in our words.
    "$tree/build/cpu/wb" show look.results message | sed 's/^              //' | tee look.said |
        awk -v pwd="$built_in" -f "$tree/workbook/sanitize/report.awk" >look.report
    [ -s look.report ] || mv look.said look.report
    sed 's/^/  /' look.report
    echo "     again    make sanitize-$number CASE=$case"
    exit 1
done
