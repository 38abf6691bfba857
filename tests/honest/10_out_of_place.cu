// The weights are written to registers of their own: a tile of scores stays as the product left it.
#include "parts/one_computes.cu"

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
