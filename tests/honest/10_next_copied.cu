// The next scores come into registers of their own and are copied when their turn comes.
#include "parts/one_computes.cu"

template <int D, bool CAUSAL> __device__ void walk(rooms<D> &r, reg_tile<16, D> &O, row_vec<16> &m, row_vec<16> &l,
                                                   int row, int tiles, int Nk, float scale)
{
    receiver K(r.K), V(r.V);
    reg_tile<16, BC> S, S_next;
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
}
