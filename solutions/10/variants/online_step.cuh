// online_step.cuh - 10's step of the online softmax, for tiles of any number of keys: for its variants, and others that
// walk as it does. No guard: each of a library's kernels has its own, in its namespace.

// S becomes P. Returns whether O has to be multiplied by alpha: here a product may be adding to it.
template <int BC>
TILE_FN bool online_step(reg_tile<16, BC> &S, row_vec<16> &m, row_vec<16> &l, row_vec<16> &alpha, float scale2)
{
    const row_vec<16> S_max = row_max_part(S) * scale2;
    const bool outgrown = any_above(S_max, m + 8.0f);
    if (outgrown) {
        const row_vec<16> m_new = max(m, row_max_whole(S_max));
        alpha = exp2(m - m_new), m = m_new, l = l * alpha;
    }
    each(S, [&](float &s, element e) { s = exp2_fast(s * scale2 - m[e]); });
    l = l + row_sum_part(S);
    return outgrown;
}
