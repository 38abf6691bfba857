// report.h - what the layer prints when a kernel does what no kernel may, before it ends the process with status 66.
//
//   cudacpu: barrier divergence in kernel sum_rows, block (3,0,0)
//      threads 0-31 wait at __syncthreads()  problems/02/sum.cu:31
//         | __syncthreads();
#pragma once

#include "layer.h"

namespace cudacpu
{
enum { EXIT_REPORT = 66 };

// Only one report is ever printed: whoever begins a second one waits until the process has ended.
void report_begin(const char *kind);
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_place(call_site site);                                   // the source line, if it can be read
void report_source(const char *file, int line, const char *indent);  // that line alone
// The student's file, line and source line of an instruction, if addr2line finds it; callers: and where it is called.
void report_code(void *program_counter, bool callers = false);
[[noreturn]] void report_end();
void report_names(const char *file, int line);
void report_record(const char *kind, const char *section);  // tells them to those who asked (wb_report_to)

// A message or a product may be asked for by a helper. reached() keeps who called whom, as numbers that are the same in
// each process of this program (called). students(): of a call of machinery's the line of the student's function; of
// any other itself, and in `from` the line where that function called the helper, if there is one.
call_site reached(call_site site);
call_site students(call_site site, int *from = nullptr);
const char *leaf(call_site site);  // "flash_ring.cu:184", "flash_ring_backward.cu:122 (called at line 193)"
enum { CALLS = 12 };
struct call_trace {
    intptr_t from[CALLS];
};
call_trace &called(int reached);
int keep_trace(const call_trace &t);

// All of it in one: a kind, a sentence, a place.
[[noreturn]] void report(const char *kind, call_site site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A kernel's name, of one launched through a pointer too; as the launch wrote it where no other is to be had.
const char *own_name(const kernel &what);

// f(n, function, file, line) of the lines that the n-th of these instructions of one program or library came from,
// inlined calls included, innermost first. Line 0 where the debug information was stripped.
typedef std::function<void(size_t n, const char *function, const char *file, int line)> line_seen;
void each_line(const std::vector<uintptr_t> &codes, const line_seen &f);
// Of these: of a path the end that is a file here; whether a file is one of the words that kernels are written
// in, and whether it is the student's, or such a one: not the layer's, not the compiler's.
// "void tile_machine::store<16, 16>(float*, ...)" -> "store"; lambdas have no name to show.
const char *from_here(const char *file);
bool is_tile_vocabulary(const char *file);
bool is_students(const char *file);
void short_name(const char *function, char *name, size_t size);

// "0-3, 7" for the bits 0x8f.
void lane_list(unsigned lanes, char *text, size_t size);
}
