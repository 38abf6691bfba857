// shared.h - what the worker of a changeable source and who tries its changes have in common: the file WB_REPAIR.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PROBE_WORDS = 24 };  // of a gap; behind them what it returns
enum { PROBE_EVENTS = 1 << 18, PROBE_NUMBERS = 1 << 22, PROBE_BYTES = 1024, PROBE_THREADS = 1 << 16 };
typedef enum probe_kind { PROBE_REAL, PROBE_ROWS, PROBE_TILE, PROBE_WHOLE, PROBE_ELEMENT } probe_kind;

// A thread is at the gap's end for the visit-th time, and a variable holds number[at] to number[at + count - 1].
typedef struct probe_event {
    uint32_t block[3];
    int thread, visit, id, count, at;
    probe_kind kind;
    int across;  // of a tile: blocks of 8 x 8 beside each other
} probe_event;
typedef struct probe_log {
    int events, numbers;
    probe_event event[PROBE_EVENTS];
    double number[PROBE_NUMBERS];
} probe_log;

enum {
    REPAIR_IDS = 1 << 16,
    REPAIR_OWN = 5,      // changes of an operand alone: + 1, - 1, 0, negated, 1
    REPAIR_EACH = 6,     // and with each other operand: it, times it, by it, plus it, minus it, it minus this
    REPAIR_VALUES = 1,   // what is probed: the values of all changes,
    REPAIR_REACHED = 2,  // or only of what is written
};

// Each operator, and what may stand in its place: itself where that is less than three.
#define REPAIR_OPERATORS(ROW) \
    ROW(<, <=, >, >=) \
    ROW(<=, <, >=, >) \
    ROW(>, >=, <, <=) \
    ROW(>=, >, <=, <) \
    ROW(==, !=, >=, <=) \
    ROW(!=, ==, <, >) ROW(+, -, +, +) ROW(-, +, -, -) ROW(*, /, *, *) ROW(/, *, %, /) ROW(%, /, %, %)

typedef struct repair_shared {
    int on;                       // the change that is on; 0: none
    int probing;                  // if not 0, values are noted, and nothing is on
    uint64_t swapped;             // bit n: swap n is on, with another text in place of a part
    uint64_t values[REPAIR_IDS];  // a hash of all values that a change would have had; 0: never reached
    bool notes;                   // what variables hold at a gap's end is noted: in the log
    uint64_t thread[PROBE_THREADS];
    int visits[PROBE_THREADS];
    probe_log log;
} repair_shared;

static inline int probe_order(const void *x, const void *y)
{
    const probe_event *const a = (const probe_event *)x, *const b = (const probe_event *)y;
    for (int n = 2; n >= 0; n--)
        if (a->block[n] != b->block[n]) return a->block[n] < b->block[n] ? -1 : 1;
    if (a->thread != b->thread) return a->thread - b->thread;
    return a->visit != b->visit ? a->visit - b->visit : a->id - b->id;
}
