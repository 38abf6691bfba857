#!/bin/sh
# new_problem.sh - in a copy of the workbook: make new-problem refuses what it cannot do and then changes nothing; what it makes
# is a problem like the others, to everything that knows problems. What is built here is built there, but for the new ones.
set -u
backend=${BACKEND:-cpu}
out=build/$backend failed=0
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP
copy=$scratch/workbook said=$scratch/said
unset MAKEFLAGS MAKELEVEL WB_CASE WB_SEED WB_CASES
export CC CXX 2>/dev/null

mkdir -p "$copy/$out" || exit 2
git ls-files -co --exclude-standard | while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done | tar -cf - -T - | tar -xf - -C "$copy" || exit 2
for built in "$out"/*; do
    case ${built##*/} in wrong | variants | hostile | check | tune | bundle | mistakes | results) ;; *) cp -Rp "$built" "$copy/$out/" ;; esac
done
rm -rf "$copy/$out"/*/grade # nothing has been graded there
[ ! -f build/tools.mk ] || cp -p build/tools.mk "$copy/build/"
cd "$copy" || exit 2
git init -q . && git add -A || exit 2
made() { make --no-print-directory BACKEND="$backend" WERROR=1 "$@"; }
check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@" >"$said" 2>&1; then
        echo "ok    $what"
    else
        echo "FAIL  $what: $*"
        tail -n 20 "$said" | sed 's/^/          /'
        failed=1
    fi
}
says() { # PATTERN COMMAND...: a line of what it prints, whatever its exit status
    pattern=$1
    shift
    "$@" >"$scratch/printed" 2>&1
    cat "$scratch/printed"
    grep -qE "$pattern" "$scratch/printed"
}
state() { git status --porcelain | sha256sum; git diff | sha256sum; }
refused() { # PATTERN N NAME FROM
    before=$(state)
    ! made new-problem N="$2" NAME="$3" FROM="$4" >"$scratch/printed" 2>&1 &&
        grep -E "^new-problem: .*$1" "$scratch/printed" && [ "$(state)" = "$before" ]
}
# The prototype that is added to workbook.h changes nothing of what includes it: its time stays, so that only the new is built, and the list of what
# the library exports.
add() { # N NAME FROM
    touch -r workbook/workbook.h "$scratch/time"
    made new-problem N="$1" NAME="$2" FROM="$3" && touch -r "$scratch/time" workbook/workbook.h && rm -f "$out/lib/workbook.map"
}

for bad in 03 3 00 100 1x -1 ''; do check "N=$bad is refused" refused 'N=|already' "$bad" flash_copy 03; done
for bad in flash_forward double class printf wb_check_forward row_sum Flash 9lives a-b ''; do
    check "NAME=$bad is refused" refused "NAME|name" 20 "$bad" 03
done
for bad in 20 77 ../03 ''; do check "FROM=$bad is refused" refused 'FROM=|to copy' 20 flash_copy "$bad"; done

check "new-problem makes 20 of 03" add 20 flash_copy 03
check "the key passes its suite, and its points count beyond the others" says '^Score: 0/[0-9]+ \(\+ bonus 0/[0-9]+, beyond 200/[0-9]+\)' made test-20 IMPL=solutions
check "the skeleton as shipped is not started" says 'not started' made test-20
echo '// begun' >>problems/20/flash_copy.cu
check "the skeleton earns nothing" says '^Score: .*, beyond 0/[0-9]+\)' made test-20 SANITIZE=0
check "progress shows it" says '^20  flash_copy +unfinished +0 / 200' made progress
check "and its points" says '^Score: .*beyond 0/[0-9]+' made progress
check "next still finds a problem" says '^Now: 01 ' made next
check "hint-20" says 'tail' made hint-20
check "mask-20" says '^20 flash_copy' made mask-20 N=12
check "reset-20" made reset-20
check "diff-20" says 'e.col >= left' made diff-20 YES=1
check "a copied wrong solution is caught" made "$out/wrong/20/O_not_rescaled/caught"
check "and its mistake named" says 'O is not rescaled' env WB_BACKEND="$backend" WB_WORKER="$out/wrong/20/O_not_rescaled/20_worker" "$out/diagnose" 20
check "report shows it" made report OUT="$scratch/report.html"
check "with its points" grep -q '20 flash_copy' "$scratch/report.html"
check "bench-20" made bench-20
check "bench-20 has rows of the key and the naive baseline" sh -c "grep -q '^20.key' $out/results/20_flash_copy.tsv && grep -q '^20.naive' $out/results/20_flash_copy.tsv"
check "plot-20" made plot-20
check "plot-20 has drawn" test -s build/plots/20_flash_copy_memory.svg

check "new-problem makes 21 of 02, another kind" add 21 sum_copy 02
check "the key of 21 is right in a case" says '^1 passed, 0 failed' made test-21 IMPL=solutions CASE=rows=37,cols=1001
check "bench-21 and plot-21" made bench-21 plot-21
check "new-problem makes 22 of 09, a backward" add 22 backward_copy 09
check "the key of 22 is right in a case with window and sinks" says '^1 passed, 0 failed' made test-22 IMPL=solutions CASE=B=2,Hq=2,Hkv=1,Nq=70,D=16,W=20,sinks=3
check "the library has all three functions" sh -c "make --no-print-directory BACKEND=$backend WERROR=1 lib && BACKEND=$backend sh tests/library.sh names"
made "$out/tests/20_test" "$out/tests/21_test" "$out/tests/22_test" >/dev/null 2>&1 # what checkpoints.sh reads
check "lessons, checkpoints and suites agree" sh tests/checkpoints.sh
check "lessons and code agree" sh tests/lessons.sh
check "what is included is allowed" sh tests/prove/includes.sh
check "hints and gaps agree" sh tests/hints.sh
if command -v clang-format >/dev/null; then check "all is formatted" made check-format; fi

check "class-copy takes them along" made class-copy DEST="$scratch/class"
for file in problems/20/README.md problems/20/flash_copy.cu workbook/loop/shipped/20/flash_copy.cu tests/21_sum_copy.c plots/21_sum_copy.gp; do
    check "class-copy has $file" test -s "$scratch/class/$file"
done
check "and no key, nor a folder of tests, some of which hold keys" \
    test -z "$(find "$scratch/class/solutions" "$scratch/class/tests"/* -maxdepth 0 -type d 2>/dev/null)"
check "nor what those who carry the workbook on need" \
    test -z "$(cd "$scratch/class" && ls -d .ci .github examples pyproject.toml VERSION C[OH]*.md SECURITY.md 2>/dev/null)"
check "and what its pages and editors need" sh -c "cd '$scratch/class' && ls .clangd .vscode/tasks.json workbook/loop/compile_commands.sh problems/README.md"
check "class-copy UPTO=20 ends with 20" made class-copy UPTO=20 DEST="$scratch/upto"
check "of 21 and 22 there is no file" test -z "$(find "$scratch/upto/problems/2"[12] "$scratch/upto/workbook/loop/shipped/2"[12] "$scratch/upto/tests/2"[12]_* -maxdepth 0 2>/dev/null)"
check "nor a row" sh -c "cd '$scratch/upto' && ! grep -q 'sum_copy\|backward_copy' workbook/problems.c workbook/loop/shipped.sha256 && grep -q flash_copy workbook/problems.c"
check "nor a row in its first page" sh -c "cd '$scratch/upto' && ! grep -q '^| .*sum_copy\|^| .2[12]' README.md && grep -q 'ends with problem 20' README.md"
check "there, new-problem says why not" says 'new-problem needs the answer keys' make -C "$scratch/class" --no-print-directory new-problem N=23 NAME=fourth FROM=03
exit $failed
