// exchange.h - the memory that a test and its worker share: a header, then each tensor between two guard zones.
//
//   0               4096
//   | wb_exchange   | guard  offset  tensor 0  guard | guard  offset  tensor 1  guard | ...
//
// The test fills inputs, and outputs as the case says; the worker copies them to buffers of its own, calls the
// function, and copies all back, so that a changed input shows. Guards lie in the worker's buffers alone, NaN, and it
// says what of them has been written (overrun); in the file their room takes no memory.
//
// A worker's descriptor 3 is a socket. For each case the test sends its text, WB_CASE_TEXT bytes padded with zeros, and
// a descriptor of that case's memory, a file whose size is sealed; of several ranks each is a worker with a case and a
// memory of its own, and a second descriptor is of the board that they share (layer_requests.h). The worker runs the
// case, prints out what is buffered, and answers with one byte: how many cases it had run before, modulo 256. Then the
// test reads the memory, once, into a copy that it judges. Where the socket ends, the worker exits with 0.
//
// The function under test shares a process with the worker's end, so nothing that comes from there is believed: the
// test takes every size from the case, waits for nothing without a deadline, and sends a worker away that answers
// unasked or with another byte. Who answers early is judged by the memory as it then is.
//
// A new program for each worker costs more than most cases. So one may be kept, which runs none: where a test sends it
// the other ends of these descriptors, it forks a worker, as fresh as a new program, and that one's keeper, which tells
// the test the worker's number, and, once it has ended, how. When the test closes its end of `life`, it ends it.
//
// Between two cases the worker starts the counters of device memory anew and gives every buffer back. What it cannot
// reset is the peak of the process's resident memory (so host_bytes means something in a first case alone), and what
// the function keeps: that is the test's to notice (harness.h).
#pragma once

#include "layer_requests.h"
#include "case/case.h"

#include <sys/resource.h>

enum { WB_GUARD = 1 << 16, WB_NAN_BYTE = 0xff, WB_REPORT_STATUS = 66 };  // 66: exit status after a report on stderr

// How far the worker has come.
typedef enum wb_stage { WB_STAGE_STARTING, WB_STAGE_CALLING, WB_STAGE_WAITING, WB_STAGE_DONE } wb_stage;

typedef struct wb_exchange {
    wb_stage stage;
    wb_status status;         // what the function returned
    char message[256];        // wb_last_message() after it
    wb_status device_status;  // what the device said after the work was done
    char device_message[256];
    wb_asked asked;            // by the call, on the cpu backend
    uint64_t device_bytes;     // the most device memory the call held beyond the tensors, arrays of its file included
    uint64_t device_kept;      // how much of that it still held when its work was done: a leak
    uint64_t workspace_bytes;  // what the function asked for
    uint64_t workspace_least;  // and what for one sequence of one page; of a ring, for two ranks with as many rows each
    int64_t overrun;  // 0, or the first byte written outside of a buffer: n before it (-n), or the n-th past its end
    int overrun_of;   // of which tensor; their number: of the workspace
    uint64_t host_bytes;  // by how much the call raised the process's peak of resident memory
    uint64_t attended;    // of a rank: pairs of queries and keys, in all heads, for which it has called wb_attention
} wb_exchange;

// Where tensor k's zone (guard, offset, tensor, guard) starts and how long it is.
typedef struct wb_zone {
    size_t start, bytes;
    size_t data;  // the tensor's own first byte, from `start`
} wb_zone;
static inline char *zone_data(char *memory, const wb_zone *z) { return memory + z->start + z->data; }

// How many bytes past a multiple of 256 tensor k of `count` begins (wb_case's offset).
static inline size_t wb_tensor_offset(const wb_tensor *t, int k, int count, int offset)
{
    const size_t align = wb_tensor_alignment(t), n = (size_t)(offset / 16);
    if (offset <= 256) return (size_t)offset;
    return n % (size_t)count == (size_t)k ? align * (2 * (n % 7) + 1) + (size_t)offset % 16 : 0;
}

// Lays out the tensors of a case, with `guard` bytes on both sides of each; returns the bytes of the whole.
size_t wb_exchange_layout(const wb_tensor *tensors, int count, const wb_case *c, size_t guard,
                          wb_zone zones[WB_MAX_TENSORS]);

// A worker's descriptors; 1 is OUTPUT_FILE, too. A test sends them to the one that is kept, and `life` behind them.
enum { OUTPUT_FILE = 2, SOCKET_FILE, COVERAGE_FILE, FINDING_FILE, LIFE, WORKER_FILES = LIFE - OUTPUT_FILE, MOST_FILES };
typedef struct wb_ended {  // what a test hears of `life` after the worker's number
    int status;            // as that of wait4
    struct rusage usage;
} wb_ended;

// The test's end: gives the worker a case with its memory, and a board if there is one; false if it cannot.
bool wb_exchange_send(int socket, const char text[WB_CASE_TEXT], const int files[], int count);

// Whether answer `number` has come. Does not wait.
typedef enum wb_answer { WB_NO_ANSWER, WB_ANSWERED, WB_ANSWER_DAMAGED, WB_ANSWER_NEVER } wb_answer;
wb_answer wb_exchange_answered(int socket, int number);

// The worker's end: waits for a case; returns how many files came, which the caller closes; 0: the socket has ended.
int wb_exchange_receive(int socket, char text[WB_CASE_TEXT], int files[MOST_FILES]);
void wb_exchange_answer(int socket, int number);

// How often each branch of the function's own source ran, as gcc counts it: what a worker that is built so (build.mk,
// COUNTED) writes after each case to descriptor 4, if the test gave it that file, of COVERAGE_ROOM bytes. The function
// could write there what it likes (class/threats.md), as to 5, where a report says what it is of (wb_report_to).
enum { COVERAGE_ROOM = 1 << 20 };
typedef struct wb_counted {
    uint64_t bytes;                               // of what follows; 0: nothing was counted
    char gcda[COVERAGE_ROOM - sizeof(uint64_t)];  // for gcov
} wb_counted;
__attribute__((visibility("hidden"))) void coverage_write(void);
