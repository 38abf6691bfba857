#!/bin/sh
# edits.sh NN COUNT - the suite of NN rejects each of COUNT edits of its reference solution that repair/ makes and that
# change a result in some case of repair's own. They are drawn by SEED, at a release as judge.sh says, else by what the
# reference solution and the suite contain: a landing that changes neither draws the same as before. What a worker of
# all edits fails by itself, with none turned on (its own memory, say), is not asked.
set -u
. tests/prove/judge.sh
n=$1 count=$2 source=$(ls solutions/"$1"/*.c*) survived=0
included=$(sed -n 's|^#include "\([a-z]*[.]h\)"$|tests/\1|p' tests/"$n"_*)
# shellcheck disable=SC2086
contents=$(cat solutions/"$n"/*.c* tests/"$n"_* $included | cksum | cut -d ' ' -f 1)
[ "${stage:-}" = release ] || export SEED="${SEED:-$((contents % 16777216))}"
right_with_any_seed
built=$out/repaired/$1.cu worker=$out/repaired/$1_worker
seed=$SEED
mkdir -p $out/repaired build/shipped && workbook/loop/shipped.sh "$n" "build/shipped/$n" || exit 1
exec 9>"$out/repaired_$n.lock" && flock 9 # tests/repair.sh writes there, too
rm -f "$built".[0-9]*
export WB_WORKER=$worker
$out/repair --seconds 3600 --choose "$count" --seed "$seed" "$source" "$built" \
    "${MAKE:-make} --no-print-directory -s BACKEND=cpu $worker" "$n" 2>/dev/null >"$built.ids"
grep -q '^[0-9]' "$built.ids" || { echo "not tried: $(cat "$built.ids")"; exit 1; }
export WB_TIMEOUT=10 # of a mistake that never ends, each case
by_itself=none fair=
suite() { judge --first "$out/tests/${n}_test" "$worker" cpu --filter "$1" >/dev/null; }
# Whether the suite rejects WB_REPAIR's edit; a test that does is tried once with none turned on.
rejects() {
    while suite "*/!($by_itself)"; [ $? -eq 1 ]; do
        test=$("$out/wb" show "$record" FAIL | head -n 1)
        case " $fair " in *" $test "*) return 0 ;; esac
        if (unset WB_REPAIR; suite "*/$test"); then fair="$fair $test"; return 0; fi
        by_itself="$by_itself|$test"
    done
    return 1
}
while read -r id what; do
    export WB_REPAIR="$PWD/$built.$id"
    rejects && continue
    survived=$((survived + 1))
    echo "SURVIVED: $source, $what"
done <"$built.ids"
rm -f "$built".[0-9]*
drawn=$(grep -c . "$built.ids")
echo "$((drawn - survived)) of $drawn drawn edits are rejected, SEED=$seed, not asked: $by_itself"
[ $survived = 0 ] && [ $((2 * drawn)) -ge "$count" ] # of some too few change a result
