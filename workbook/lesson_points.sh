#!/bin/sh
# lesson_points.sh NN - the section "Points" of a lesson, from the table of checkpoints. tests/checkpoints.sh compares.
printf '## Points\n\nAll or nothing for each checkpoint, by the tests named in [checkpoints.txt](../../workbook/checkpoints.txt); it counts once what it needs is won.\n\n'
printf '| checkpoint | points | needs | what |\n|---|---|---|---|\n'
awk -v number="$1" '
    $1 == number {
        split($0, part, / *\| */)
        gsub(/,/, ", ", $4)
        printf "| %s | %s | %s | %s |\n", $2, $3, $4 == "-" ? "" : $4, part[2]
    }' workbook/checkpoints.txt
