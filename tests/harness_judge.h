// harness_judge.h - whether a case passes, and what is said of it if it does not.
#pragma once

#include "harness.h"
#include "judge/expect.h"

typedef struct report {
    char text[16384];
    size_t used;
    char given[(1 + WORKER_REMEMBERED) * WB_CASE_TEXT];  // the case that it is about, behind others; "" if none
    char finding[WB_FINDING];                            // of the layer's report of it (layer_requests.h)
} report;

void say(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say_case(report *r, const worker_run *run);            // the case of this run, and what it printed
void say_rank(report *r, const worker_run *run, int rank);  // who among several ranks it was
// Where element i of a tensor is, as the lesson would name it.
void say_place(report *r, const worker_run *run, const wb_tensor *t, size_t i);

// Refused, with this status and a message that contains this word; nothing was written.
typedef struct refusal {
    wb_status status;
    const char *word;
} refusal;

// The worker finished, the function returned ok, and the device found nothing wrong.
bool judge_ending(report *r, const worker_run *run);
// All of it is right, or, where a refusal is wanted, that is what came. If not, the report ends with the case.
bool judge(report *r, const worker_run *run, const refusal *wanted);

extern const char *only;   // the one output that is judged; null: all are
extern bool may_not_wait;  // of the tests of promises: whatever their cases are about

// Multiplications of Q K^T and P V of a case in tiles of so many queries by keys; of 1 x 1: none too many.
double products_of(const wb_case *c, int rows, int keys);

// How many GPUs there are, and one's major compute capability, as the driver says; 0: none.
void gpus(int *count, int *capability);

static inline double element(const wb_tensor *t, const char *data, size_t i) { return wb_get(t->type, data, i); }
