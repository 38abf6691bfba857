#!/bin/sh
# check.sh BACKEND NN... - proves the workbook itself. Every line of the report is one proof; the last line counts them.
#   own tests     the machinery's own suites
#   key           the answer key passes its suite, and so does every variant of it
#   skeleton      compiles without a warning, agrees with the key outside the gaps, is recorded as shipped, earns nothing
#   points        the keys win all of them, the skeletons none
#   wrong         each wrong solution is rejected by the suite, unless FAST is set
set -u
if [ "$1" = --one ]; then # KIND NAME: proves one thing, which takes one core; says its exit status, its log, and what was proved
    kind=$3 name=$4 out=build/$2
    log=$out/check/$(basename "$name").log number=$name
    export OMP_WAIT_POLICY=passive  # several run at once
    judge() { # RECORD TEST WORKER...
        record=$1 test=$2 worker=$3
        shift 3
        WB_JOBS=1 WB_RESULTS=$record "$out/suite" "$@" "$test" "$worker" "${out#build/}" >"$log" 2>&1
        status=$?
        counts=$("$out/suite" --show "$record" counts)
    }
    case $kind in
    script)
        what=$name
        WB_JOBS=1 sh "$name" >"$log" 2>&1
        status=$?
        ;;
    own)
        judge "$out/check/$name.results" "$out/tests/${name}_test" none
        what="$(ls tests/"$name".c*): $counts"
        ;;
    key)
        judge "$out/check/keys/$number.results" "$out/tests/${number}_test" "$out/solutions/${number}_worker"
        what="key $number: $counts"
        ;;
    variant) # solutions/NN/variants/NAME.cu
        number=$(echo "$name" | cut -d/ -f2)
        folder=$out/variants/$number/variants/$(basename "$name" .cu)
        # A line "// exempt: memory same_twice" names tests that this variant fails by design, and says so in its text.
        exempt=$(sed -n 's|^// exempt: ||p' "$name")
        judge "$folder/results" "$out/tests/${number}_test" "$folder/${number}_worker" --exempt "$exempt"
        what="variant ${name#solutions/}: $counts${exempt:+, exempt from $exempt}"
        ;;
    skeleton) # tests of bad input may pass: the validator is given
        log=$out/check/skeleton_$number.log record=$out/check/skeletons/$number.results
        WB_TIMEOUT=5 judge "$record" "$out/tests/${number}_test" "$out/problems/${number}_worker"
        [ $status -eq 1 ] && ! "$out/suite" --show "$record" ok | grep -qv '^bad_'
        status=$?
        what="skeleton $number passes no test but those of bad input"
        ;;
    esac
    times >"$log.times" # of this shell, and of all that it waited for
    printf '%s\t%s\t%s\t%s\n' $status "$log" "$what" \
        "$(tr 'ms' '  ' <"$log.times" | awk '{ spent += 60 * ($1 + $3) + $2 + $4 } END { printf "%.1f", spent }')"
    exit 0
fi
backend=$1
shift
out=build/$backend
mkdir -p "$out/check"
passed=0 failed=0
begun=$(date +%s)

verdict() { # STATUS WHAT LOG [SECONDS of processor time]
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        printf '[%4d s] ok    %s%s\n' $(($(date +%s) - begun)) "$2" "${4:+ ($4 s of processor)}"
    else
        failed=$((failed + 1))
        printf '[%4d s] FAIL  %s\n' $(($(date +%s) - begun)) "$2"
        sed 's/^/          /' "$3" | tail -n 60
    fi
}
keys=$out/check/keys skeletons=$out/check/skeletons
rm -rf "$keys" "$skeletons"
mkdir -p "$keys" "$skeletons"
score() { # FOLDER PATTERN WHAT NN...: of the line that sums up the results there
    folder=$1 pattern=$2 what=$3
    shift 3
    "$out/score" points "$folder" "$@" >"$folder/table" 2>&1 && grep '^Score: ' "$folder/table" | grep -qx "$pattern"
    verdict $? "$what: $(grep '^Score: ' "$folder/table")" "$folder/table"
}
frame() { sed '/^ *\/\/{/,/^ *\/\/}/ { //!d; }' "$1"; } # a file without what stands in its gaps
build() { $MAKE --no-print-directory -j"$WB_JOBS" BACKEND="$backend" WERROR=1 "$@"; }

