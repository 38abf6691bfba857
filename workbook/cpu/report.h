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
void report_place(call_site site);        // the source line, if it can be read
void report_code(void *program_counter);  // file, line and source line of an instruction, if addr2line finds it
[[noreturn]] void report_end();

// All of it in one: a kind, a sentence, a place.
[[noreturn]] void report(const char *kind, call_site site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// "0-3, 7" for the bits 0x8f.
void lane_list(unsigned lanes, char *text, size_t size);
}
