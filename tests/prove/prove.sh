#!/bin/sh
# prove.sh BACKEND STAGE NN... - runs the rows of tests/proofs.txt that are due at STAGE (check, landing, release).
#   ONLY=REGEX   these rows alone, whatever is due       ALL=1       also what was proved before of the same inputs
#   DRAW=TEXT    what lists are drawn by, in place of the commit's hash; and, but at the stage check, where a newcomer
#                tries the same each time, the cases of right kernels (DRAWN_SEED: judge.sh)
# Leaves build/BACKEND/proofs.tsv, a record a row (row.sh). Exit status: 0 if no row fails.
set -u
export BACKEND=$1 stage=$2
shift 2
export out=build/$BACKEND PROOFS=build/$BACKEND/proofs
mkdir -p "$PROOFS"
commit=$(git rev-parse --short=10 HEAD 2>/dev/null || echo none)
: "${DRAW:=$commit}"
COMPILER="$(${CC:-cc} --version | head -n 1), $(${CXX:-c++} --version | head -n 1), $(uname -sm)"
COMPILER="$COMPILER ${MARCH:-} ${CFLAGS:-} ${CXXFLAGS:-}"
export COMPILER
[ "$stage" = check ] || export DRAWN_SEED="$(($(printf %s "$DRAW" | cksum | cut -d ' ' -f 1) % 16777216))"
edits() { awk -v list="$1" -v tell=names -f workbook/loop/edit.awk; }

