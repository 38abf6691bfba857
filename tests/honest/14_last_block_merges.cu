// One launch: a block a multiprocessor for the keys of a row, each thread with a part of its own, and the last of these
// blocks to be done, which a ticket in the workspace tells, merges. The tickets are set to 0 on the stream first.
#include "workbook.h"

constexpr int MOST = 512;  // blocks at a time

struct part {
    float m, l, o[128];
};

struct room {
    unsigned tickets[MOST];
    part parts[32 * MOST];
};

__global__ void see_and_merge(bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V, const float *K_scale,
                              const float *V_scale, const int *page_table, const int *kv_len, room *r,
                              long long first_row, decode_shape s)
{
    const long long row = first_row + blockIdx.y;
    const int lane = threadIdx.x, D = s.head_dim, b = (int)(row / s.q_len / s.q_heads), parts = 32 * gridDim.x;
    const int head = (int)(row / s.q_len % s.q_heads) / (s.q_heads / s.kv_heads), me = blockIdx.x * 32 + lane;
    const int keys = kv_len[b] - s.q_len + (int)(row % s.q_len) + 1;
    part mine = {-INFINITY, 0, {}};
    for (int j = me; j < keys; j += parts) {
        const size_t page = page_table[(size_t)b * s.max_pages + j / s.page_size];
        const size_t at = ((page * s.page_size + j % s.page_size) * s.kv_heads + head) * D;
        const size_t scale = (page * s.kv_heads + head) * s.page_size + j % s.page_size;
        float x = 0;
        for (int d = 0; d < D; d++) x += float(Q[row * D + d]) * K[at + d];
        x *= K_scale[scale] * s.scale;
        const float larger = fmaxf(mine.m, x), a = expf(mine.m - larger), p = expf(x - larger);
        mine.m = larger, mine.l = mine.l * a + p;
        for (int d = 0; d < D; d++) mine.o[d] = mine.o[d] * a + p * (V_scale[scale] * V[at + d]);
    }
    part *all = r->parts + (size_t)blockIdx.y * parts;
    all[me].m = mine.m, all[me].l = mine.l;
    for (int d = 0; d < D; d++) all[me].o[d] = mine.o[d];
    __threadfence();
    __syncwarp();  // all lanes have written theirs
    unsigned ticket = 0;
    if (lane == 0) ticket = atomicAdd(&r->tickets[blockIdx.y], 1u);
    if (__shfl_sync(0xffffffff, ticket, 0) + 1 < gridDim.x) return;
    __threadfence();
    float top = -INFINITY, sum = 0, o[4] = {};
    for (int n = 0; n < parts; n++) top = fmaxf(top, all[n].m);
    for (int n = 0; n < parts && top > -INFINITY; n++) {
        const float weight = expf(all[n].m - top);
        sum += weight * all[n].l;
        for (int c = 0; c < 4 && lane + 32 * c < D; c++) o[c] += weight * all[n].o[lane + 32 * c];
    }
    for (int c = 0; c < 4 && lane + 32 * c < D; c++) O[row * D + lane + 32 * c] = bf16(sum > 0 ? o[c] / sum : 0);
    if (lane == 0) L[row] = sum > 0 ? top + logf(sum) : -INFINITY;
}

size_t flash_decode_int8_workspace(const decode_shape *s)
{
    return wb_check_decode_shape("flash_decode_int8", s) == WB_OK ? sizeof(room) : 0;
}

wb_status flash_decode_int8(bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V, const float *K_scale,
                            const float *V_scale, const int *page_table, const int *kv_len, void *workspace,
                            size_t bytes, const decode_shape *s, wb_stream stream)
{
    const wb_status status = wb_check_decode_int8("flash_decode_int8", O, L, Q, K, V, K_scale, V_scale, page_table,
                                                  kv_len, workspace, bytes, flash_decode_int8_workspace(s), s);
    if (status != WB_OK) return status;
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    const unsigned blocks = processors < MOST ? processors : MOST;
    const long long rows = (long long)s->batch * s->q_heads * s->q_len, at_once = MOST / blocks;
    for (long long row = 0; row < rows; row += at_once) {
        WB_CUDA(cudaMemsetAsync(workspace, 0, sizeof(unsigned) * MOST, stream));
        see_and_merge<<<dim3(blocks, (unsigned)(rows - row < at_once ? rows - row : at_once)), 32, 0, stream>>>(
            O, L, Q, K, V, K_scale, V_scale, page_table, kv_len, (room *)workspace, row, *s);
        WB_CUDA(cudaGetLastError());
    }
    return WB_OK;
}
