#!/bin/sh
# untouched.sh - make test of a student who has done nothing: nothing is started, nothing fails.
make --no-print-directory test >"$ROW.said" 2>&1 || { cat "$ROW.said"; exit 1; }
grep -c 'not started' "$ROW.said" && ! grep -E 'passed|failed' "$ROW.said"
