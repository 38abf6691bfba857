// backward.cuh - flash_ring_backward as `make ring PASS=backward` runs it. What it is given as O and L are no forward
// pass's: any will do, for gradients are a formula of them. O is drawn, and L is about what it would be. In the words
// of ring.cu.
#pragma once

struct ring_pass {
    static constexpr int NUMBER = 18, FLOPS = 10, NAMES = 3;
    static constexpr const char *names[NAMES] = {"dQ", "dK", "dV"};
    bf16 *dQ, *dK, *dV, *Q, *K, *V, *O, *dO;
    float *delta, *L;
    char *workspace;
    size_t bytes;

    wb_status make(const wb_ring &ring, const attention_shape &shape, wb_stream stream)
    {
        const size_t q = (size_t)(ask.B * ask.Hq);
        const long second = 2 * ask.RANKS - 1 - ring.rank;
        bytes = flash_ring_backward_workspace(&shape, &ring);
        for (float **t : {&delta, &L}) DO(allocate(t, q * my_rows(ring.rank)));
        DO(allocate(&workspace, bytes));
        DO(make_tensors({{&dQ, ask.Hq, OUTPUT},
                         {&dK, ask.Hkv, OUTPUT},
                         {&dV, ask.Hkv, OUTPUT},
                         {&Q, ask.Hq, Q_DRAWN},
                         {&O, ask.Hq, O_DRAWN},
                         {&dO, ask.Hq, DO_DRAWN},
                         {&K, ask.Hkv, K_DRAWN},
                         {&V, ask.Hkv, V_DRAWN}},
                        ring.rank, stream));
        DO(statistics(L, nullptr, 0, q, chunk_begin(ring.rank), chunk_rows(ring.rank), stream));
        return statistics(L + q * chunk_rows(ring.rank), nullptr, 0, q, chunk_begin(second), chunk_rows(second),
                          stream);
    }
    wb_status call(const wb_ring &ring, const attention_shape &shape, wb_stream stream) const
    {
        return flash_ring_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, workspace, bytes, &shape, &ring, stream);
    }
    static size_t io_bytes(size_t rows)
    {
        return (size_t)ask.B * rows * (4 * (size_t)(ask.Hq + ask.Hkv) * (size_t)ask.D * 2 + (size_t)ask.Hq * 8);
    }
    wb_status end() const { return free_all({dQ, dK, dV, Q, K, V, O, dO, delta, L, workspace}); }

    // How far rows of dQ, of dK and of dV are from what they should be, as a part of a row's length: the largest of
    // some. A query by itself meets all keys that it sees, and a key all queries of its group that see it.
    wb_status compare(const wb_ring &ring, const attention_shape &shape, wb_stream stream, float far[NAMES]) const
    {
        enum { ROWS = 4 };
        const size_t D = (size_t)ask.D, N = (size_t)ask.N, group = (size_t)(ask.Hq / ask.Hkv);
        bf16 *many[2], *one[2];  // K and V and a row of Q and dO, or the other way round
        float *l, *sums, *gradients[3];
        for (int n = 0; n < 2; n++) {
            DO(allocate(&many[n], group * N * D));
            DO(allocate(&one[n], D));
        }
        DO(allocate(&l, group * N));
        DO(allocate(&sums, group * N));
        for (float *&g : gradients) DO(allocate(&g, group * N * D));
        for (int n = 0; n < 2 * ROWS; n++) {
            const bool of_key = n >= ROWS;
            const row_of_rank row = draw_row(ring.rank, n, (size_t)(ask.B * (of_key ? ask.Hkv : ask.Hq)));
            if (!row.any) continue;
            for (float *g : gradients) WB_CUDA(cudaMemsetAsync(g, 0, group * N * D * sizeof(float), stream));
            attention_shape part = shape;
            part.batch = part.q_heads = part.kv_heads = part.q_len = part.kv_len = 1, part.causal = 0;
            if (of_key) {
                const size_t from = ask.CAUSAL ? row.i : 0, queries = N - from, head = row.head * group;
                part.q_heads = (int)group, part.q_len = (int)queries;
                DO(draw(many[0], Q_DRAWN, head, group, from, queries, stream));
                DO(draw(many[1], DO_DRAWN, head, group, from, queries, stream));
                DO(draw(one[0], K_DRAWN, row.head, 1, row.i, 1, stream));
                DO(draw(one[1], V_DRAWN, row.head, 1, row.i, 1, stream));
                DO(statistics(l, sums, head, group, from, queries, stream));
            } else {
                const size_t keys = ask.CAUSAL ? row.i + 1 : N, kv_head = row.head / group;
                part.kv_len = (int)keys;
                DO(draw(one[0], Q_DRAWN, row.head, 1, row.i, 1, stream));
                DO(draw(one[1], DO_DRAWN, row.head, 1, row.i, 1, stream));
                DO(draw(many[0], K_DRAWN, kv_head, 1, 0, keys, stream));
                DO(draw(many[1], V_DRAWN, kv_head, 1, 0, keys, stream));
                DO(statistics(l, sums, row.head, 1, row.i, 1, stream));
            }
            bf16 *const *queries = of_key ? many : one, *const *keys = of_key ? one : many;
            DO(wb_attention_backward(gradients[0], gradients[1], gradients[2], queries[0], keys[0], keys[1], queries[1],
                                     l, sums, &part, stream));
            DO(wb_device_synchronize());
            if (!of_key) DO(distance(dQ + row.at * D, gradients[0], &far[0]));
            if (of_key) DO(distance(dK + row.at * D, gradients[1], &far[1]));
            if (of_key) DO(distance(dV + row.at * D, gradients[2], &far[2]));
        }
        DO(free_all({many[0], many[1], one[0], one[1], l, sums}));
        return free_all({gradients[0], gradients[1], gradients[2]});
    }
};

// The whole sequence on one GPU, as one pair: R times what a rank would take if nothing were lost.
struct alone_pass {
    bf16 *Q, *K, *V, *dO;
    float *dQ, *dK, *dV, *L, *delta;

    wb_status make(wb_stream stream)
    {
        const size_t q = (size_t)(ask.B * ask.Hq), kv = (size_t)(ask.B * ask.Hkv), N = (size_t)ask.N, D = (size_t)ask.D;
        for (float **t : {&dK, &dV}) DO(allocate(t, kv * N * D));
        for (float **t : {&L, &delta}) DO(allocate(t, q * N));
        DO(allocate(&dQ, q * N * D));
        DO(make_tensors(
            {{&Q, ask.Hq, Q_DRAWN}, {&dO, ask.Hq, DO_DRAWN}, {&K, ask.Hkv, K_DRAWN}, {&V, ask.Hkv, V_DRAWN}}, -1,
            stream));
        return statistics(L, delta, 0, q, 0, N, stream);
    }
    wb_status call(const attention_shape &shape, wb_stream stream) const
    {
        const size_t kv = (size_t)(ask.B * ask.Hkv), N = (size_t)ask.N, D = (size_t)ask.D;
        WB_CUDA(cudaMemsetAsync(dQ, 0, (size_t)(ask.B * ask.Hq) * N * D * sizeof(float), stream));
        for (float *t : {dK, dV}) WB_CUDA(cudaMemsetAsync(t, 0, kv * N * D * sizeof(float), stream));
        return wb_attention_backward(dQ, dK, dV, Q, K, V, dO, L, delta, &shape, stream);
    }
    wb_status end() const { return free_all({Q, K, V, dO, dQ, dK, dV, L, delta}); }
};
