// mistake: takes the score 0 instead of -infinity for the keys past the end of the last tile
#include "workbook.h"
#include "tile.cuh"

// Four warps with 16 queries each, tiles of 32 keys, one buffer.
template <int D> __global__ __launch_bounds__(128) void flash_forward_kernel(bf16 *O, float *L, const bf16 *Q,
                                                                             const bf16 *K, const bf16 *V, int Nq,
                                                                             int Nk, float scale)
{
    __shared__ smem_tile<64, D> Qs;
    __shared__ smem_tile<32, D> Ks, Vs;
    const size_t bh = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    const int q0 = blockIdx.x * 64, mine = q0 + 16 * warp_id();
    K += bh * Nk * D;
    V += bh * Nk * D;

    load_async<128>(Qs, Q + (bh * Nq + q0) * D, Nq - q0);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();  // Q is complete
    operand<16, D> q;
    load(q, Qs, 16 * warp_id());

    const float c = scale * 1.44269504f;
    reg_tile<16, D> o = {};
    row_vec<16> m, l = {};
    fill(m, -FLT_MAX);
    for (int j0 = 0; j0 < Nk; j0 += 32) {
        load_async<128>(Ks, K + (size_t)j0 * D, Nk - j0);
        load_async<128>(Vs, V + (size_t)j0 * D, Nk - j0);
        loads_issued();
        loads_arrived<0>();
        __syncthreads();  // the tile is complete

        reg_tile<16, 32> s = {};
        mma_ABt(s, q, Ks);
        each(s, [&](float &x, element e) {
            x *= c;
            if (j0 + e.col >= Nk) x = 0;
        });
        const row_vec<16> m_old = m;
        m = max(m_old, row_max(s));
        const row_vec<16> a = exp2(m_old - m);
        each(s, [&](float &x, element e) { x = exp2_fast(x - m[e]); });
        l = l * a + row_sum(s);
        scale_rows(o, a);
        mma_AB(o, s, Vs);
        __syncthreads();  // nobody reads the tile any more
    }

    scale_rows(o, rowwise(l, [](float sum) { return 1.0f / sum; }));
    store(O + (bh * Nq + mine) * D, o, Nq - mine);
    store(L + bh * Nq + mine, rowwise(m, l, [](float p, float sum) { return 0.69314718f * (p + log2f(sum)); }),
          Nq - mine);
}

template <int D> static wb_status run(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                      const attention_shape *shape, wb_stream stream)
{
    const dim3 grid((shape->q_len + 63) / 64, shape->q_heads, shape->batch);
    flash_forward_kernel<D><<<grid, 128, 0, stream>>>(O, L, Q, K, V, shape->q_len, shape->kv_len, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return run<16>(O, L, Q, K, V, shape, stream);
    case 32: return run<32>(O, L, Q, K, V, shape, stream);
    case 64: return run<64>(O, L, Q, K, V, shape, stream);
    default: return run<128>(O, L, Q, K, V, shape, stream);
    }
}
