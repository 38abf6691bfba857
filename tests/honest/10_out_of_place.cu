// One warpgroup fetches, one computes. The weights are written to registers of their own: a tile of scores stays as
// the product left it.
#include "hopper.cuh"

constexpr int BR = 64, BC = 64;  // a block: 64 queries of a head. One warpgroup fetches, one computes

template <int D> struct rooms {
    tma_tile<BR, D> Q;
    ring<tma_tile<BC, D>, 2> K, V;
    signal Q_came;
};

// O, not yet divided, and m and l of a warp's rows.
template <int D, bool CAUSAL> __device__ void walk(rooms<D> &r, reg_tile<16, D> &O, row_vec<16> &m, row_vec<16> &l,
                                                   int row, int tiles, int Nk, float scale)
{
    receiver K(r.K), V(r.V);
    weights<BC> P_now;
    r.Q_came.wait(0);
    for (int t = 0; t <= tiles; t++) {  // the scores of tile t, the weights of tile t - 1
        reg_tile<16, BC> S, P;
        if (t < tiles) mma_ABt_async(S, r.Q, K.receive());
        if (t > 0) mma_AB_async(O, P_now, V.receive());
        row_vec<16> alpha;
        if (t < tiles) {
            if (t > 0)
                products_done<1>(S);
            else
                products_done<0>(S);
            K.release();
            const int left = Nk - t * BC, first = row - t * BC;
            const auto hidden = [&](element e) { return e.col >= left || (CAUSAL && e.col > first + e.row); };
            row_vec<16> top;
            fill(top, -FLT_MAX);
            each(S, [&](const float &s, element e) {
                if (!hidden(e)) top.x[e.row_slot] = fmaxf(top.x[e.row_slot], s * scale);
            });
            const row_vec<16> m_new = max(m, row_max_whole(top));
            alpha = rowwise(m, m_new, [](float a, float b) { return expf(a - b); });
            m = m_new;
            each(P, [&](float &p, element e) { p = hidden(e) ? 0 : expf(S[e] * scale - m[e]); });
            l = l * alpha + row_sum_part(P);
        }
        if (t > 0) {
            products_done<0>(O);
            V.release();
        }
        if (t < tiles) round_to(P_now, P);
        if (t < tiles && t > 0) scale_rows(O, alpha);
    }
}

template <int D, bool CAUSAL>
__global__ __launch_bounds__(256) void one_computes(const __grid_constant__ tensor_map Q_map,
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
    const int row = row0 + 16 * warp_in_group();
    reg_tile<16, D> O = {};
    row_vec<16> m, l = {};
    fill(m, -FLT_MAX);
    walk<D, CAUSAL>(r, O, m, l, row, tiles, Nk, scale);
    l = row_sum_whole(l);
    divide_rows(O, l);
    store(O_all + ((size_t)head * Nq + row) * D, O, Nq - row);
    store(L + (size_t)head * Nq + row, m + rowwise(l, [](float x) { return logf(x); }), Nq - row);
}

template <int D, bool CAUSAL> static wb_status launch(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                      const attention_shape *s, wb_stream stream)
{
    const auto kernel = one_computes<D, CAUSAL>;
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
