#!/bin/sh
# run.sh [NAME...] - proves the check build: each broken kernel of tests/sanitize/ is reported, as the kind and with the lines that
# its entry names; and no clean kernel is, in any order of threads. So it is with programs that are drawn (SEED=). Part of make check-all.
# NAME is LIST_ENTRY: an entry of tests/sanitize/LIST.diff. known: the kind of report; line: text of each source line that the first report must
# show; shows: what else it says; section: what it says to read; case: what to run. "nothing": a kernel that does what others do wrong, and is right.
set -u
. workbook/sanitize/settings.sh
out=build/cpu/check
orders=${ORDERS:-0 1 2 3 4}
begun=${BEGUN:-$(date +%s)}
say() { # STATUS WHAT: followed by what was reported, if it is wrong or VERBOSE asks
    printf '[%3d s] %s  %s\n' $(($(date +%s) - begun)) "$([ "$1" -eq 0 ] && echo "ok  " || echo FAIL)" "$2"
    if [ "$1" -ne 0 ] || [ -n "${VERBOSE:-}" ]; then sed 's/^/          /' "$report" | head -n 40; fi
}
report=$(mktemp) || exit 2
trap 'rm -f "$report" "$report".*' EXIT

# As workbook/sanitize/sanitize.sh does.
look_at_c() {
    for program in "$worker" "${worker%_worker}_threads_worker"; do
        for run in "" "setarch $(uname -m) -R"; do
            env $sanitizer_settings timeout 60 $run "$program" --case "$given" --guard 0 >"$report.raw" 2>&1
            status=$?
            grep -q 'FATAL: ThreadSanitizer' "$report.raw" || break
        done
        awk -v pwd="$(pwd)" -f workbook/sanitize/sanitize_c.awk "$report.raw" >"$report"
        [ -s "$report" ] && break
    done
    rm -f "$report.raw"
    return $status
}

