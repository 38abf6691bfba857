#!/bin/sh
# new_problem.sh - in a copy of the workbook: make new-problem refuses what it cannot do and then changes nothing;
# what it makes, of three kinds, is a problem like the others to everything that knows problems. What is built
# here is built there, but for the new.
set -u
. tests/prove/frame.sh
backend=${BACKEND:-cpu} copy=$scratch/workbook
out=build/$backend
unset MAKEFLAGS MAKELEVEL WB_BUILDING CASE TEST SEED CASES
show() { tail -n 20 "$said" | sed 's/^/      /'; }
check() { what=$1; shift; "$@" >"$said" 2>&1; verdict $? "$what"; }
made() { ${MAKE:-make} --no-print-directory BACKEND="$backend" "$@"; }

made "$out/wb" "$out/diagnose" "$out/mask" "$out/bench" "$out/tests/02_test" \
    "$out/solutions/02_worker" >"$said" 2>&1
verdict $? "the copied problems build"
mkdir -p "$copy/$out" || exit 2
git ls-files -co --exclude-standard | while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done |
    tar -cf - -T - | tar -xf - -C "$copy" || exit 2
cp -p build/tools.mk "$copy/build/" && cp -Rp "$out/flags.mk" "$out/machinery" "$out/reference" "$out/layer" \
    "$copy/$out/" &&
    mkdir "$copy/$out/tests" && cp -p "$out/tests/harness"* "$copy/$out/tests/" || exit 2
cd "$copy" && git init -q . && git add -A || exit 2

says() { # PATTERN COMMAND...: a line of what it prints, whatever its exit status
    pattern=$1
    shift
    "$@" >"$scratch/printed" 2>&1
    cat "$scratch/printed"
    grep -qE "$pattern" "$scratch/printed"
}
refused() { # PATTERN N NAME FROM
    ! workbook/loop/new_problem.sh "$2" "$3" "$4" >"$scratch/printed" 2>&1 &&
        grep -E "^new-problem: .*$1" "$scratch/printed"
}
for bad in 03 3 00 100 1x -1 ''; do check "N=$bad is refused" refused 'N=|already' "$bad" flash_copy 03; done
for bad in flash_forward double class printf wb_check_forward row_sum Flash 9lives a-b ''; do
    check "NAME=$bad is refused" refused "NAME|name" 20 "$bad" 03
done
for bad in 20 77 ../03 ''; do check "FROM=$bad is refused" refused 'FROM=|to copy' 20 flash_copy "$bad"; done
check "and then nothing was changed" test -z "$(git status --porcelain | grep -v '^A ')"

# Nothing that includes workbook.h needs the added prototype: its time stays, so that only the new is built.
add() { # N NAME FROM
    touch -r workbook/workbook.h "$scratch/time"
    made new-problem N="$1" NAME="$2" FROM="$3" && touch -r "$scratch/time" workbook/workbook.h
}
check "new-problem makes 20 of 02" add 20 sum_copy 02
check "new-problem makes 21 of 03, attention" add 21 flash_copy 03
check "new-problem makes 22 of 09, a backward" add 22 backward_copy 09
for number in 20 21 22; do cp -p "$(ls problems/$number/*.cu)" "$scratch/$number.cu"; done

check "the reference solution passes its suite, and its points count as beyond" \
    says '^Score: 0/[0-9]+ \(\+ bonus 0/[0-9]+, beyond 100/[0-9]+\)' made test-20 IMPL=solutions
check "the skeleton as shipped is not started" says 'not started' made test-20
echo '// begun' >>problems/20/sum_copy.cu
check "the skeleton earns nothing" says '^Score: .*, beyond 0/[0-9]+\)' made test-20 SANITIZE=0
check "progress shows it" says '^20  sum_copy +unfinished +0 / 100' made progress
check "report" made report OUT="$scratch/report.html"
check "has it" grep '20 sum_copy' "$scratch/report.html"
check "reset-20" made reset-20
check "puts it back" cmp problems/20/sum_copy.cu "$scratch/20.cu"
check "the solution of 21 is correct in a case" \
    says '^1 passed, 0 failed' made test-21 IMPL=solutions CASE=Nq=70,Nk=65,D=32
check "the solution of 22 is correct in a case with window and sinks" \
    says '^1 passed, 0 failed' made test-22 IMPL=solutions CASE=B=2,Hq=2,Hkv=1,Nq=70,D=16,W=20,sinks=3
made "$out/wrong/21/O_not_rescaled/21_worker" "$out/tests/21_test" >"$said" 2>&1
check "a copied wrong solution is caught" \
    env out="$out" BACKEND="$backend" ROW="$scratch/row" sh tests/prove/caught.sh 21 O_not_rescaled
check "and its bug is named" says 'O is not rescaled' \
    env WB_WORKER="$out/wrong/21/O_not_rescaled/21_worker" "$out/diagnose" 21
check "bench-20" made bench-20
for row in key naive; do check "has rows of $row" grep "^20.$row" "$out/results/20_sum_copy.tsv"; done
check "plot-20" made plot-20
check "has drawn" sh -c 'ls build/plots/20_sum_copy*.svg'
check "the library's map" made "$out/lib/workbook.map"
for name in sum flash backward; do check "has ${name}_copy" grep -w "${name}_copy" "$out/lib/workbook.map"; done
check "lessons, checkpoints, hints and suites agree" sh tests/checkpoints.sh 20 21 22
check "lessons and code agree" sh tests/lessons.sh 20 21 22
check "all includes are allowed" sh tests/prove/includes.sh
if command -v clang-format >/dev/null; then
    check "all is formatted" sh -c \
        'git ls-files "*20*" "*21*" "*22*" | grep "[.]\(c\|cu\)$" | xargs clang-format --dry-run -Werror'
fi

check "class-copy includes them" made class-copy DEST="$scratch/class"
check "and leaves out their solutions" sh -c "cd '$scratch/class' && ls problems/2[012]/README.md \
    tests/21_*.c workbook/loop/shipped/20/sum_copy.cu && grep '22 backward' plots/problems.gp && ! ls solutions"
check "class-copy UPTO=20 ends with 20" made class-copy UPTO=20 DEST="$scratch/upto"
check "nothing of 21 and 22 is left" sh -c "cd '$scratch/upto' && ls problems/20 &&
    ! find . -path '*2[12]*' | grep 'problems/\|shipped/\|tests/' &&
    ! grep 'flash_copy\|backward_copy' workbook/problems.c workbook/loop/shipped.sha256 README.md &&
    grep sum_copy workbook/problems.c"
check "and its first page says so" grep 'ends with problem 20' "$scratch/upto/README.md"
check "there, new-problem says why not" says 'new-problem needs the reference solutions' \
    make -C "$scratch/class" --no-print-directory new-problem N=23 NAME=fourth FROM=03
exit $failed
