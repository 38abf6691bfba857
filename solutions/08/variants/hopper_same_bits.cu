// hopper_same_bits.cu - hopper.cu with blocks that add to dQ in a fixed order: results are bitwise reproducible.
//
// exempt: memory
#define SAME_BITS true
#include "hopper.cu"