told() { awk -v list="tests/sanitize/$list.diff" -v entry="${name#"${list}_"}" -v tell="$1" -f workbook/loop/edit.awk; }
broken() { # LIST NAME
    list=$1 name=$2
    worker=$out/broken/$name/${name%%_*}_worker
    want=$(told known) given=$(told case)
    in_c=$(ls "solutions/${name%%_*}"/*.c 2>/dev/null)
    if [ -n "$in_c" ]; then look_at_c; else CUDACPU_TIMEOUT=10 timeout 60 "$worker" --case "$given" --guard 0 >"$report" 2>&1; fi
    status=$?
    problem=
    got=$(sed -n 's/^\(sanitize\|cudacpu\): //p' "$report" | head -n 1)
    case ${got:-nothing} in
    "$want"*) ;;
    *) problem="reported as '${got:-nothing}', exit status $status" ;;
    esac
    [ $status -eq 66 ] || [ "$status$want" = 0nothing ] || { [ $status -ne 0 ] && [ -n "$in_c" ]; } || problem=${problem:-exit status $status}
    told line >"$report.lines"
    # Only what the first report shows in full.
    awk '/^ *(besides|read) /{exit} {print}' "$report" >"$report.first"
    while IFS= read -r line; do
        grep -F "| " "$report.first" | grep -qF -- "$line" || problem=${problem:-does not show the line: $line}
    done <"$report.lines"
    told shows >"$report.lines"
    while IFS= read -r text; do
        grep -qF -- "$text" "$report.first" || problem=${problem:-does not say: $text}
    done <"$report.lines"
    case $name in
    02_no_barrier | 02_tail_past_the_end | 03_no_wait) # its page shows them
        sed "s|$out/broken/$name/|problems/$list/|; s/^cudacpu: /sanitize: /; s/^ *//" "$report" | sed -n '/^sanitize: /,$p' >"$report.lines"
        while IFS= read -r text; do
            tr -s ' \n' ' ' <problems/when-it-is-wrong-but-runs.md | grep -qF -- "$(echo "$text" | tr -s ' ')" || # long lines are wrapped there
                problem=${problem:-problems/when-it-is-wrong-but-runs.md does not show: $text}
        done <"$report.lines"
        ;;
    esac
    section=$(sed -n 's/^ *read .*"\(.*\)"$/\1/p' "$report") wanted=$(told section)
    [ -z "$section" ] || grep -qxF "## $section" problems/when-it-is-wrong-but-runs.md || problem=${problem:-no such section: $section}
    [ -z "$wanted" ] || [ "$section" = "$wanted" ] || problem=${problem:-read \"$section\", not \"$wanted\"}
    rm -f "$report.lines" "$report.first"
    [ -z "$problem" ]
    say $? "$name: $want${problem:+: $problem}"
}
clean() { # KEY ORDER
    worker=$out/solutions/${1}_worker bad=0
    case $1 in */*) worker=$out/$1 ;; esac
    cases=all
    [ "$1" = tile ] || cases=$("$worker" --cases list)
    for given in $cases; do
        CUDACPU_ORDER=$2 timeout 60 "$worker" --case "$given" --guard 0 >"$report" 2>&1 && continue
        bad=1
        break
    done
    if [ $bad$1$2 = 0030 ]; then # what make race counts: by two tiles of queries of each head K and V are read, and Q once; O and L are written
        given=B=1,Hq=2,Nq=256,D=64
        for text in "bytes read: $((5 * 2 * 256 * 64 * 2))" "bytes written: $((2 * 256 * 64 * 2 + 2 * 256 * 4))" "products of tiles: $((2 * 2 * 256 * 256 * 64))"; do
            "$worker" --case $given --guard 0 2>&1 | grep -qxF "counted: $text" || bad=1
        done
    fi
    say $bad "clean: $1, order $2$([ $bad -eq 0 ] || echo ", case $given")"
}
drawn() { # NAME SEED: programs of the check build that are drawn
    timeout 600 "$out/drawn/${1}_worker" "$2" >"$report"
    status=$?
    say $status "$1, $(tail -n 1 "$report")"
}
linked() { # NN SYMBOL: what a function defines stays global in the check build, so that a __tsan_read4 of its own does not link
    nm -g --defined-only "$out/solutions/${1}_worker.o" >"$report" && grep -q " T .*$2" "$report"
    say $? "$1 hides no name from the linker"
}
case ${1:-} in # each in a process of its own, which prints all that it has to say at once
--broken) said=$(broken "$2" "$3"); echo "$said"; exit 0 ;;
--clean) said=$(clean "$2" "$3"); echo "$said"; exit 0 ;;
--drawn) said=$(drawn "$2" "$3"); echo "$said"; exit 0 ;;
--linked) said=$(linked "$2" "$3"); echo "$said"; exit 0 ;;
esac

# shellcheck disable=SC2086
${MAKE:-make} --no-print-directory -k -j"${WB_JOBS:-2}" BACKEND=cpu broken >"$report" 2>&1 || grep -v '^make' "$report"
export BEGUN="$begun"
{
    [ $# -gt 0 ] || echo "--linked 02 weighted_row_sum_kernel"
    for drawn in races pipelines; do
        [ $# -gt 0 ] || echo "--drawn $drawn ${SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}"
    done
    for list in tests/sanitize/*.diff; do
        name=$(basename "$list" .diff)
        awk -v list="$list" -v tell=names -f workbook/loop/edit.awk | sed "s/.*/--broken $name ${name}_&/"
    done | { if [ $# -gt 0 ]; then grep -wF "$(printf '%s\n' "$@")"; else cat; fi }
    for worker in "$out"/solutions/*_worker; do
        key=$(basename "$worker" _worker)
        case $#$key in 0*_threads | [1-9]*) continue ;; esac
        for order in $orders; do echo "--clean $key $order"; done
    done
    for worker in "$out"/variants/*/variants/*/*_worker; do
        for order in $orders; do [ $# -gt 0 ] || echo "--clean ${worker#"$out/"} $order"; done
    done
} >"$report.jobs"
xargs -P "${WB_JOBS:-2}" -n 3 "$0" <"$report.jobs" | tee "$report.all"
passed=$(grep -c '^\[.*\] ok' "$report.all") failed=$(grep -c '^\[.*\] FAIL' "$report.all")
[ $((passed + failed)) -eq "$(grep -c . "$report.jobs")" ] || failed=$((failed + 1))
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
