// late_inputs.cu - see run.h.
#include "worker/run.h"

static void *away[64];
static int away_count;

#ifdef __CUDACC__
// Keeps a stream busy for so many clocks, so that what is queued behind it comes later than what is queued elsewhere.
__global__ void spend(long long clocks)
{
    for (const long long begin = clock64(); clock64() - begin < clocks;) {}
}
#endif

extern "C" wb_status wb_late_begin(void *const buffers[], const size_t bytes[], int count, wb_stream *stream)
{
    if (count > (int)(sizeof away / sizeof *away) - away_count) return WB_UNSUPPORTED;
    WB_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    void **const copies = away + away_count;
    for (int k = 0; k < count; k++, away_count++) {
        WB_CUDA(cudaMalloc(&copies[k], bytes[k]));
        WB_CUDA(cudaMemcpy(copies[k], buffers[k], bytes[k], cudaMemcpyDeviceToDevice));
        WB_CUDA(cudaMemset(buffers[k], 0xff, bytes[k]));
    }
    WB_CUDA(cudaStreamSynchronize(nullptr));
#ifdef __CUDACC__
    spend<<<1, 1, 0, *stream>>>(400 * 1000 * 1000LL);
    WB_CUDA(cudaGetLastError());
#endif
    for (int k = 0; k < count; k++)
        WB_CUDA(cudaMemcpyAsync(buffers[k], copies[k], bytes[k], cudaMemcpyDeviceToDevice, *stream));
    return WB_OK;
}

extern "C" wb_status wb_late_again(void *const buffers[], const size_t bytes[], int count, int swapped,
                                   wb_stream stream)
{
    void **const copies = away + away_count - count;
    for (int k = 0; k < count; k++) {
        const int from = swapped && k >= count - 2 ? 2 * count - 3 - k : k;
        WB_CUDA(cudaMemcpyAsync(buffers[k], copies[from], bytes[k], cudaMemcpyDeviceToDevice, stream));
    }
    return WB_OK;
}

extern "C" wb_status wb_late_end(wb_stream stream)
{
    while (away_count > 0) WB_CUDA(cudaFree(away[--away_count]));
    WB_CUDA(cudaStreamDestroy(stream));
    return WB_OK;
}
