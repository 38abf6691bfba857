// shared.h - what the worker of a changeable source and who tries its changes have in common.
#pragma once

#include <stdint.h>

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
    ROW(!=, ==, <, >) \
    ROW(+, -, +, +) \
    ROW(-, +, -, -) \
    ROW(*, /, *, *) \
    ROW(/, *, %, /) \
    ROW(%, /, %, %)

typedef struct repair_shared {
    int on;                       // the change that is on; 0: none
    int probing;                  // if not 0, values are noted, and nothing is on
    uint64_t swapped;             // bit n: swap n is on, with another text in place of a part
    uint64_t values[REPAIR_IDS];  // a hash of all values that a change would have had; 0: never reached
} repair_shared;
