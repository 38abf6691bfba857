// A row at a time, a block a multiprocessor on its keys: each thread has the part of every n-th key, and a second
// kernel merges them, a thread a column. No shares, no tiles, no packed rows.
#include "workbook.h"

constexpr int THREADS = 32;

struct part {
    float m, l, o[128];
};

__global__ void see_keys(part *parts, const bf16 *q, const bf16 *K, const bf16 *V, const int *pages, const int *kv_len,
                         int token, int head, decode_shape s)
{
    const int me = blockIdx.x * THREADS + threadIdx.x, D = s.head_dim, keys = *kv_len - s.q_len + token + 1;
    part mine = {-INFINITY, 0, {}};
    for (int j = me; j < keys; j += THREADS * gridDim.x) {
        const size_t row = (size_t)pages[j / s.page_size] * s.page_size + j % s.page_size;
        const bf16 *k = K + (row * s.kv_heads + head) * D, *v = V + (row * s.kv_heads + head) * D;
        float score = 0;
        for (int d = 0; d < D; d++) score = fmaf(float(q[d]), float(k[d]), score);
        score *= s.scale;
        const float m = fmaxf(mine.m, score), a = expf(mine.m - m), p = expf(score - m);
        mine.m = m, mine.l = mine.l * a + p;
        for (int d = 0; d < D; d++) mine.o[d] = mine.o[d] * a + p * float(v[d]);
    }
    parts[me].m = mine.m, parts[me].l = mine.l;
    for (int d = 0; d < D; d++) parts[me].o[d] = mine.o[d];
}

__global__ void merge_parts(bf16 *O, float *L, const part *parts, int count)
{
    const int d = threadIdx.x;
    float m = -INFINITY, l = 0, o = 0;
    for (int n = 0; n < count; n++) m = fmaxf(m, parts[n].m);
    for (int n = 0; n < count && m > -INFINITY; n++) {
        const float weight = expf(parts[n].m - m);
        l += weight * parts[n].l, o += weight * parts[n].o[d];
    }
    O[d] = bf16(l > 0 ? o / l : 0);
    if (d == 0) *L = l > 0 ? m + logf(l) : -INFINITY;
}

static int blocks()
{
    int device, processors;
    const bool told = cudaGetDevice(&device) == cudaSuccess &&
                      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess;
    return told ? processors : 1;
}

size_t flash_decode_workspace(const decode_shape *s)
{
    return wb_check_decode_shape("flash_decode", s) == WB_OK ? blocks() * THREADS * sizeof(part) : 0;
}

wb_status flash_decode(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table,
                       const int *kv_len, void *workspace, size_t bytes, const decode_shape *s, wb_stream stream)
{
    const wb_status status = wb_check_decode("flash_decode", O, L, Q, K, V, page_table, kv_len, workspace, bytes,
                                             flash_decode_workspace(s), s);
    if (status != WB_OK) return status;
    const size_t D = s->head_dim;
    for (int b = 0; b < s->batch; b++)
        for (int h = 0; h < s->q_heads; h++)
            for (int i = 0; i < s->q_len; i++) {
                const size_t row = ((size_t)b * s->q_heads + h) * s->q_len + i;
                see_keys<<<blocks(), THREADS, 0, stream>>>((part *)workspace, Q + row * D, K, V,
                                                           page_table + (size_t)b * s->max_pages, kv_len + b, i,
                                                           h / (s->q_heads / s->kv_heads), *s);
                merge_parts<<<1, (unsigned)D, 0, stream>>>(O + row * D, L + row, (const part *)workspace,
                                                           blocks() * THREADS);
                WB_CUDA(cudaGetLastError());
            }
    return WB_OK;
}
