# shellcheck shell=sh
# settings.sh - for scripts that start a check build of a C program: `sanitizer_settings`, what goes into its
# environment, and look_at_c, which runs one case and leaves a report, or nothing, in $scratch/report, and what was
# printed in $scratch/printed; of no more than $limit seconds of its own. `busy` is set
# by one that had too little of the machine.
sanitizer_settings="ASAN_OPTIONS=exitcode=66:detect_leaks=0:detect_stack_use_after_return=1 \
UBSAN_OPTIONS=print_stacktrace=0 TSAN_OPTIONS=exitcode=66:halt_on_error=1"
look_at_c() { # WORKER CASE
    : >"$scratch/report"
    for program in "$1" "${1%_worker}_threads_worker"; do
        [ -x "$program" ] || continue
        # ThreadSanitizer of older compilers cannot live with all ways of placing memory.
        for run in "" "setarch $(uname -m) -R"; do
            # shellcheck disable=SC2086
            env $sanitizer_settings build/cpu/within "$limit" $run "$program" --case "$2" --guard 0 \
                >"$scratch/printed" 2>"$scratch/raw"
            status=$?
            grep -q 'FATAL: ThreadSanitizer' "$scratch/raw" || break
        done
        [ $status -ne 75 ] || { busy=yes; return; }
        awk -v pwd="$(pwd)" -f workbook/sanitize/sanitize_c.awk "$scratch/raw" >"$scratch/report"
        if [ $status -ne 0 ] && ! [ -s "$scratch/report" ]; then
            echo "sanitize: $(basename "$program") ended with status $status"
            head -n 20 "$scratch/raw"
        fi >>"$scratch/report"
        [ ! -s "$scratch/report" ] || return
    done
}
