// The heads on three streams, two of them its own, which begin after what was queued and end before what will be.
#include "workbook.h"

template <int D> __global__ void every_third(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                             attention_shape s, int first)
{
    const long long head = first + 3 * (blockIdx.x + (long long)blockIdx.z * gridDim.x), N = s.q_len;
    const int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (head >= (long long)s.batch * s.q_heads || i >= N) return;
    const bf16 *q = Q + (head * N + i) * D;
    float o[D] = {}, m = -INFINITY, l = 0;
    for (int j = 0; j <= i; j++) {
        const bf16 *k = K + (head * N + j) * D, *v = V + (head * N + j) * D;
        float x = 0;
        for (int d = 0; d < D; d++) x += float(q[d]) * float(k[d]);
        x *= s.scale;
        const float larger = fmaxf(m, x), a = expf(m - larger), p = expf(x - larger);
        m = larger, l = l * a + p;
        for (int d = 0; d < D; d++) o[d] = o[d] * a + p * float(v[d]);
    }
    for (int d = 0; d < D; d++) O[(head * N + i) * D + d] = bf16(o[d] / l);
    L[head * N + i] = m + logf(l);
}

static wb_status launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                        int first, cudaStream_t stream)
{
    const long long third = ((long long)s->batch * s->q_heads + 2) / 3, planes = (third - 1) / 50000 + 1;
    const dim3 grid((unsigned)((third - 1) / planes + 1), (s->q_len - 1) / 32 + 1, (unsigned)planes);
    switch (s->head_dim) {
    case 16: every_third<16><<<grid, 32, 0, stream>>>(O, L, Q, K, V, *s, first); break;
    case 32: every_third<32><<<grid, 32, 0, stream>>>(O, L, Q, K, V, *s, first); break;
    case 64: every_third<64><<<grid, 32, 0, stream>>>(O, L, Q, K, V, *s, first); break;
    default: every_third<128><<<grid, 32, 0, stream>>>(O, L, Q, K, V, *s, first); break;
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_causal(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                       wb_stream stream)
{
    wb_status status = wb_check_forward("flash_causal", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    cudaEvent_t queued, done[2];
    cudaStream_t other[2];
    WB_CUDA(cudaEventCreateWithFlags(&queued, cudaEventDisableTiming));
    WB_CUDA(cudaEventRecord(queued, stream));
    for (int k = 0; k < 2; k++) {
        WB_CUDA(cudaStreamCreateWithFlags(&other[k], cudaStreamNonBlocking));
        WB_CUDA(cudaEventCreateWithFlags(&done[k], cudaEventDisableTiming));
        WB_CUDA(cudaStreamWaitEvent(other[k], queued, 0));
        status = launch(O, L, Q, K, V, s, k, other[k]);
        if (status != WB_OK) return status;
        WB_CUDA(cudaEventRecord(done[k], other[k]));
    }
    status = launch(O, L, Q, K, V, s, 2, stream);
    for (int k = 0; k < 2; k++) {
        WB_CUDA(cudaStreamWaitEvent(stream, done[k], 0));
        WB_CUDA(cudaEventDestroy(done[k]));
        WB_CUDA(cudaStreamDestroy(other[k]));
    }
    WB_CUDA(cudaEventDestroy(queued));
    return status;
}
