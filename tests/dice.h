// dice.h - what suites of the machinery draw: the same in each test, which is a process of its own.
#pragma once

#include <stdint.h>

static uint64_t dice_state = 1;
static inline uint64_t dice(void) { return dice_state = dice_state * 6364136223846793005u + 1442695040888963407u; }
static inline int below(int n) { return (int)((dice() >> 33) % (uint64_t)n); }
static inline double noise(void) { return (double)(int32_t)(dice() >> 32) / 0x1p31; }  // uniform between -1 and 1
