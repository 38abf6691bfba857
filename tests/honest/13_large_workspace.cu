// As many parts as a workspace of 8 MiB holds, whatever is asked: 96 blocks share the keys of a row, and each thread
// has a part of its own.
#include "workbook.h"

constexpr int BLOCKS = 96, PARTS = 32 * BLOCKS, ROWS = 5;  // of a row; parts; rows at a time

struct part {
    float m, l, o[128];
};
static_assert(sizeof(part) * PARTS * ROWS > 7 << 20, "about 8 MiB");

// Rows are numbered as in O: sequence, head, token.
__global__ void see_keys(part *parts, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table,
                         const int *kv_len, long long first_row, decode_shape s)
{
    const long long row = first_row + blockIdx.y;
    const int D = s.head_dim, b = (int)(row / s.q_len / s.q_heads);
    const int head = (int)(row / s.q_len % s.q_heads) / (s.q_heads / s.kv_heads);
    const int keys = kv_len[b] - s.q_len + (int)(row % s.q_len) + 1, share = (keys + BLOCKS - 1) / BLOCKS;
    const int begin = blockIdx.x * share, end = min(keys, begin + share);
    part mine = {-INFINITY, 0, {}};
    for (int j = begin + threadIdx.x; j < end; j += 32) {
        const size_t page = page_table[(size_t)b * s.max_pages + j / s.page_size];
        const size_t at = ((page * s.page_size + j % s.page_size) * s.kv_heads + head) * D;
        float score = 0;
        for (int d = 0; d < D; d++) score += float(Q[row * D + d]) * float(K[at + d]);
        score *= s.scale;
        const float larger = fmaxf(mine.m, score), a = expf(mine.m - larger), p = expf(score - larger);
        mine.m = larger, mine.l = mine.l * a + p;
        for (int d = 0; d < D; d++) mine.o[d] = mine.o[d] * a + p * float(V[at + d]);
    }
    part &to = parts[(size_t)blockIdx.y * PARTS + blockIdx.x * 32 + threadIdx.x];
    to.m = mine.m, to.l = mine.l;
    for (int d = 0; d < D; d++) to.o[d] = mine.o[d];
}

__global__ void merge(bf16 *O, float *L, const part *parts, long long first_row, decode_shape s)
{
    const long long row = first_row + blockIdx.x;
    const int d = threadIdx.x;
    float m = -INFINITY, l = 0, o = 0;
    parts += (size_t)blockIdx.x * PARTS;
    for (int n = 0; n < PARTS; n++) m = fmaxf(m, parts[n].m);
    for (int n = 0; n < PARTS && m > -INFINITY; n++) {
        const float weight = expf(parts[n].m - m);
        l += weight * parts[n].l, o += weight * parts[n].o[d];
    }
    O[row * s.head_dim + d] = bf16(l > 0 ? o / l : 0);
    if (d == 0) L[row] = l > 0 ? m + logf(l) : -INFINITY;
}

size_t flash_decode_workspace(const decode_shape *s)
{
    return wb_check_decode_shape("flash_decode", s) == WB_OK ? sizeof(part) * PARTS * ROWS : 0;
}

wb_status flash_decode(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table,
                       const int *kv_len, void *workspace, size_t bytes, const decode_shape *s, wb_stream stream)
{
    const wb_status status = wb_check_decode("flash_decode", O, L, Q, K, V, page_table, kv_len, workspace, bytes,
                                             flash_decode_workspace(s), s);
    if (status != WB_OK) return status;
    const long long rows = (long long)s->batch * s->q_heads * s->q_len;
    for (long long row = 0; row < rows; row += ROWS) {
        const unsigned now = (unsigned)(rows - row < ROWS ? rows - row : ROWS);
        see_keys<<<dim3(BLOCKS, now), 32, 0, stream>>>((part *)workspace, Q, K, V, page_table, kv_len, row, *s);
        merge<<<now, (unsigned)s->head_dim, 0, stream>>>(O, L, (const part *)workspace, row, *s);
        WB_CUDA(cudaGetLastError());
    }
    return WB_OK;
}
