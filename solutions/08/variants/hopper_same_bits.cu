// hopper_same_bits.cu - hopper.cu with blocks that add to dQ in a fixed order: results are bitwise reproducible.
// Random shapes that it is chosen for: 26 of 366 backward passes, 273 of 366 deterministic backward passes (records of
// `make duel`, 2026-11-28).
//
// exempt: memory
#define SAME_BITS true
#include "hopper.cu"
