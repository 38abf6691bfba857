// fastest.cu - flash_ring_backward with products that may add to dQ in any order: its last bits change from run to run,
// if the library has such a kernel. cuDNN's and PyTorch's are of this kind.
#define wb_attention_backward wb_attention_backward_fastest
#include "../flash_ring_backward.cu"
