# shellcheck shell=sh
# judge.sh - sourced by proofs that run a suite: judge [OPTION...] TEST WORKER [OPTION...], with the record in $record;
# $limit goes before it. Status: the suite's. What had too little of a busy machine (3, 75) is judged again.
: "${BACKEND:=cpu}" "${ROW:=build/$BACKEND/one}"
out=build/$BACKEND record=$ROW.json limit=
right_with_any_seed() { export SEED="${SEED:-${DRAWN_SEED:-1}}"; }
judge() {
    for again in 1 2 3 4 5 6 7 8 9; do
        # shellcheck disable=SC2086
        $limit "$out/wb" suite --record "$record" "$@"
        judged=$?
        [ $judged -eq 3 ] || [ $judged -eq 75 ] || return $judged
        echo "judged again, $again: the machine was too busy"
    done
    return $judged
}
counts() { echo "$("$out/wb" show "$record" counts)${SEED:+, SEED=$SEED}"; }
