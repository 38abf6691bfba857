#!/bin/sh
# record.sh - workbook/bench/record.sh goes on whatever fails, lists at the end what did, and records whole tables
# alone. Everything that it would run is a stand-in here.
set -u
record=$PWD/workbook/bench/record.sh source=$PWD/workbook/loop/source.sh
. tests/prove/frame.sh
stand_in() { # FILE, its text from stdin
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}
cd "$scratch" || exit 2
mkdir -p tests solutions/01 solutions/02 solutions/03 workbook/loop plots/data/rtx-9
touch tests/01_one.c tests/02_two.c tests/03_three.c solutions/01/one.c solutions/02/two.cu solutions/03/three.cu
cp "$source" workbook/loop
echo 'END { print "the duel of " FILENAME }' >plots/duel.awk
stand_in workbook/bench/bench.sh <<'END'
echo "# problem: $3" >"$TO/$(basename tests/"$3"_*.c .c).tsv"
[ "$3" != 03 ]
END
echo 'echo "NVIDIA GeForce RTX 9"' | stand_in bin/nvidia-smi
stand_in bin/timeout <<'END' # -k 5 SECONDS COMMAND..., of which one hangs
case "$*" in *"bench.sh cuda solutions 02") exit 124 ;; esac
shift 3
exec "$@"
END
echo '[ "$1" != -c ] && echo "# peers"; true' | stand_in bin/python
export PATH="$scratch/bin:$PATH" PYTHON="$scratch/bin/python" MAKE=true
echo old >plots/data/rtx-9/01_one.tsv

"$record" cuda >"$said"
check "something failed: exit status 1" [ $? -eq 1 ]
check "and is listed at the end, also what hangs" [ "$(tail -n 2 "$said" | tr '\n' ';')" = \
    "  FAILED  02_two.tsv: ended after 600 s;  FAILED  03_three.tsv: 1;" ]
check "the others are recorded" [ "$(ls plots/data/rtx-9 | tr '\n' ' ')" = \
    "01_one.tsv 16_flash_fp8_errors.tsv duel_seed1.tsv gpt_oss.tsv peers.tsv " ]
check "in place of what was there" eval '! grep old plots/data/rtx-9/01_one.tsv'
check "the table of a failed bench is not" [ -f build/cuda/record/03_three.partial.tsv ]
PYTHON=false "$record" cuda peers torch gpt_oss duel >"$said"
check "without PyTorch nothing failed" [ $? -eq 0 ]
check "and it says so" [ "$(grep -c '^not run: Python has no torch' "$said")" -eq 4 ]
exit $failed
