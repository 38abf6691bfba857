// hooks.h - the places where a build that looks for bugs, or counts, wants to know what happens. Here they do nothing;
// the check build (check/) and the profiling build (profile/) define them anew, and these, being weak, give way.
#pragma once

#include "report.h"

namespace cudacpu
{
enum { CHANNELS = 96 };  // signals, then named barriers: engine.h

#define HOOK(...) __VA_ARGS__;
#include "hooks.inc"

// Of vectors of clocks, which say how much of others is over or known: each at least what the other is.
template <class Number> inline void raise(Number *mine, const Number *other, int count)
{
    for (int i = 0; i < count; i++) mine[i] = std::max(mine[i], other[i]);
}

// ------------------------ what -fsanitize=bounds,alignment announces
struct announced_place {
    const char *file;
    int line, column;
};
struct announced_access {
    announced_place at;
    const void *type;
    unsigned char log2_alignment, kind;
};

// ------------------------ reports
bool hook_refused(const char *call, const char *why, call_site site);  // whether somebody else tells the user
call_site hook_place(call_site site, const thread *t);  // what to show for it; t, if any, called from there
const char *hook_kernel_name(const block &b);           // of a kernel launched through a pointer: its own
const char *hook_report_end(const char *kind);          // a last word, before the process ends: what to read
}
