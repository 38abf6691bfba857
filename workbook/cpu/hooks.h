// hooks.h - the places where a build that looks for bugs, or counts, wants to know what happens. Here they do nothing;
// the check build (check/) and the profiling build (profile/) define them anew, and these, being weak, give way.
#pragma once

#include "report.h"

namespace cudacpu
{
enum { CHANNELS = 96 };  // signals, then named barriers: engine.h

// ------------------------ what happens
void hook_launch_begin(const kernel &what, const launch_config &config);
void hook_launch_end();
void hook_block_begin(block &b);
void hook_block_end(block &b);
void hook_barrier(block &b);                                                  // all threads have met
void hook_warp(block &b, warp &w, unsigned lanes, warp_operation operation);  // these lanes have met
void hook_shared(const shared_variable &variable, char *at);                  // a block's copy came to be
void hook_allocate(char *at, size_t bytes, call_site site);  // device memory; its contents are undefined
void hook_free(char *at, size_t bytes);
void hook_host_wrote(char *at, size_t bytes);  // cudaMemcpy, cudaMemset
// A product of a rank's, whose code announces nothing, is about to read these bytes, or to write them.
void hook_held(const char *at, size_t bytes, bool reads, const char *kernel, call_site site);
void hook_rank_end();                                            // all that this rank has queued has happened
void hook_atomic(const void *at, size_t bytes, void *code);      // code: where the atomic returns to
void hook_matrix_row(const char *at, size_t bytes, void *code);  // ldmatrix reads what the running thread handed in

// An asynchronous copy by the running thread, whose `code` is the call: about to be issued, and there.
void hook_async_issued(char *to, const char *from, size_t bytes, size_t bytes_of_source);
void hook_async_arrived(char *to, size_t bytes);

// The running thread arrives at a channel; all of its phase have; the running thread has waited for that.
void hook_publish(int channel);
void hook_turn(int channel);
void hook_learn(int channel, call_site site);

// The copy engine is told to copy; a warp multiplies. Without a site it is where the thread has called the layer.
void hook_copied(size_t bytes, bool into_shared, call_site site);
void hook_product(const matrices &m, call_site site);

// The copy engine or the tensor cores are told, by the running thread, to read these rows of a tile, or to overwrite
// them.
void hook_engine(const tile_rows &what, bool overwrites, call_site site, const char *who);

// ------------------------ reports
bool hook_refused(const char *call, const char *why, call_site site);  // whether somebody else tells the user
call_site hook_place(call_site site, const thread *t);  // what to show for it; t, if any, called from there
const char *hook_kernel_name(const block &b);           // of a kernel launched through a pointer: its own
const char *hook_report_end(const char *kind);          // a last word, before the process ends: what to read
}
