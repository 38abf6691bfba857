#!/bin/sh
# broken_copy.sh SOURCE LIST ENTRY - SOURCE with one edit of LIST. What is made of it runs one case, the entry's: so a
# choice by head_dim becomes that of the case, or most of what is compiled would never run.
set -u
edited=$(awk -v list="$2" -v entry="$3" -f workbook/loop/edit.awk "$1") || exit
D=$(awk -v list="$2" -v entry="$3" -v tell=case -f workbook/loop/edit.awk | sed -n 's/.*D=\([0-9]*\),.*/\1/p')
printf '%s\n' "$edited" | sed -E "${D:+s/(switch|if) \(((shape->)?head_dim)/\1 ($D + 0 * \2/}"
