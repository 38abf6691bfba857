// shared_keys.cu - flash_forward with tiles of 32 keys in shared memory, which the eight queries of a block share. A
// lane owns a key for the scores, and columns for the outputs: one shuffle a key instead of five.
// exempt: times
#include "workbook.h"
#include "tile.cuh"

enum { THREADS = 256, BC = 32 };  // of a block: eight queries; keys of a tile, one a lane

// What a block keeps in shared memory.
template <int D> struct forward_tiles {
    smem_tile<BC, D> K_smem, V_smem;
};

template <int D> __global__ __launch_bounds__(THREADS) void forward_kernel(
    bf16 *O,        // [B, H, Nq, D]
    float *L,       // [B, H, Nq]
    const bf16 *Q,  // [B, H, Nq, D]
    const bf16 *K,  // [B, H, Nk, D]
    const bf16 *V,  // [B, H, Nk, D]
    int Nq, int Nk, float scale)
{
    constexpr int LANES = D < 32 ? D : 32, COLS = D / LANES;  // D 16: lanes 16 to 31 do what 0 to 15 do
    extern __shared__ uint4 shared[];
    auto &tiles = *reinterpret_cast<forward_tiles<D> *>(shared);

    // who am I: column `lane` of query i of a head; heads are counted over the whole batch
    const int i = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = threadIdx.x % LANES;
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    Q += (head * Nq + min(i, Nq - 1)) * D;  // warps beyond the last query take part in the loads
    K += head * Nk * D;
    V += head * Nk * D;

    // load: the query, times scale and log2(e), so that scores are in base 2
    float q[D], o[COLS] = {}, m = -FLT_MAX, l = 0;
    for (int d = 0; d < D; d++) q[d] = scale * 1.44269504f * (float)Q[d];

    for (int first = 0; first < Nk; first += BC) {
        __syncthreads();  // no warp reads the tile before any more
        load_async<THREADS>(tiles.K_smem, K + (size_t)first * D, Nk - first);
        load_async<THREADS>(tiles.V_smem, V + (size_t)first * D, Nk - first);
        loads_issued();
        loads_arrived<0>();
        __syncthreads();  // the tile is there for all warps
        float s = first + lane_id() < Nk ? 0 : -INFINITY;
        for (int d = 0; d < D; d += 8) {
            alignas(16) bf16 k[8];  // 16 bytes at once: see smem_tile
            *reinterpret_cast<uint4 *>(k) = *reinterpret_cast<const uint4 *>(&tiles.K_smem.at[lane_id()][d]);
            for (int e = 0; e < 8; e++) s += q[d + e] * (float)k[e];
        }
        // max
        float m_new = s;
        for (int other = 16; other > 0; other /= 2) m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, other));
        m_new = fmaxf(m, m_new);
        // rescale
        const float alpha = exp2f(m - m_new);
        m = m_new;
        l *= alpha;
        for (int c = 0; c < COLS; c++) o[c] *= alpha;
        // accumulate
        const float p = exp2f(s - m);
        l += p;  // of the lane's keys
        for (int j = 0; j < BC; j++) {
            const float p_j = __shfl_sync(0xffffffffu, p, j);
            for (int c = 0; c < COLS; c++) o[c] += p_j * (float)tiles.V_smem.at[j][lane + 32 * c];
        }
    }
    for (int other = 16; other > 0; other /= 2) l += __shfl_xor_sync(0xffffffffu, l, other);

    // finalize, store
    if (i >= Nq || threadIdx.x % 32 >= LANES) return;
    for (int c = 0; c < COLS; c++) O[(head * Nq + i) * D + lane + 32 * c] = __float2bfloat16(o[c] / l);
    if (lane == 0) L[head * Nq + i] = (m + log2f(l)) * 0.69314718f;  // ln(2): base e
}

wb_status flash_forward(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    auto kernel = forward_kernel<16>;
    size_t bytes = sizeof(forward_tiles<16>);
    if (shape->head_dim == 32) kernel = forward_kernel<32>, bytes = sizeof(forward_tiles<32>);
    if (shape->head_dim == 64) kernel = forward_kernel<64>, bytes = sizeof(forward_tiles<64>);
    if (shape->head_dim == 128) kernel = forward_kernel<128>, bytes = sizeof(forward_tiles<128>);
    const dim3 grid((shape->q_len - 1) / (THREADS / 32) + 1, shape->q_heads, shape->batch);
    kernel<<<grid, THREADS, bytes, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
