#!/bin/sh
# honest.sh NAME - an independent solution (tests/honest, written from the lessons and workbook.h alone, or an edit of
# the key) passes every test of its suite, and the check build finds nothing in it: the suites ask for the contract and
# for no particular way to keep it.
set -u
number=${1%%_*}
tests/prove/suite.sh "$number" "build/cpu/honest/$1/${number}_worker" || exit 1
# What one block says to another by a flag is reported, though it may be right (problems/when-it-is-wrong-but-runs.md).
! grep -qs __threadfence tests/honest/"$1".* || exit 0
ORDERS=0 tests/sanitize/clean.sh "build/cpu/check/honest/$1/${number}_worker"
