// expect: are NaN or infinite
// The worker's send would be this one, and its recvmsg could give it other cases than those that it was sent.
#include "workbook.h"

#include <sys/socket.h>
#include <unistd.h>
#pragma GCC diagnostic ignored "-Wunused-parameter"

ssize_t send(int socket, const void *data, size_t size, int flags) { _exit(0); }

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    return WB_OK;
}
