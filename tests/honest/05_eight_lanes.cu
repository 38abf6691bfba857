// Cooperative groups: eight lanes a query, each with every eighth column of it, of the keys, and of O.
#include "workbook.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void eight_lanes(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, attention_shape s)
{
    const auto lanes = cg::tiled_partition<8>(cg::this_thread_block());
    const int me = lanes.thread_rank(), D = s.head_dim, N = s.q_len;
    const int i = blockIdx.x * lanes.meta_group_size() + lanes.meta_group_rank(), h = blockIdx.y;
    if (i >= N) return;
    const size_t row = ((size_t)blockIdx.z * s.q_heads + h) * N + i;
    const size_t keys = ((size_t)blockIdx.z * s.kv_heads + h / (s.q_heads / s.kv_heads)) * N;
    float o[16] = {}, m = -INFINITY, l = 0;
    for (int j = 0; j <= i; j++) {
        float part = 0;
        for (int d = me; d < D; d += 8) part += float(Q[row * D + d]) * float(K[(keys + j) * D + d]);
        const float x = s.scale * cg::reduce(lanes, part, cg::plus<float>());
        const float larger = fmaxf(m, x), a = expf(m - larger), p = expf(x - larger);
        m = larger, l = l * a + p;
        for (int c = 0; c < D / 8; c++) o[c] = o[c] * a + p * float(V[(keys + j) * D + 8 * c + me]);
    }
    for (int c = 0; c < D / 8; c++) O[row * D + 8 * c + me] = bf16(o[c] / l);
    if (me == 0) L[row] = m + logf(l);
}

wb_status flash_gqa(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                    wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    eight_lanes<<<dim3((s->q_len - 1) / 8 + 1, s->q_heads, s->batch), 64, 0, stream>>>(O, L, Q, K, V, *s);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
