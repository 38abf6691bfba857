// expect: the test itself died of signal 9
#include "workbook.h"

#include <signal.h>
#include <unistd.h>
#pragma GCC diagnostic ignored "-Wunused-parameter"

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    kill(getppid(), SIGKILL);
    return WB_OK;
}