# What the table's lists hold, a line an entry: list, entry.
lists() {
    for n; do
        echo "key $n"
        [ ! -f "solutions/$n/wrong.diff" ] || edits "solutions/$n/wrong.diff" | sed "s|^|wrong $n/|"
        echo "checked $n check/solutions/${n}_worker"
    done
    for variant in solutions/[0-9][0-9]/variants/*.cu; do
        stem=$(basename "$variant" .cu) n=$(echo "$variant" | cut -d/ -f2)
        echo "variant $n/$stem"
        case $variant in *hopper* | */1[34]/* | *one_launch*) echo \
            "checked $n/$stem check/variants/$n/variants/$stem/${n}_worker" ;; esac
        ! grep -qE '(fragments|tile|paged).cuh' "$variant" ||
            echo "small $n/$stem variants/$n/variants/$stem/${n}_worker"
    done
    for key in solutions/[0-9][0-9]/*.cu; do
        n=$(echo "$key" | cut -d/ -f2)
        ! grep -qE '(fragments|tile|paged).cuh' "$key" || echo "small $n solutions/${n}_worker"
    done
    sed -nE 's/.*"([0-9]{2})\/.*/library \1/p; s/^.. exempt ([0-9]{2}_[a-z]+): .*/library \1/p' solutions/kernels.h |
        sort -u
    for own in tests/[a-z]*.c tests/[a-z]*.cu; do
        case $own,$BACKEND in tests/harness*.c,* | tests/library*.c,* | tests/layer.cu,cuda | tests/ranks.cu,cuda) ;;
        *) echo "own $(basename "${own%.*}")" ;; esac
    done
    for list in tests/sanitize/*.diff; do edits "$list" | sed "s|^|broken $(basename "$list" .diff)_|"; done
    for honest in tests/honest/*.c*; do echo "honest $(basename "${honest%.*}")"; done
    for list in tests/honest/*.diff; do edits "$list" | sed "s|^|honest $(basename "$list" .diff)_|"; done
    for cu in problems/[0-9][0-9]/*.cu solutions/[0-9][0-9]/*.cu solutions/[0-9][0-9]/variants/*.cu; do
        echo "$cu" | sed -E 's,^(problems|solutions)/(..)/(.*)[.]cu$,nvcc \2/\1/\3 &,'
    done
    for cu in workbook/*.cu workbook/*/*.cu reference/*.cu tests/*.cu train/*.cu; do echo "nvcc ${cu%.cu} $cu"; done
    printf 'system %s\n' trixie/g++ # .ci/run gives the same commands on Debian 12
}
lists "$@" >"$PROOFS/lists" || exit 2
whole=$(awk -F '\t' '/^[0-9]/ { commit = $3 } END { print commit }' tests/proved.tsv) # when all was proved
changed="$* " # where git does not know that commit, all has changed
if git cat-file -e "$whole^{commit}" 2>/dev/null; then
    changed=$(git diff --name-only "$whole" -- |
        sed -n -E 's,^(problems|solutions|tests|tests/honest|tests/sanitize)/([0-9][0-9])[_./].*,\2,p' | sort -u |
            tr '\n' ' ')
fi
awk -v at="$stage" -v of="$DRAW" -v changed="$changed" -v only="${ONLY:-}" \
    -f tests/prove/plan.awk "$PROOFS/lists" tests/proofs.txt >"$PROOFS/plan" || exit 2
awk -F '\t' '$6 == "due" { print $1 }' "$PROOFS/plan" >"$PROOFS/due"
[ -s "$PROOFS/due" ] || { echo "prove: no row is due or matches ONLY=${ONLY:-}" >&2; exit 2; }
{ git ls-files -co --exclude-standard -z 2>/dev/null || find . -path ./build -prune -o -type f -print0; } |
    xargs -0 sha256sum 2>/dev/null | sed 's| [ *]\(\./\)*| |' >"$PROOFS/files"

echo "$(grep -c . "$PROOFS/due") of $(grep -c . "$PROOFS/plan") rows are due at $stage; random choices by DRAW=$DRAW"
[ "$stage" != landing ] || [ -z "$changed" ] || echo "and all rows of problems that changed since $whole: $changed"
begun=$(date +%s)
awk -F '\t' '$6 == "due" { print $5 }' "$PROOFS/plan" | tr ' ' '\n' | grep '^[B@]' |
    sort -u | sed "s|^B/|$out/|; s|^@||" >"$PROOFS/build"
# shellcheck disable=SC2046
WERROR=1 workbook/loop/alone.sh $MAKE --no-print-directory -s -k -j"$JOBS" $(cat "$PROOFS/build") \
    >"$PROOFS/build.log" 2>&1
built=$?
[ $built -eq 0 ] || { echo "FAIL  a prerequisite does not build:"; grep -v '^  [A-Z]*	' "$PROOFS/build.log" |
    head -n 40; }
echo "      built in $(($(date +%s) - begun)) s"
# make is the engine: each row that is due is a target. On a GPU they take turns.
[ "$BACKEND" = cpu ] || JOBS=1
$MAKE --no-print-directory -s -k -j"$JOBS" --output-sync=target -f - 2>"$PROOFS/make.log" <<'END'
rows := $(shell cat $(PROOFS)/due)
all: $(rows)
$(rows):
	@tests/prove/row.sh $@
.PHONY: all $(rows)
END

# The records of what was due; of a row that has none there was no end.
tab=$(printf '\t')
while read -r name; do
    [ "$PROOFS/$name.row" -nt "$PROOFS/plan" ] && cat "$PROOFS/$name.row" ||
        printf 'failed\t0\t-\t%s\t-\tit has not ended\n' "$name"
done <"$PROOFS/due" >"$out/proofs.tsv"
[ $built -eq 0 ] || printf 'failed\t0\t-\tbuild\tEverything needed compiles without a warning.\tsee %s\n' \
    "$PROOFS/build.log" >>"$out/proofs.tsv"
[ ! -s "$PROOFS/make.log" ] || grep -v '^make' "$PROOFS/make.log"
awk -F "$tab" '$1 == "failed" { print "FAIL  " $4 ": " $6 }' "$out/proofs.tsv"
awk -F "$tab" -v took=$(($(date +%s) - begun)) '
    { n[$1]++; spent += $1 == "passed before" ? 0 : $2 }
    END {
        printf "%d s, %d CPU seconds; %d unchanged since they passed\n", took, spent, n["passed before"]
        printf "%d passed, %d failed, %d skipped\n", n["passed"] + n["passed before"], n["failed"], n["skipped"]
        exit n["failed"] > 0
    }' "$out/proofs.tsv"
