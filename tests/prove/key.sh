#!/bin/sh
# key.sh IMPL NN - the reference solution (IMPL=solutions) passes its suite and wins every point; the skeleton
# (problems) wins none, and passes no test but those of bad input, whose checks are given.
set -u
. tests/prove/judge.sh
impl=$1 number=$2 grade=$ROW.grade
mkdir -p "$grade"
record=$grade/$number.json
if [ "$impl" = solutions ]; then right_with_any_seed; else export WB_TIMEOUT=5; fi
judge "$out/tests/${number}_test" "$out/$impl/${number}_worker" "$BACKEND"
case $impl$? in
solutions0) ;;
problems1)
    ! "$out/wb" show "$record" ok | grep -v '^bad_' || exit 1
    ;;
*) exit 1 ;;
esac
"$out/wb" points "$grade" "$number" | sed -n "s|^  $number .* \([0-9]*\) / \([0-9]*\).*|\1 \2|p" |
    awk -v keys=$([ "$impl" = solutions ] && echo 1 || echo 0) '
    { won = $1; of = $2 }
    END { print won " of " of " points"; exit !(of > 0 && won == keys * of) }' || exit 1
counts
