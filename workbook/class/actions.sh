#!/bin/sh
# actions.sh SUBMISSION OUT - the step "Grade" of actions.yml and of classroom50.py: grades, and shows the report as the run's summary. The
# runner is a user like any other: what keeps a submission from changing its judge there is bubblewrap. Exit status: grade.sh's.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$2" || exit 1
submission=$(cd "$1" && pwd) out=$(cd "$2" && pwd) || exit 1
for _ in once again; do # again, one test at a time, if the machine was too busy to judge it
    (cd "$here" && workbook/class/grade.sh -- "$submission" "$out")
    status=$?
    [ $status -eq 4 ] || break
    export WB_JOBS=1
done
{ echo '```'; cat "$out/report.txt" || echo "The grader could not run, see the log."; echo '```'; } 2>/dev/null |
    head -c 900000 >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
exit $status
