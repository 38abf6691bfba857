// As many blocks as fit, each with one tile of 32 queries after the other. The keys of the first tile that the next one
// sees are on their way before its queries are: K, then Q.
#include "workbook.h"

#include <float.h>

constexpr int ROWS = 32, KEYS = 32;

template <int D> struct rooms {
    float Q[ROWS][D], K[2][KEYS][D], V[KEYS][D];
};

struct work {  // a tile of queries of a head
    size_t head, kv;
    int row;
    __device__ work(long long n, const attention_shape &s)
    {
        const int tiles = (s.q_len - 1) / ROWS + 1, group = s.q_heads / s.kv_heads;
        head = n / tiles, row = (int)(n % tiles) * ROWS;
        kv = head / s.q_heads * s.kv_heads + head % s.q_heads / group;
    }
    __device__ int first(const attention_shape &s) const { return row < s.window ? 0 : (row - s.window + 1) / KEYS; }
};

// Rows row ... row + 31 of a head; those beyond the end are zeros.
template <int D> static __device__ void fetch(float (*to)[D], const bf16 *from, size_t head, int row, int N)
{
    for (int k = threadIdx.x; k < 32 * D; k += blockDim.x)
        to[k / D][k % D] = row + k / D < N ? float(from[(head * N + row) * D + k]) : 0;
}

template <int D> __global__ void persistent(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                            attention_shape s, long long tiles)
{
    extern __shared__ float4 shared[];
    rooms<D> &r = *reinterpret_cast<rooms<D> *>(shared);
    const int N = s.q_len, me = threadIdx.x;
    int now = 0;
    long long n = blockIdx.x;
    if (n < tiles) fetch<D>(r.K[now], K, work(n, s).kv, work(n, s).first(s) * KEYS, N);
    for (; n < tiles; n += gridDim.x) {
        const work w(n, s);
        fetch<D>(r.Q, Q, w.head, w.row, N);
        const int i = w.row + me, end = min(w.row + ROWS, N);
        float o[D] = {}, m = -FLT_MAX, l = 0;
        for (int t = w.first(s); t * KEYS < end; t++, now = 1 - now) {
            fetch<D>(r.V, V, w.kv, t * KEYS, N);
            __syncthreads();  // K, V and Q are there
            if ((t + 1) * KEYS < end)
                fetch<D>(r.K[1 - now], K, w.kv, (t + 1) * KEYS, N);
            else if (n + gridDim.x < tiles)
                fetch<D>(r.K[1 - now], K, work(n + gridDim.x, s).kv, work(n + gridDim.x, s).first(s) * KEYS, N);
            for (int c = 0; c < KEYS && i < N; c++) {
                const int j = t * KEYS + c;
                if (j > i || i - j >= s.window) continue;
                float score = 0;
                for (int d = 0; d < D; d++) score += r.Q[me][d] * r.K[now][c][d];
                score *= s.scale;
                const float larger = fmaxf(m, score), a = expf(m - larger), p = expf(score - larger);
                m = larger, l = l * a + p;
                for (int d = 0; d < D; d++) o[d] = o[d] * a + p * r.V[c][d];
            }
            __syncthreads();  // nobody reads them any more
        }
        for (int d = 0; d < D && i < N; d++) O[(w.head * N + i) * D + d] = bf16(o[d] / l);
        if (i < N) L[w.head * N + i] = m + logf(l);
    }
}

template <int D> static wb_status launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const attention_shape *s, wb_stream stream)
{
    int device, processors, together;
    const int bytes = sizeof(rooms<D>);
    const long long tiles = ((s->q_len - 1ll) / ROWS + 1) * s->q_heads * s->batch;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    WB_CUDA(cudaFuncSetAttribute(persistent<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    WB_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&together, persistent<D>, ROWS, bytes));
    persistent<D><<<processors * together, ROWS, bytes, stream>>>(O, L, Q, K, V, *s, tiles);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    switch (s->head_dim) {
    case 16: return launch<16>(O, L, Q, K, V, s, stream);
    case 32: return launch<32>(O, L, Q, K, V, s, stream);
    case 64: return launch<64>(O, L, Q, K, V, s, stream);
    default: return launch<128>(O, L, Q, K, V, s, stream);
    }
}
