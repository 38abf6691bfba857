#!/bin/sh
# grade_look.sh NN - run by test.sh for grade.sh where SANITIZE=1: builds the check build of problem NN in the
# sandbox, and has the judge give it the small cases of make sanitize-NN. It is a worker like any other: nothing was
# found if it ends well and its results are right. One that does not compile, ends early, takes too long or does less
# there than elsewhere is not clean. Prints what was found. Exit status: 0 nothing, 1 something, 3 the machine was too
# busy to look.
set -u
number=$1
found=$GRADE_SCRATCH/look.results said=$GRADE_SCRATCH/look.said
if [ "$sandbox" = bwrap ]; then built_in=/tmp/w; else built_in=$GRADE_SCRATCH/room/w; fi
workbook/class/grade_build.sh "$number" check >"$GRADE_SCRATCH/look.built" 2>&1
status=$?
[ $status -ne 3 ] || { tail -n 1 "$GRADE_SCRATCH/look.built"; exit 3; }
if [ $status -ne 0 ]; then
    echo "  the check build does not compile"
    head -n 40 "$GRADE_SCRATCH/look.built"
    exit 1
fi
workers=$(grep '^build/cpu/check/' "$GRADE_SCRATCH/look.built") || { echo "  no check build was made"; exit 1; }
for worker in $workers; do
    WB_CASE=small WB_EXACT=1 WB_TIMEOUT=$((3 * WB_TIMEOUT)) WB_RESULTS=$found \
        build/cpu/suite "build/cpu/tests/${number}_test" "$worker" cpu >"$said" 2>&1
    case $? in
    0) continue ;;
    3) sed -n 's/^  harness: could not be judged: //p' "$said" | tail -n 1; exit 3 ;;
    esac
    case=$(build/cpu/suite --show "$found" case)
    echo "  case $case"
    build/cpu/suite --show "$found" message >"$said"
    # What AddressSanitizer and its kin have to say, in our words.
    sed 's/^              //' "$said" | awk -v pwd="$built_in" -f workbook/sanitize/sanitize_c.awk >"$said.report"
    [ -s "$said.report" ] || mv "$said" "$said.report"
    sed 's/^/  /' "$said.report"
    echo "     again    make sanitize-$number CASE=$case"
    exit 1
done
