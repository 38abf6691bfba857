// options.c - how the sanitizers work in a check build of C. They ask before anything else runs.
#define BY_SANITIZERS __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

BY_SANITIZERS const char *__asan_default_options(void)
{
    return "exitcode=66:detect_leaks=0:detect_stack_use_after_return=1";
}
BY_SANITIZERS const char *__tsan_default_options(void) { return "exitcode=66:halt_on_error=1"; }