echo "make check: $backend backend. Every key passes, every skeleton earns nothing, every wrong solution is caught."

log=$out/check/build.log
build everything >"$log" 2>&1
verdict $? "everything compiles without a warning" "$log"

for number; do
    skeleton=$(ls problems/"$number"/*.c* | head -n 1)
    key=solutions/$number/$(basename "$skeleton")
    log=$out/check/skeleton_$number.log
    frame "$skeleton" >"$out/check/skeleton" && frame "$key" >"$out/check/key" &&
        diff "$out/check/skeleton" "$out/check/key" >"$log"
    verdict $? "skeleton $number differs from its key in the gaps alone" "$log"
    if "$out/score" untouched "$skeleton"; then
        verdict 0 "skeleton $number is recorded as shipped"
    else
        echo "run: sha256sum problems/[0-9][0-9]/*.c problems/[0-9][0-9]/*.cu | sort -k 2 > workbook/loop/shipped.sha256" >"$log"
        verdict 1 "skeleton $number is recorded as shipped" "$log"
    fi
    echo passed >"$keys/$number.state"
    echo failed >"$skeletons/$number.state"
done

# Each of these takes one core and shares no file with the others: as many at once as there are cores, and one for those that wait; the longest first.
{
    echo "script tests/prove/new_problem.sh"
    for variant in solutions/[0-9][0-9]/variants/*.cu; do [ ! -f "$variant" ] || echo "variant $variant"; done
    for number; do echo "key $number"; done
    for script in tests/*.sh tests/prove/includes.sh; do
        case $script in tests/arm64.sh | tests/systems.sh) ;; *) echo "script $script" ;; esac # these take an hour, and systems of their own
    done
    for own in $(ls tests/*.c* | sed -n 's|^tests/\([a-z_]*\)\.c.*|\1|p'); do [ ! -x "$out/tests/${own}_test" ] || echo "own $own"; done # not of an older tree
    for number; do echo "skeleton $number"; done
} >"$out/check/proofs"
rm -f "$out/check/proved"
mkfifo "$out/check/proved" || exit 2
xargs -P $((WB_JOBS + 1)) -n 2 "$0" --one "$backend" <"$out/check/proofs" >"$out/check/proved" &
proved=0
while IFS="$(printf '\t')" read -r status log what spent; do
    verdict "$status" "$what" "$log" "$spent"
    proved=$((proved + 1))
done <"$out/check/proved"
wait $!
[ $proved -eq "$(grep -c . "$out/check/proofs")" ] || verdict 1 "of the proofs in $out/check/proofs $proved ended" "$out/check/proofs"
score "$keys" 'Score: \([1-9][0-9]*\)/\1 (+ bonus \([0-9]*\)/\2\(, beyond \([0-9]*\)/\4\)*)' "the keys win every point" "$@"
score "$skeletons" 'Score: 0/[1-9][0-9]* (+ bonus 0/[0-9]*\(, beyond 0/[0-9]*\)*)' "the skeletons win nothing" "$@"

if [ -n "${FAST:-}" ]; then
    echo "$passed passed, $failed failed, 0 skipped: FAST leaves the wrong solutions out"
    [ $failed -eq 0 ]
    exit
fi
for number; do
    awk -v list="solutions/$number/wrong.diff" -v tell=names -f workbook/loop/edit.awk | sed "s|.*|$out/wrong/$number/&/caught|"
done >"$out/check/wrong"
log=$out/check/mutants.log
echo "          $(grep -c . "$out/check/wrong") wrong solutions, each built and tested:"
# shellcheck disable=SC2046
{ build -k wrong; (export WB_BUILDING=yes; build -k $(cat "$out/check/wrong")); echo $? >"$out/check/status"; } 2>&1 | tee "$log" | grep --line-buffered -E '^(caught|SURVIVED|NOT TRIED)' | cut -c1-160
while read -r caught; do
    wrong=$(echo "$caught" | sed 's|.*/wrong/\([0-9]*\)/\(.*\)/caught|\1 \2|')
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
