# shellcheck shell=sh
# judge.sh - sourced by proofs that run a suite: judge [OPTION...] TEST WORKER [OPTION...], with the record in $record.
# Status: the suite's. A worker that had too little of a busy machine (3) is judged again.
: "${BACKEND:=cpu}" "${ROW:=build/$BACKEND/one}"
out=build/$BACKEND record=$ROW.results
judge() {
    for again in 1 2 3 4 5 6 7 8 9; do
        WB_RESULTS=$record "$out/suite" "$@"
        judged=$?
        [ $judged -eq 3 ] || return $judged
        echo "judged again, $again: the machine was too busy"
    done
    return $judged
}
counts() { "$out/suite" --show "$record" counts; }
