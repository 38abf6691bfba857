#!/bin/sh
# classroom.sh SUBMISSION OUT - the step "Grade" of classroom.yml: grades, and hands the result on in the runner's own ways. The runner
# is a user like any other: what keeps a submission from changing its judge there is bubblewrap. A result is written whatever happens.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
submission=$1 out=$2
mkdir -p "$out"
out=$(cd "$out" && pwd) submission=$(cd "$submission" && pwd)
for _ in once again; do # again, one test at a time, if the machine was too busy to judge it
    (cd "$here" && workbook/class/grade.sh -- "$submission" "$out")
    [ $? -eq 4 ] || break
    export WB_JOBS=1
done
[ -s "$out/classroom.json" ] ||
    echo '{"version": 1, "status": "error", "max_score": 0, "tests": [{"name": "workbook", "status": "error", "score": 0, "message": "the grader could not run, see the log"}]}' >"$out/classroom.json"
echo "result=$(base64 "$out/classroom.json" | tr -d '\n')" >>"${GITHUB_OUTPUT:-/dev/stdout}"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    { echo '```'; cat "$out/report.txt" 2>/dev/null; echo '```'; } | head -c 900000 >>"$GITHUB_STEP_SUMMARY"
fi
