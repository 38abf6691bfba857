// rule: the settings of the CPU layer are the judge's
// expect: barrier after an early return
#include <stdlib.h>

__attribute__((constructor)) static void before_main(void) { setenv("CUDACPU_EARLY_EXIT", "1", 1); }

__global__ void leaves_early(int *)
{
    if (threadIdx.x) return;
    __syncthreads();
}

static wb_status bomb(void)
{
    leaves_early<<<1, 64>>>(nullptr);
    return WB_OK;
}
