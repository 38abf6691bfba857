#!/bin/sh
# suite.sh - runs one suite against one worker and prints a line a test, in the order of the suite's source, simple cases first.
#   suite.sh TEST_PROGRAM WORKER BACKEND [--first] [criterion options]
# --first stops at the first failure. The first failures are reported in full, later ones in a line unless VERBOSE=1 is set.
# Exit status: 0 all passed (and at least one ran), 1 some failed, 2 the suite could not run.
# The last line printed is "N passed, N failed, N skipped". WB_RESULTS: a file that gets a line a test, "ok, FAIL or SKIP <TAB> name".
set -u
program=$1 worker=$2 backend=$3
shift 3
if [ "${1:-}" = --first ]; then
    shift
    set -- --fail-fast -j1 "$@"
else
    set -- -j"${WB_JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}" "$@"
fi
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
tap=$scratch/tap errors=$scratch/errors
: >"$tap"

WB_WORKER=$worker WB_BACKEND=$backend WB_HUNG=$scratch/hung "$program" --quiet --short-filename --tap="$tap" "$@" >/dev/null 2>"$errors" &
suite=$!
while [ -t 2 ] && kill -0 $suite 2>/dev/null; do
    printf '\r  %d tests done \r' "$(grep -c '^ok\|^not ok' "$tap")" >&2
    sleep 0.3
done
wait $suite

stem=$(basename "$program" _test)
sed -n 's/^Test([a-z_0-9]*, *\([A-Za-z_0-9]*\).*/\1/p' "tests/$stem.c" "tests/$stem"_*.c >"$scratch/order" 2>/dev/null

# A failure's text stands indented below its "not ok" line. given_case runs on request alone (WB_CASE).
awk -v verbose="${VERBOSE:-}" -v results="${WB_RESULTS:-/dev/null}" '
    FILENAME ~ /order$/ { if (!($1 in place)) { place[$1] = 1; order[++places] = $1 } next }
    /^ok .*# SKIP test was skipped/ { next }  # not asked for
    /^ok .*# SKIP/ {
        sub(/^[^:]*::/, "")
        printf "SKIP\t%s\n", $1 >results
        name = $1
        sub(/.*# SKIP /, "")
        result[name] = "SKIP"
        text[name] = "        " $0 "\n"
        next
    }
    /^(not )?ok - / {
        ok = /^ok/
        sub(/^[^:]*::/, ""); sub(/ *\([0-9.]*s\)$/, "")
        name = $1
        if (!(name in place)) { place[name] = 1; order[++places] = name }
        if (!ok && /unexpected/) { text[name] = "        the test program itself was ended from outside\n" }
        result[name] = ok ? "ok" : "FAIL"
        next
    }
    /^  (\.\.\.|---)$|^  (assertions|failures):|^  - .*: \|\+$/ { next }
    /^   / {
        sub(/^      /, ""); sub(/^Assertion failed: /, "")
        if ($0 != "") text[name] = text[name] "        " $0 "\n"
    }
    END {
        for (i = 1; i <= places; i++) {
            name = order[i]
            if (!(name in result)) continue
            printf "  %-4s  %s\n", result[name], name
            if (result[name] == "SKIP") { skipped++; printf "%s", text[name]; continue }
            printf "%s\t%s\n", result[name], name >results
            if (result[name] == "ok") { passed++; continue }
            if (++failed > 2 && !verbose) { sub(/\n.*/, "\n", text[name]); shortened = 1 }
            printf "%s", text[name]
        }
        if (shortened) print "  (the first two failures in full; VERBOSE=1 shows them all)"
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed ? 1 : passed ? 0 : 2
    }
' "$scratch/order" "$tap" >"$scratch/report"
status=$?
if grep -q '^harness:' "$errors"; then status=2; fi
if [ $status -eq 2 ]; then sed 's/^/  /' "$errors"; fi
cat "$scratch/report"
exit $status
