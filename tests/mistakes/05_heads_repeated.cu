// mistake: takes key head h % Hkv instead of h / (Hq / Hkv) for query head h
#include "workbook.h"
#include "tile.cuh"

// Two warps, 16 queries each; 64 keys a tile. One loop with the mask in every tile.
template <int D> __global__ __launch_bounds__(64) void gqa(bf16 *O, float *L, const bf16 *Q, const bf16 *K,
                                                           const bf16 *V, int Hq, int Hkv, int N, float scale)
{
    extern __shared__ uint4 raw[];
    auto *const Q_smem = reinterpret_cast<smem_tile<32, D> *>(raw);
    auto *const K_smem = reinterpret_cast<smem_tile<64, D> *>(Q_smem + 1), *const V_smem = K_smem + 1;

    const int b = blockIdx.z, h = blockIdx.y, start = blockIdx.x * 32, row = start + 16 * warp_id();
    const int kv = h % Hkv;
    const size_t q_offset = ((size_t)b * Hq + h) * N;
    const size_t kv_offset = ((size_t)b * Hkv + kv) * N;

    load_async<64>(*Q_smem, Q + (q_offset + start) * D, N - start);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();
    operand<16, D> q;
    load(q, *Q_smem, 16 * warp_id());

    reg_tile<16, D> acc = {};
    row_vec<16> m, l = {};
    fill(m, -FLT_MAX);
    const int stop = min(N, start + 32);
    for (int j0 = 0; j0 < stop; j0 += 64) {
        __syncthreads();  // the last tile is no longer read
        load_async<64>(*K_smem, K + (kv_offset + j0) * D, N - j0);
        load_async<64>(*V_smem, V + (kv_offset + j0) * D, N - j0);
        loads_issued();
        loads_arrived<0>();
        __syncthreads();  // this one is there

        reg_tile<16, 64> s = {};
        mma_ABt(s, q, *K_smem);
        each(s, [&](float &x, element e) {
            x *= scale * 1.44269504f;
            if (j0 + e.col > row + e.row) x = -INFINITY;
        });
        const row_vec<16> top = max(m, row_max(s)), shrink = exp2(m - top);
        each(s, [&](float &x, element e) { x = exp2_fast(x - top[e]); });
        scale_rows(acc, shrink);
        l = l * shrink + row_sum(s);
        m = top;
        mma_AB(acc, s, *V_smem);
    }
    scale_rows(acc, rowwise(l, [](float x) { return 1 / x; }));
    store(O + (q_offset + row) * D, acc, N - row);
    store(L + q_offset + row, rowwise(m, l, [](float a, float x) { return a * 0.69314718f + logf(x); }), N - row);
}

template <int D> static wb_status go(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                     const attention_shape *a, wb_stream stream)
{
    const int bytes = (int)(sizeof(smem_tile<32, D>) + 2 * sizeof(smem_tile<64, D>));
    WB_CUDA(cudaFuncSetAttribute(gqa<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    gqa<D><<<dim3((a->q_len - 1) / 32 + 1, a->q_heads, a->batch), 64, bytes, stream>>>(O, L, Q, K, V, a->q_heads,
                                                                                       a->kv_heads, a->q_len, a->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_gqa(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                    wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return go<16>(O, L, Q, K, V, shape, stream);
    case 32: return go<32>(O, L, Q, K, V, shape, stream);
    case 64: return go<64>(O, L, Q, K, V, shape, stream);
    default: return go<128>(O, L, Q, K, V, shape, stream);
    }
}
