// hooks.cpp - the plain build looks for nothing.
#include "hooks.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define WEAK __attribute__((weak))

namespace cudacpu
{
#define HOOK(...) \
    WEAK __VA_ARGS__ {}
#include "hooks.inc"
WEAK void matrix_load(const void *) {}
WEAK bool hook_refused(const char *, const char *, call_site) { return false; }
WEAK call_site hook_place(call_site site, const thread *) { return site; }
WEAK const char *hook_kernel_name(const block &b) { return own_name(*b.what); }
WEAK const char *hook_report_end(const char *) { return ""; }
}
#pragma GCC diagnostic pop
