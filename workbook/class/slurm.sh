#!/bin/bash
# slurm.sh SUBMISSIONS [OUT] - make grade-all as arrays of Slurm jobs, a submission each: the same folders, the same
# table. The workbook and both folders must be where every node sees them.
#
# The submissions are listed before the first job starts: what is handed in meanwhile waits for the next call. That
# grades again what is new, has changed, or has no grade since its job failed; a job of any other takes a second.
#
# Environment, with what holds otherwise:
#   AT_ONCE=50                 jobs at once          CPUS=2, MEMORY=8G, MINUTES=60    of each
#   SBATCH_PARTITION, SBATCH_ACCOUNT, ...            what sbatch reads
#   MARCH=x86-64-v3            what is compiled for: nodes may differ, and a grade must not
# and what grade.sh reads, the same in each call.
#
# Exit status: 0 all graded; 1 some could not be, and why; 2 usage
set -u
umask 077

if [ "${1:-}" = --job ]; then # HOME SUBMISSIONS OUT LIST FIRST: one of the array, on its node
    # Names are bytes, also a newline at the end.
    name=$(sed -z -n "$((SLURM_ARRAY_TASK_ID + $6 + 1))p" "$5" | tr '\0' x) name=${name%x}
    report=$4/reports/$name
    mkdir -p "$report" || exit 1
    echo "$(hostname): the job ended before there was a grade; was it out of time or memory?" >"$report/failure"
    said=$(WB_JOBS=${SLURM_CPUS_PER_TASK:-2} "$2/workbook/class/grade.sh" --base "$4/base" -- "$3/$name" "$report" 2>&1)
    status=$?
    rm -f "$report/failure"
    [ $status -eq 0 ] || { rm -f "$report/record"; printf '%s: %s\n' "$(hostname)" "$said" >"$report/failure"; }
    exit $status
fi

home=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ -d "$1" ] || { echo "slurm: there is no folder $1" >&2; exit 2; }
if ! command -v sbatch >/dev/null; then
    echo "slurm: there is no sbatch here; make grade-all grades on one machine" >&2
    exit 2
fi
mkdir -p "${2:-$home/build/grades}/slurm" || exit 1
submissions=$(cd "$1" && pwd -P) out=$(cd "${2:-$home/build/grades}" && pwd -P) || exit 1
export MARCH="${MARCH-x86-64-v3}"
[ -n "$MARCH" ] || unset MARCH # this machine's own
"$home/workbook/class/grade_base.sh" "$out/base" || exit 1

list=$out/slurm/names
(cd "$submissions" && find . -mindepth 1 -maxdepth 1 -printf '%P\0') | LC_ALL=C sort -z >"$list" || exit 1
count=$(tr -dc '\0' <"$list" | wc -c)
[ "$count" -gt 0 ] || { echo "slurm: there are no submissions in $submissions" >&2; exit 2; }
for ((first = 0; first < count; first += 1000)); do # a cluster takes 1000 at once, if nobody has changed that
    last=$((count - first > 1000 ? 999 : count - first - 1))
    sbatch --wait --job-name=workbook --array="0-$last%${AT_ONCE:-50}" --cpus-per-task="${CPUS:-2}" \
        --mem="${MEMORY:-8G}" --time="${MINUTES:-60}" --output="$out/slurm/%A_%a.log" \
        "$home/workbook/class/slurm.sh" --job "$home" "$submissions" "$out" "$list" "$first"
done

table=$out/grades.csv
(cd "$out/base" && build/cpu/score class "$out" <"$list") >"$table.new" && mv "$table.new" "$table" || exit 1
failed=0
while IFS= read -r -d '' name; do
    [ ! -f "$out/reports/$name/record" ] || continue
    failed=$((failed + 1))
    why=$(head -n 1 "$out/reports/$name/failure" 2>/dev/null || echo "its job did not start")
    printf 'slurm: %q has no grade: %s\n' "$name" "$why" >&2
done <"$list"
echo "slurm: $((count - failed)) of $count graded; the table is $table; what the jobs said: $out/slurm"
[ $failed -eq 0 ]
