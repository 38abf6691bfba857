// hopper_same_bits.cu - hopper.cu, where blocks take turns at adding to dQ: the same bits in each run.
//
// exempt: memory
#define SAME_BITS true
#include "hopper.cu"
