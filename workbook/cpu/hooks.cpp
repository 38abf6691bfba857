// hooks.cpp - the plain build looks for nothing.
#include "hooks.h"

#define WEAK __attribute__((weak))

namespace cudacpu
{
WEAK void hook_launch_begin(const kernel &, const launch_config &) {}
WEAK void hook_launch_end() {}
WEAK void hook_block_begin(block &) {}
WEAK void hook_block_end(block &) {}
WEAK void hook_barrier(block &) {}
WEAK void hook_warp(block &, warp &, unsigned, warp_operation) {}
WEAK void hook_shared(const shared_variable &, char *) {}
WEAK void hook_allocate(char *, size_t, call_site) {}
WEAK void hook_free(char *, size_t) {}
WEAK void hook_host_wrote(char *, size_t) {}
WEAK void hook_held(const char *, size_t, bool, const char *, call_site) {}
WEAK void hook_rank_end() {}
WEAK void hook_atomic(const void *, size_t, void *) {}
WEAK void hook_matrix_row(const char *, size_t, void *) {}
WEAK void hook_async_issued(char *, const char *, size_t, size_t) {}
WEAK void hook_async_arrived(char *, size_t) {}
WEAK void hook_publish(int) {}
WEAK void hook_turn(int) {}
WEAK void hook_learn(int, call_site) {}
WEAK void hook_copied(size_t, bool, call_site) {}
WEAK void hook_product(const matrices &, call_site) {}
WEAK void matrix_load(const void *) {}
WEAK void hook_engine(const tile_rows &, bool, call_site, const char *) {}
WEAK bool hook_refused(const char *, const char *, call_site) { return false; }
WEAK call_site hook_place(call_site site, const thread *) { return site; }
WEAK const char *hook_kernel_name(const block &b) { return own_name(*b.what); }
WEAK const char *hook_report_end(const char *) { return ""; }
}
