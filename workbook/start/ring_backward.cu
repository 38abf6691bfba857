// ring_backward.cu - ring.cu for the gradients.
#define BACKWARD
#include "ring.cu"
