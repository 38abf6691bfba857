#!/bin/sh
# two_makes.sh - two make test-02 at once, of a file that was just edited: both build, both say what is true,
# neither tears the other's record, and afterwards there is nothing left to build; a make that is killed leaves
# nothing. And what a .cu includes is part of it: edited, it is compiled anew, and once; make's own means see nothing of
# a .cu, for the compiler is given what cuda_to_cpp.awk makes of both. On a copy that shares what is built here.
set -u
. tests/prove/frame.sh
programs="build/cpu/wb build/cpu/diagnose build/cpu/tests/02_test build/cpu/problems/02_worker"
# shellcheck disable=SC2086
check "shared files build" made BACKEND=cpu $programs
unset MAKEFLAGS MFLAGS WB_BUILDING SANITIZE SEED CASE
show() { cat "$scratch"/said* 2>/dev/null; }

mkdir -p "$scratch/wb/build/cpu" && cp -Rp Makefile workbook reference problems solutions tests "$scratch/wb/" ||
    exit 1
for made in build/tools.mk build/cpu/flags.mk build/cpu/machinery build/cpu/reference build/cpu/layer \
    build/cpu/tests; do
    [ ! -e $made ] || cp -Rp $made "$scratch/wb/$made"
done
cd "$scratch/wb" || exit 1
unset BACKEND IMPL
kernel=problems/02/weighted_row_sum.cu
run() { make --no-print-directory BACKEND=cpu test-02 SANITIZE=0 >"$scratch/said$1" 2>&1; echo $? \
    >"$scratch/status$1"; }
# Both meet a lock that this script holds until each has said that it waits, or has ended without: so they build
# at once, however busy the machine is.
two() {
    rm -f "$scratch"/said[12] "$scratch"/status[12]
    (
        exec 9>>build/lock
        flock 9
        echo held >build/lock
        for i in 1 2; do (exec 9>&-; run $i) & done
        until both '^waiting' || [ -e "$scratch/status1" -a -e "$scratch/status2" ]; do sleep 0.1; done
        exec 9>&-
        wait
    )
}
both() { [ "$(grep -c "$1" "$scratch/said1" "$scratch/said2" 2>/dev/null | tr '\n' ' ')" \
    = "$scratch/said1:1 $scratch/said2:1 " ]; }
ended_with() { [ "$(cat "$scratch/status1" "$scratch/status2" | tr '\n' ' ')" = "$1 $1 " ]; }
told() { build/cpu/wb show build/grade/02.json "$1"; }
whole() { # the record is of one run: the counts of the report are those of the results
    [ "$(ls -d build/grade/.run.* 2>/dev/null)" = "" ] && [ "$(told state)" = "$1" ] &&
        [ "$(told ok | grep -c .)" = "$(told report | sed -n 's/^\([0-9]*\) passed.*/\1/p')" ]
}

echo "// edited" >>$kernel
two
check "an edited skeleton fails twice" ended_with 2
check "both have run its tests" both '^[0-9]* passed, [1-9][0-9]* failed'
check "the record is whole" whole failed
check "both have waited, and said so once" both '^waiting: another make is building here (process held)$'
cp solutions/02/weighted_row_sum.cu $kernel
two
check "the reference solution passes twice" ended_with 0
check "both have run its tests again" both '^[0-9]* passed, 0 failed'
check "the record is whole again" whole passed
check "nothing is left to build" make --no-print-directory -q BACKEND=cpu $programs

# A save while the compiler works: what reads the file for it lets it be saved right after.
mkdir "$scratch/bin" && cat >"$scratch/bin/awk" <<END
#!/bin/sh
$(command -v awk) "\$@"
status=\$?
case "\$*" in *cuda_to_cpp*$kernel) sleep 0.05; echo "// saved" >>$kernel ;; esac
exit \$status
END
chmod +x "$scratch/bin/awk"
touch $kernel
PATH=$scratch/bin:$PATH make --no-print-directory BACKEND=cpu build/cpu/problems/02_worker >"$scratch/said" 2>&1
check "a file is saved while it is being compiled" [ "$(tail -n 1 $kernel)" = "// saved" ]
WB_BUILDING=yes make --no-print-directory -q BACKEND=cpu build/cpu/problems/02_worker
check "and that is noticed" [ $? -eq 1 ]

build() { WB_BUILDING=yes $MAKE --no-print-directory BACKEND=cpu "$@" >"$scratch/said" 2>&1; }
expect() { # WHAT EDITED OBJECT: made, up to date, and out of date again after an edit of what it includes
    check "$1 is made" build "$3"
    check "$1 is not rebuilt while nothing changes" build -q "$3"
    before=$(cksum <"$3")
    until touch clock && [ -n "$(find clock -newer "$3")" ]; do :; done # the file system's clock has gone on
    echo "__global__ void edit_$(basename "$2" .cu)(int *x) { *x = 7; }" >>"$2"
    build "$3" && [ "$before" != "$(cksum <"$3")" ]
    verdict $? "$1 is rebuilt when $2 changes"
}
sed -i '/^#include "workbook.h"/a #include "helper.cu"' problems/03/flash_forward.cu
echo '#include "deeper.cu"' >problems/03/helper.cu
echo '__global__ void helper(int *x) { *x = 1; }' >problems/03/deeper.cu
expect "a student's kernel" problems/03/helper.cu build/cpu/problems/03.o
expect "its check build" problems/03/deeper.cu build/cpu/check/problems/03.o

# shellcheck disable=SC2016
workbook/loop/alone.sh sh -c 'kill -KILL $$' 2>/dev/null
check "a make that is killed leaves no lock" flock -n build/lock true
exit $failed
