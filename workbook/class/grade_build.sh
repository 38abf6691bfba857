#!/bin/sh
# grade_build.sh NN [check] - run by test.sh and grade_look.sh for grade.sh, in a submission's tree: compiles problem
# NN in the sandbox, and leaves in build/cpu/problems/NN_worker a script that starts the worker in the sandbox.
# `check`: its check builds (workbook/sanitize), in build/cpu/check/problems, with a line on standard output for each.
# Exit status: 0; 1 after what the compiler said, when there is no worker; 3 if the machine was too busy to compile
# it, and the last line says so.
set -u
number=$1 check=${2:-}
name=$(basename "$(ls "problems/$number"/*.c*)")
tree=$PWD
. workbook/sanitize/settings.sh
cd "$GRADE_SCRATCH" || exit 1
. "$tree/workbook/class/sandbox.sh"

# In: the source on standard input. Out: the worker on standard output, which is a file of limited size, and on
# descriptor 3 gcc's notes for gcov, where it counts. The folder it is made in is nobody else's, and the kit has
# neither test nor oracle nor key.
in_the_sandbox='
    kit=$1 room=$2 source=$3 worker=$4
    shift 4
    cp -Rp "$kit" "$room/w" && cd "$room/w" && cat >"problems/$source" || exit 1
    make --no-print-directory -s BACKEND=cpu IMPL=problems "$@" "$worker" >&2 && cat "$worker" || exit 1
    notes=${worker%_worker}.gcno
    [ ! -f "$notes" ] || cat "$notes" >&3'
time_left() {
    awk -v most="$GRADE_TOTAL_SECONDS" '{ spent += $1 } END { exit spent > most }' "$WB_SPENT" && return
    echo "the time for this submission is used up"
    exit 1
}

build() { # PROGRAM [CONFINE'S WORDS...]: a program of the kit's Makefile, below build/cpu
    program=$1
    shift
    time_left
    sandbox_room
    if [ "$sandbox" = bwrap ]; then kit=/kit; else kit=$GRADE_SCRATCH/kit; fi
    worker=$GRADE_SCRATCH/workers/$(echo "$program" | tr / _)
    words=$(sandbox_words 2048 64 64 $((2 * GRADE_COMPILE_SECONDS)) 256 tools -- --ro-bind "$GRADE_SCRATCH/kit" /kit)
    # shellcheck disable=SC2046
    command="/bin/sh -c \"\$in_the_sandbox\" sh \"\$kit\" \"\$room\" \$number/\$name build/cpu/\$program"
    eval "\"\$GRADE_SCRATCH/within\" $GRADE_COMPILE_SECONDS $words $command $(cat kit/variables)" \
        <"$tree/problems/$number/$name" >"$worker" 2>said 3>"$worker.notes"
    status=$?
    head -c 65536 said
    case $status in
    75) tail -n 1 said; exit 3 ;;
    124 | 137) echo "the compiler was stopped: it took more than $GRADE_COMPILE_SECONDS CPU seconds"; exit 1 ;;
    esac
    [ $status -eq 0 ] && [ -s "$worker" ] || exit 1
    # It is the sandbox's user's alone, who cannot change it either.
    chmod 500 "$worker" && { [ "$sandbox_uid" = 0 ] || chown "$sandbox_uid:$sandbox_uid" "$worker"; } || exit 1

    shown=$worker
    [ "$sandbox" != bwrap ] || shown=/worker
    mkdir -p "$tree/build/cpu/${program%/*}"
    words=$(sandbox_words "$GRADE_MEMORY_MB" "$GRADE_PROCESSES" 64 $((600 + 2 * WB_PROBLEM_SECONDS)) 0 worker \
        "$@" CUDACPU_TIMEOUT=0 CUDACPU_THREADS=2 -- --ro-bind "$worker" /worker)
    cat >"$tree/build/cpu/$program" <<END
#!/bin/sh
# Each test starts one or more, and talks to it over descriptor 3, a socket. Of a test's environment it gets how many
# threads are asked for, within what most_threads() of worker.c says; else two, as it has processors (judge/session.c).
echo 1000 >/proc/self/oom_score_adj
cd / || exit 1
threads=\${OPENBLAS_NUM_THREADS:-2} most=$((1 + GRADE_MEMORY_MB / 512))
[ "\$threads" -le \$most ] || threads=\$most
exec $words OPENBLAS_NUM_THREADS=\$threads $(quoted "$shown") "\$@"
END
    chmod 755 "$tree/build/cpu/$program"
    [ -z "$check" ] || echo "build/cpu/$program"
    [ ! -s "$worker.notes" ] || mv -f "$worker.notes" "$tree/build/cpu/${program%_worker}.gcno"
}

if [ -z "$check" ]; then
    build "problems/$number${WB_COUNTED}_worker"
else
    # Shadows of memory have to lie where they have to lie: addresses are not limited there, what is used of them is.
    for worker in "${number}_worker" "${number}_threads_worker"; do
        # shellcheck disable=SC2086
        case $worker,$name in
        *_threads_worker,*.cu) ;;
        *) build "check/problems/$worker" resident=1 $sanitizer_settings ;;
        esac
    done
fi
