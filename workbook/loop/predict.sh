#!/bin/sh
# predict.sh NN - the question of a problem that no test asks (problems/questions.txt); with GUESS, keeps that in
# problems/predictions.tsv, has the CPU layer count what the student's function does, and shows both.
set -u
number=$1
case $number in [1-9]) number=0$number ;; esac
. workbook/loop/source.sh
score=build/${BACKEND:-cpu}/wb worker=build/cpu/problems/${number}_worker
[ -n "${GUESS:-}" ] || exec "$score" predicted "$number"
asked=$("$score" cases "$number") || exit 1
state=$("$score" standing "$number") ||
    { echo "predict-$number: $number must pass before its operations are counted (state: $state)" >&2; exit 1; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
$MAKE --no-print-directory -s -j"$JOBS" BACKEND=cpu "$worker" || exit 1
# shellcheck disable=SC2086
"$worker" $asked 3>"$scratch/counts" >"$scratch/said" 2>&1 || { cat "$scratch/said" >&2; exit 1; }
xargs "$score" predicted "$number" <"$scratch/counts"
