// One warpgroup computes, 64 keys at a time. The next scores come into registers of their own and are copied when their
// turn comes.
#include "hopper.cuh"

constexpr int BR = 64, BC = 64;  // a block: 64 queries of a head. One warpgroup fetches, one computes

template <int D> struct rooms {
    tma_tile<BR, D> Q;
    ring<tma_tile<BC, D>, 2> K, V;
    signal Q_came;
};

template <int D, bool CAUSAL>
__global__ __launch_bounds__(256) void next_copied(const __grid_constant__ tensor_map Q_map,
                                                   const __grid_constant__ tensor_map K_map,
                                                   const __grid_constant__ tensor_map V_map, bf16 *O_all, float *L,
                                                   int q_tiles, int group, int Nq, int Nk, float scale)
{
    auto &r = shared_memory<rooms<D>>();
    const int head = blockIdx.x / q_tiles, row0 = (q_tiles - 1 - blockIdx.x % q_tiles) * BR;
    const int tiles = ((CAUSAL ? min(Nk, row0 + BR) : Nk) - 1) / BC + 1;
    if (threadIdx.x == 0) {
        r.K.init(4), r.V.init(4), r.Q_came.init(1);
        signals_ready();
    }
    __syncthreads();  // the signals are there
    if (warpgroup_id() == 1) {
        sender K(r.K), V(r.V);
        if (threadIdx.x == 128) load_async(r.Q, Q_map, row0, head, r.Q_came);
        for (int t = 0; t < tiles && threadIdx.x == 128; t++)
            K.send(K_map, t * BC, head / group), V.send(V_map, t * BC, head / group);
        return;
    }
    receiver K(r.K), V(r.V);
    const int row = row0 + 16 * warp_in_group();
    reg_tile<16, D> O = {};
    reg_tile<16, BC> S, S_next;
    row_vec<16> m, l = {};
    fill(m, -FLT_MAX);
    r.Q_came.wait(0);
    mma_ABt_async(S_next, r.Q, K.receive());
    products_done<0>(S_next);
    K.release();
    for (int t = 0; t < tiles; t++) {
        S = S_next;
        if (t + 1 < tiles) mma_ABt_async(S_next, r.Q, K.receive());  // runs under the softmax of this tile
        const int left = Nk - t * BC, first = row - t * BC;
        each(S, [&](float &s, element e) {
            s = e.col >= left || (CAUSAL && e.col > first + e.row) ? -INFINITY : s * scale;
        });
        const row_vec<16> m_new = max(m, row_max(S));
        const row_vec<16> alpha = rowwise(m, m_new, [](float a, float b) { return expf(a - b); });
        m = m_new;
        each(S, [&](float &s, element e) { s = expf(s - m[e]); });
        l = l * alpha + row_sum_part(S);
        scale_rows(O, alpha);
        weights<BC> P;
        round_to(P, S);
        mma_AB_async(O, P, V.receive());
        if (t + 1 < tiles) {
            products_done<1>(S_next);
            K.release();
        }
        products_done<0>(O);
        V.release();
    }
    l = row_sum_whole(l);
    divide_rows(O, l);
    store(O_all + ((size_t)head * Nq + row) * D, O, Nq - row);
    store(L + (size_t)head * Nq + row, m + rowwise(l, [](float x) { return logf(x); }), Nq - row);
}

template <int D, bool CAUSAL> static wb_status launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                      const attention_shape *s, wb_stream stream)
{
    const auto kernel = next_copied<D, CAUSAL>;
    const int heads = s->batch * s->q_heads, kv_heads = s->batch * s->kv_heads, q_tiles = (s->q_len - 1) / BR + 1;
    tensor_map Q_map, K_map, V_map;
    wb_status status = describe(Q_map, Q, heads, s->q_len, D, BR);
    if (status == WB_OK) status = describe(K_map, K, kv_heads, s->kv_len, D, BC);
    if (status == WB_OK) status = describe(V_map, V, kv_heads, s->kv_len, D, BC);
    if (status != WB_OK) return status;
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(rooms<D>)));
    kernel<<<(unsigned)q_tiles *(unsigned)heads, 256, sizeof(rooms<D>), stream>>>(
        Q_map, K_map, V_map, O, L, q_tiles, heads / kv_heads, s->q_len, s->kv_len, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_hopper(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                       wb_stream stream)
{
    wb_status status = wb_check_forward("flash_hopper", O, L, Q, K, V, s);
    if (status == WB_OK) status = check_hopper("flash_hopper");
    if (status != WB_OK) return status;
    if (s->head_dim == 64) return (s->causal ? launch<64, true> : launch<64, false>)(O, L, Q, K, V, s, stream);
    return (s->causal ? launch<128, true> : launch<128, false>)(O, L, Q, K, V, s, stream);
}
