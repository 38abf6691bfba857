#!/bin/sh
# grade_build.sh NN - run by test.sh for grade.sh, in a submission's tree: compiles problem NN in the sandbox, and leaves in
# build/cpu/problems/NN_worker a script that starts the worker in the sandbox.
# Exit status: 0, or 1 after what the compiler said, when there is no worker.
set -u
number=$1
name=$(basename "$(ls "problems/$number"/*.c*)")
tree=$PWD
cd "$GRADE_SCRATCH" || exit 1
. "$tree/workbook/class/sandbox.sh"
left=$((GRADE_DEADLINE - $(date +%s)))
[ $left -gt 0 ] || { echo "the time for this submission is used up"; exit 1; }

# In: the source on standard input. Out: the worker on standard output, which is a file of limited size. The folder it is made in is
# nobody else's, and the kit has neither test nor oracle nor key.
in_the_sandbox='
    kit=$1 room=$2 number=$3 name=$4
    shift 4
    cp -Rp "$kit" "$room/w" && cd "$room/w" && cat >"problems/$number/$name" || exit 1
    worker=build/cpu/problems/${number}_worker
    make --no-print-directory -s BACKEND=cpu IMPL=problems "$@" "$worker" >&2 && cat "$worker"'
if [ "$sandbox" = bwrap ]; then
    kit=/kit room=/tmp
else
    kit=$GRADE_SCRATCH/kit room=$GRADE_SCRATCH/room
    rm -rf "$room"
    mkdir -m 700 "$room"
    [ "$sandbox_uid" = 0 ] || chown "$sandbox_uid:$sandbox_uid" "$room"
fi
words=$(sandbox_words 2048 64 64 "$GRADE_COMPILE_SECONDS" 256 tools -- --ro-bind "$GRADE_SCRATCH/kit" /kit)
# shellcheck disable=SC2046
eval "timeout -k 2 $GRADE_COMPILE_SECONDS $words /bin/sh -c \"\$in_the_sandbox\" sh \"\$kit\" \"\$room\" \$number \$name $(cat kit/variables)" \
    <"$tree/problems/$number/$name" >"workers/$number" 2>said
status=$?
head -c 65536 said
if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    echo "the compiler was stopped: it took more than $GRADE_COMPILE_SECONDS s"
    exit 1
fi
[ $status -eq 0 ] && [ -s "workers/$number" ] || exit 1
chmod 755 "workers/$number"

[ $left -lt "$GRADE_PROBLEM_SECONDS" ] || left=$GRADE_PROBLEM_SECONDS
worker=$GRADE_SCRATCH/workers/$number
shown=$worker
[ "$sandbox" != bwrap ] || shown=/worker
cat >"$tree/build/cpu/problems/${number}_worker" <<END
#!/bin/sh
# Each test starts one or more, and talks to it over descriptor 3, a socket. A worker serves no longer than WB_TIMEOUT seconds before another
# one is started, so the time is looked at.
echo 1000 >/proc/self/oom_score_adj
cd / || exit 1
exec $(sandbox_words "$GRADE_MEMORY_MB" "$GRADE_PROCESSES" 64 600 16 worker "until=$(($(date +%s) + left))" -- --ro-bind "$worker" /worker) $(quoted "$shown") "\$@"
END
chmod 755 "$tree/build/cpu/problems/${number}_worker"
