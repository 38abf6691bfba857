# shellcheck shell=sh
# settings.sh - for scripts that start a check build of a C program: `sanitizer_settings`, what goes into its environment.
sanitizer_settings="ASAN_OPTIONS=exitcode=66:detect_leaks=0:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=0 \
TSAN_OPTIONS=exitcode=66:halt_on_error=1"
