#!/bin/sh
# suite.sh - what judge/record.c tells and wb/suite.c prints and records of a program whose tests end in every way.
set -u
out=build/${BACKEND:-cpu}
. tests/prove/frame.sh
wb=$out/wb program=$scratch/03_test record=$scratch/record
unset CASE TEST SEED VERBOSE
mkdir "$scratch/tmp"
export JOBS=1 SUITE_SCREEN="$said" TMPDIR="$scratch/tmp"
status=0
objects="$out/machinery/judge/record.o $out/machinery/score/outcome.o $out/machinery/score/safe_text.o"
# shellcheck disable=SC2086
made "$wb" $objects
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -D_GNU_SOURCE ${CFLAGS:-} -Iworkbook -I. tests/suite/program.c $objects \
    -lcriterion -lcjson -o "$program" || exit 1

show() { echo "      exit status $status, said and recorded:"; sed 's/^/      /' "$said" "$record"; }
run() { "$wb" suite --record "$record" "$@" "$program" none cpu >"$said" 2>&1; status=$?; }
shown() { "$wb" show "$record" "$1" | tr '\n' ' '; }

run
check "some fail: exit status 1" [ $status -eq 1 ]
check "the first failure is on the screen while later tests run" [ "$(shown ok)" = "passes early cannot_judge kills " ]
check "what fails" [ "$(shown FAIL)" = "fails crashes exits again " ]
check "a test without a verdict" [ "$(shown SKIP)" = "has_no_verdict " ]
check "tests run in the order of the source" \
    [ "$(sed -n 's/.*"test":	"\([a-z_]*\)".*/\1/p' "$record" | tr '\n' ' ')" = "$(shown tests)" ]
check "the case comes from the harness, whatever the message says" [ "$(shown case)" = "B=1,D=16 " ]
check "a message keeps its lines" [ "$("$wb" show "$record" message | grep -c .)" -eq 2 ]
check "a test that crashed says so" grep -q '"the test itself died of signal 11' "$record"
check "a test that left says so" grep -q '"the test exited with 3' "$record"
check "both failures of one test, and where they are" grep \
    -q 'program.c:[0-9]*: one\\n.*program.c:[0-9]*: two"' "$record"
check "the last line counts" [ "$(tail -n 1 "$said")" = "4 passed, 4 failed, 1 skipped" ]
check "two failures in full: the first and one more" [ "$(grep -c 'again  make\|the test itself died' "$said")" \
    -eq 3 ]

run --first
check "--first ends with the first failure" [ "$(shown tests)" = "passes fails " ]
run
"$wb" suite --record "$record" "$program" none cpu --filter 'ends/passes' >"$said" 2>&1
check "one that passes" [ $? -eq 0 ]
"$wb" suite --record "$record" "$program" none cpu --filter 'ends/nothing' >"$said" 2>&1
check "nothing ran: exit status 2" [ $? -eq 2 ]

printf '%s\n' '03 one_tile good' '03 many_tiles secret' '04 one_tile secret' '03 broken' >"$scratch/cases"
"$wb" suite --record "$record" --cases "$scratch/cases" \
    "$program" none cpu --filter 'ends/@(passes|given_case)' >"$said" 2>&1
check "a private case fails: exit status 1" [ $? -eq 1 ]
check "private cases join the record" [ "$(shown ok)$(shown FAIL)$(grep -c 'checkpoint.*_tile' "$record")" = \
    "passes private case 1 private case 2 2" ]
check "and are counted" grep -qx '  private cases: 1 of 2 correct' "$said"
check "but not told" eval '! grep -q secret "$said" "$record"'
CASE=bad run
check "one case alone" [ "$(shown tests)" = "given_case " ]

SUITE_HOW="give no answer" run
check "tests not run are counted separately" [ "$(tail -n 1 "$said")" = "4 passed, 3 failed, 1 skipped, 1 not run" ]
check "and listed, with the reason" grep -qx -A 1 '  not run: 3 cases gave no answer:' "$said"
check "but it has not passed" [ "$(shown FAIL)" = "fails crashes exits again " ]

SUITE_HOW="give up" run
check "the harness cannot judge: exit status 2" [ $status -eq 2 ]
check "with its own message" grep -qx '  harness: no room' "$said"
check "and the record says so" grep -q '"could not run"' "$record"
SUITE_HOW="get nothing" run
check "the machine was too busy: exit status 3" [ $status -eq 3 ]
check "and the record says so" grep -q '"could not be judged"' "$record"
SUITE_HOW=kill run
check "the program is killed: exit status 2" [ $status -eq 2 ]
check "and it says so" grep -q 'died of signal 9' "$said"
check "the names of all tests" [ "$("$wb" list "$program" | tr '\n' ' ')" = \
    "passes fails early crashes exits again has_no_verdict cannot_judge kills " ]

rm -f "$record"
SUITE_NUMBER=$scratch/number SUITE_HOW=wait "$wb" suite --record "$record" "$program" none cpu >"$said" 2>&1 &
until [ -s "$scratch/number" ] || ! kill -0 "$!"; do sleep 0.1; done
kill "$!"
wait "$!"
check "SIGTERM ends it" [ $? -eq 2 ]
check "nothing is left behind" [ -z "$(ls "$TMPDIR")" ]
exit $failed
