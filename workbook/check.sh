#!/bin/sh
# check.sh BACKEND NN... - proves the workbook itself. Every line of the report is one proof; the last line counts them.
#   own tests     the machinery's own suites
#   key           the answer key passes its suite, and so does every variant of it
#   skeleton      compiles without a warning, agrees with the key outside the gaps, is recorded as shipped, earns nothing
#   points        the keys win all of them, the skeletons none
#   wrong         each wrong solution is rejected by the suite
set -u
backend=$1
shift
out=build/$backend
mkdir -p "$out/check"
passed=0 failed=0
begun=$(date +%s)

verdict() { # STATUS WHAT LOG
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        printf '[%4d s] ok    %s\n' $(($(date +%s) - begun)) "$2"
    else
        failed=$((failed + 1))
        printf '[%4d s] FAIL  %s\n' $(($(date +%s) - begun)) "$2"
        sed 's/^/          /' "$3" | tail -n 60
    fi
}
keys=$out/check/keys skeletons=$out/check/skeletons
rm -rf "$keys" "$skeletons"
mkdir -p "$keys" "$skeletons"
score() { # FOLDER LINE WHAT NN...: what points.c makes of the results there
    folder=$1 line=$2 what=$3
    shift 3
    "$out/points" "$folder" "$@" >"$folder/table" 2>&1 && grep -qxF "$line" "$folder/table"
    verdict $? "$what: $line" "$folder/table"
}
build() { $MAKE --no-print-directory -j"$WB_JOBS" BACKEND="$backend" WERROR=1 "$@"; }

echo "make check: $backend backend. Every key passes, every skeleton earns nothing, every wrong solution is caught."

log=$out/check/build.log
build everything >"$log" 2>&1
verdict $? "everything compiles without a warning" "$log"

for script in tests/*.sh; do
    log=$out/check/$(basename "$script").log
    sh "$script" >"$log" 2>&1
    verdict $? "$script" "$log"
done
for program in "$out"/tests/[!0-9]*_test; do
    log=$program.log
    workbook/suite.sh "$program" none "$backend" >"$log" 2>&1
    verdict $? "tests/$(basename "$program" _test).c: $(tail -n 1 "$log")" "$log"
done

for number; do
    log=$out/check/$number.log
    WB_RESULTS=$keys/$number.results workbook/suite.sh "$out/tests/${number}_test" "$out/solutions/${number}_worker" "$backend" >"$log" 2>&1
    verdict $? "key $number: $(grep passed, "$log")" "$log"
    echo passed >"$keys/$number.state"
done
score "$keys" "Score: 750/750 (+ bonus 400/400)" "the keys win every point" "$@"

for variant in solutions/[0-9][0-9]/variants/*.cu; do
    [ -f "$variant" ] || continue
    number=$(echo "$variant" | cut -d/ -f2)
    folder=$out/variants/$number/variants/$(basename "$variant" .cu)
    log=$folder/suite.log
    workbook/suite.sh "$out/tests/${number}_test" "$folder/${number}_worker" "$backend" >"$log" 2>&1
    status=$?
    # A line "// exempt: memory same_twice" names tests that this variant fails by design, and says so in its text.
    exempt=$(sed -n 's|^// exempt: ||p' "$variant")
    if [ $status -eq 1 ] && [ -n "$exempt" ]; then
        status=0
        for test in $(sed -n 's/^  FAIL  //p' "$log"); do
            case " $exempt " in *" $test "*) ;; *) status=1 ;; esac
        done
    fi
    verdict $status "variant ${variant#solutions/}: $(grep passed, "$log")${exempt:+, exempt from $exempt}" "$log"
done

for number; do
    skeleton=$(ls problems/"$number"/*.c* | head -n 1)
    key=solutions/$number/$(basename "$skeleton")
    log=$out/check/skeleton_$number.log
    awk -f workbook/gaps.awk "$skeleton" >"$out/check/skeleton" && awk -f workbook/gaps.awk "$key" >"$out/check/key" &&
        diff "$out/check/skeleton" "$out/check/key" >"$log"
    verdict $? "skeleton $number differs from its key in the gaps alone" "$log"
    if workbook/untouched.sh "$skeleton"; then
        verdict 0 "skeleton $number is recorded as shipped"
    else
        echo "run: sha256sum problems/[0-9][0-9]/*.c problems/[0-9][0-9]/*.cu | sort -k 2 > workbook/shipped.sha256" >"$log"
        verdict 1 "skeleton $number is recorded as shipped" "$log"
    fi
    # Tests of bad input may pass: the validator is given.
    echo failed >"$skeletons/$number.state"
    WB_TIMEOUT=5 WB_RESULTS=$skeletons/$number.results workbook/suite.sh "$out/tests/${number}_test" "$out/problems/${number}_worker" "$backend" >"$log" 2>&1
    grep -q '^  FAIL' "$log" && ! grep '^  ok' "$log" | grep -qv '^  ok    bad_' && ! grep -q '^  harness:' "$log"
    verdict $? "skeleton $number passes no test but those of bad input" "$log"
done
score "$skeletons" "Score: 0/750 (+ bonus 0/400)" "the skeletons win nothing" "$@"

for wrong in $(ls solutions/[0-9][0-9]/wrong/*.patch | sed 's/^solutions.//; s/.patch$//'); do
    echo "$out/wrong/$wrong/caught"
done >"$out/check/wrong"
log=$out/check/mutants.log
echo "          $(grep -c . "$out/check/wrong") wrong solutions, each built and tested:"
# shellcheck disable=SC2046
{ build -k $(cat "$out/check/wrong") 2>&1; echo $? >"$out/check/status"; } | tee "$log" | grep --line-buffered -E '^(caught|SURVIVED|NOT TRIED)' | cut -c1-160
while read -r caught; do
    wrong=$(echo "$caught" | sed 's|.*/wrong/\([0-9]*\)/wrong/\(.*\)/caught|\1 \2|')
    if [ -s "$caught" ]; then
        passed=$((passed + 1))
    else
        grep -A5 "${wrong#* }" "$log" >"$out/check/one"
        verdict 1 "wrong solution $wrong is caught" "$out/check/one"
    fi
done <"$out/check/wrong"
if [ "$(cat "$out/check/status")" -ne 0 ] && [ $failed -eq 0 ]; then verdict 1 "every wrong solution compiles" "$log"; fi

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
