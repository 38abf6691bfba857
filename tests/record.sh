#!/bin/sh
# record.sh - workbook/bench/record.sh goes on whatever fails, says at the end what did, and keeps its output to two
# files. Everything that it would run is a stand-in here.
set -u
record=$PWD/workbook/bench/record.sh wb=$PWD/build/${BACKEND:-cpu}/wb
. tests/prove/frame.sh
said=$scratch/out/results.txt
stand_in() { # FILE, its text from stdin
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}

cd "$scratch" || exit 2
export TMPDIR="$scratch" # a suite that is killed leaves files behind
mkdir tests reference tools
echo abc >tools/commit # as in a bundle
touch tests/01_one.c tests/02_two.c tests/03_three.c tests/04_four.c reference/peers.py
mkdir -p build/cuda/tests build/cuda/solutions build/cuda/variants/03/variants/other
touch build/cuda/solutions/01.so # the others are missing, which the stand-ins do not mind
mkdir -p solutions/03/variants && echo "// exempt: memory" >solutions/03/variants/other.cu
mkdir -p workbook/bench workbook/loop
cp "$record" . && cp "${record%record.sh}bench.sh" workbook/bench && cp "${record%bench/*}loop/source.sh" workbook/loop
cp "$wb" build/cuda/wb
for test in 01 02 03 04 own; do
    stand_in build/cuda/tests/${test}_test <<'END'
case "$0 $WB_WORKER $*" in
*02_test*) failed=ragged ;;
*'!(memory)'*) failed= ;;
*variants*) failed=memory ;;
*04_test*) kill -9 $PPID ;;
*) failed= ;;
esac
{
    for name in a b c d e; do printf '{"status": "ok", "test": "%s"}\n' $name; done
    printf '{"status": "SKIP", "test": "f", "message": "a path: %s"}\n' "$PWD/x"
    [ -z "$failed" ] || printf '{"status": "FAIL", "test": "%s"}\n' $failed
    echo '{"end": true}'
} >&3
END
done
stand_in build/cuda/bench <<'END'
for to; do :; done
echo "$*" >>benched
printf '# problem: %s\n' "$1" >"$to"
[ "$1" != 03 ] || exit 1
END
echo 'END { print "roofline of " FILENAME }' >workbook/bench/verdict.awk
echo 'case $* in *name*) echo "NVIDIA GeForce RTX 9" ;; *) echo 999.9 ;; esac' | stand_in bin/nvidia-smi
stand_in bin/timeout <<'END' # -k 5 SECONDS COMMAND..., of which with SLOW one hangs
case "${SLOW:-} $*" in "1 -k 5 "[1-9]*"bench.sh cuda solutions 02") exit 124 ;; esac
shift 3
exec "$@"
END
echo '[ "$1" != -c ] && echo "# peers"; true' | stand_in bin/python
PATH=$scratch/bin:$PATH PYTHON=$scratch/bin/python CUDA_HOME=/nowhere MAKE=true
export PATH PYTHON CUDA_HOME MAKE
mkdir -p plots/data/rtx-9
echo old >plots/data/rtx-9/02_two.tsv

./record.sh cuda "$scratch/out" >printed 2>&1
check "something failed: exit status 1" [ $? -eq 1 ]
tail -n 12 out/results.txt >end
check "the end counts" grep -q '^record: 13 ok, 3 failed, 0 not run' end
check "a suite that failed is listed" grep -q '  FAILED   suite 02: 5 passed, 1 failed' end
check "a suite that was killed is listed" grep -q '  FAILED   suite 04: killed' end
check "a bench that failed is listed" grep -q '  FAILED   bench 03: exit status 1' end
check "a variant is timed" grep -q other=build/cuda/variants benched
check "a variant may fail what it is exempt from" grep -q 'ok: suite 03 on other .*exempt from memory' out/results.txt
check "no path of this machine" sh -c "! grep -qF '$scratch' out/results.txt"
named=$(grep -c '^# gpu: NVIDIA GeForce RTX 9$\|^# driver: 999.9$\|^# commit: abc$' out/results.txt)
check "GPU, driver and commit are named" [ "$named" -eq 3 ]
check "the tables go to plots/data" [ "$(ls plots/data/rtx-9 | tr '\n' ' ')" = "01_one.tsv 02_two.tsv 04_four.tsv \
16_flash_fp8_errors.tsv duel_seed1.tsv gpt_oss.tsv peers.tsv record.tsv " ] && ! grep old plots/data/rtx-9/02_two.tsv
check "that of a failed bench does not" [ -f build/cuda/record/03_three.partial.tsv ]

SLOW=1 ./record.sh cuda "$scratch/slow" bench >/dev/null 2>&1
check "a program that hangs is ended" grep -q 'FAILED   bench 02: ended after 300 s' slow/results.txt

parts="peers torch gpt_oss duel"
# shellcheck disable=SC2086
PYTHON=false ./record.sh cuda "$scratch/bare" $parts >/dev/null 2>&1
check "without PyTorch nothing failed" [ $? -eq 0 ]
check "and it says so" [ "$(grep -c '^  not run' bare/results.txt)" -eq "$(echo "$parts" | wc -w)" ]
exit $failed
