// problems.h - the one table of problems. Everything else in the machinery reads it and knows no problem by name.
#pragma once

#include <stdbool.h>
#include <sys/cdefs.h>  // __BEGIN_DECLS: extern "C", in C++

__BEGIN_DECLS

// Largest number of a problem + 1: for arrays by number.
enum { WB_PROBLEMS = 100 };

// Largest head_dim of any problem: for arrays that hold a row of a head.
enum { WB_MAX_HEAD_DIM = 256 };

// Whose points count where: the assignment's own, its bonus, and what goes beyond it.
typedef enum wb_group { WB_REQUIRED, WB_BONUS, WB_BEYOND, WB_GROUPS } wb_group;

// Which arguments a function takes: see workbook.h.
typedef enum wb_signature {
    WB_ROW_SUM,
    WB_FORWARD,
    WB_BACKWARD,
    WB_DECODE,
    WB_BLOCK_MASK,
    WB_FP8,
    WB_RING,
    WB_RING_BACKWARD
} wb_signature;

// Which keys a function may be asked to hide.
typedef enum wb_mask { WB_NO_MASK, WB_CAUSAL_OPTIONAL, WB_CAUSAL } wb_mask;

typedef struct wb_problem {
    int number;
    const char *name;  // of the function and of every file
    wb_signature signature;
    bool on_host;          // float32 in host memory, instead of bf16 in device memory
    wb_mask mask;          // of attention: causal never, optionally, always
    bool grouped;          // kv_heads may be less than q_heads
    bool window;           // reads shape.window
    bool sinks;            // reads shape.sinks
    bool sink_logits;      // has an argument more: a learned logit a head, a term of each softmax's denominator
    bool int8_cache;       // of a WB_DECODE: K and V are int8, with two arguments more, a scale for each of their rows
    const int *head_dims;  // those that it supports, the smallest first; behind the last stands 0
    int tile;              // query rows of a tile in lesson and key, for messages ("row 130, in query tile 1")
    wb_group group;
    int from;  // the number of the problem that this one grows out of; 0: it begins anew
} wb_problem;

// Whether a process a rank calls it, and what it finds are gradients.
static inline bool wb_has_ranks(const wb_problem *p)
{
    return p->signature == WB_RING || p->signature == WB_RING_BACKWARD;
}
static inline bool wb_is_backward(const wb_problem *p)
{
    return p->signature == WB_BACKWARD || p->signature == WB_RING_BACKWARD;
}

// This head dimension if the problem supports it, otherwise its smallest.
static inline int wb_head_dim(const wb_problem *p, int D)
{
    for (int i = 0; p->head_dims[i]; i++)
        if (p->head_dims[i] == D) return D;
    return p->head_dims[0];
}

// By name ("flash_forward") or number (3); null if there is none.
const wb_problem *wb_find_problem(const char *name);
const wb_problem *wb_problem_number(int number);

// The table's row after p, the first if p is null; null after the last. In the order of their numbers.
const wb_problem *wb_next_problem(const wb_problem *p);
#define EACH_PROBLEM(p) for (const wb_problem *p = 0; (p = wb_next_problem(p));)

__END_DECLS
