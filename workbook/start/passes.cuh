// passes.cuh - what ring.cu runs: its tensors on a rank, the call, and what its rows should be. In ring.cu's words.
#pragma once

#ifndef BACKWARD

// flash_ring: make ring.
struct ring_pass : device_memory {
    static constexpr int NUMBER = 17, FLOPS = 4, NAMES = 2;
    static constexpr const char *names[NAMES] = {"O", "L"};
    bf16 *O, *Q, *K, *V;
    float *L;
    char *workspace;
    size_t needed;

    static size_t needs(const attention_shape &shape, const wb_ring &ring)
    {
        return flash_ring_workspace(&shape, &ring);
    }
    // On a rank; with rank -1, for call_alone, the whole sequence.
    wb_status make(int rank, wb_stream stream)
    {
        return make_tensors(*this,
                            {{&O, ask.Hq, OUTPUT},
                             {&L, ask.Hq, STATISTIC},
                             {&Q, ask.Hq, Q_DRAWN},
                             {&K, ask.Hkv, K_DRAWN},
                             {&V, ask.Hkv, V_DRAWN}},
                            rank, stream);
    }
    wb_status call(const wb_ring &ring, const attention_shape &shape, wb_stream stream) const
    {
        return flash_ring(O, L, Q, K, V, workspace, needed, &shape, &ring, stream);
    }
    // On one GPU, as one pair: R times what a rank would take if nothing were lost.
    wb_status call_alone(const attention_shape &shape, wb_stream stream) const
    {
        return wb_attention(O, L, Q, K, V, &shape, stream);
    }

    // How far O of some rows is from what it should be, as a part of a row's length, and L: the largest.
    wb_status compare(const wb_ring &ring, const attention_shape &shape, wb_stream stream, float far[NAMES]) const
    {
        enum { ROWS = 8 };
        const size_t D = (size_t)ask.D, N = (size_t)ask.N;
        device_memory memory;
        bf16 *q, *k, *v, *o;
        float *l;
        for (bf16 **at : {&q, &o}) DO(memory.allocate(at, D));
        for (bf16 **at : {&k, &v}) DO(memory.allocate(at, N * D));
        DO(memory.allocate(&l, 1));
        for (int n = 0; n < ROWS; n++) {
            const row_of_rank row = draw_row(ring.rank, n, (size_t)(ask.B * ask.Hq));
            if (!row.any) continue;
            const size_t kv_head = row.head / (size_t)(ask.Hq / ask.Hkv), keys = ask.CAUSAL ? row.i + 1 : N;
            DO(draw(q, Q_DRAWN, row.head, 1, row.i, 1, stream));
            DO(draw(k, K_DRAWN, kv_head, 1, 0, keys, stream));
            DO(draw(v, V_DRAWN, kv_head, 1, 0, keys, stream));
            attention_shape one = shape;
            one.batch = one.q_heads = one.kv_heads = one.q_len = 1, one.kv_len = (int)keys, one.causal = 0;
            DO(wb_attention(o, l, q, k, v, &one, stream));
            DO(wb_device_synchronize());
            float L_got, L_want;
            DO(distance(O + row.at * D, o, &far[0]));
            DO(wb_copy_to_host(&L_got, L + row.at, sizeof(float)));
            DO(wb_copy_to_host(&L_want, l, sizeof(float)));
            const float off = fabsf(L_got - L_want);
            if (!(off <= far[1])) far[1] = off;
        }
        return WB_OK;
    }
};

#else

// flash_ring_backward: make ring PASS=backward. What it is given as O and L are no forward pass's: any will do, for
// gradients are a formula of them. O is drawn, and L is about what it would be.
struct ring_pass : device_memory {
    static constexpr int NUMBER = 18, FLOPS = 10, NAMES = 3;
    static constexpr const char *names[NAMES] = {"dQ", "dK", "dV"};
    void *gradient[NAMES];  // bf16; of call_alone float32
    bf16 *Q, *K, *V, *O, *dO;
    float *delta, *L;
    char *workspace;
    size_t needed;

    static size_t needs(const attention_shape &shape, const wb_ring &ring)
    {
        return flash_ring_backward_workspace(&shape, &ring);
    }
    // On a rank; with rank -1, for call_alone, the whole sequence.
    wb_status make(int rank, wb_stream stream)
    {
        const bool alone = rank < 0;
        const int output = alone ? SUMS : OUTPUT;
        return make_tensors(*this,
                            {{&gradient[0], ask.Hq, output},
                             {&gradient[1], ask.Hkv, output},
                             {&gradient[2], ask.Hkv, output},
                             {&delta, ask.Hq, alone ? DELTA_DRAWN : STATISTIC},
                             {&L, ask.Hq, L_DRAWN},
                             {&Q, ask.Hq, Q_DRAWN},
                             {&O, alone ? 0 : ask.Hq, O_DRAWN},
                             {&dO, ask.Hq, DO_DRAWN},
                             {&K, ask.Hkv, K_DRAWN},
                             {&V, ask.Hkv, V_DRAWN}},
                            rank, stream);
    }
    wb_status call(const wb_ring &ring, const attention_shape &shape, wb_stream stream) const
    {
        return flash_ring_backward((bf16 *)gradient[0], (bf16 *)gradient[1], (bf16 *)gradient[2], delta, Q, K, V, O, L,
                                   dO, workspace, needed, &shape, &ring, stream);
    }
    // On one GPU, as one pair: R times what a rank would take if nothing were lost.
    wb_status call_alone(const attention_shape &shape, wb_stream stream) const
    {
        for (int n = 0; n < NAMES; n++)
            WB_CUDA(
                cudaMemsetAsync(gradient[n], 0, (size_t)(ask.B * (n ? ask.Hkv : ask.Hq) * ask.N * ask.D) * 4, stream));
        return wb_attention_backward((float *)gradient[0], (float *)gradient[1], (float *)gradient[2], Q, K, V, dO, L,
                                     delta, &shape, stream);
    }

    // How far rows of dQ, of dK and of dV are from what they should be, as a part of a row's length: the largest of
    // some. A query by itself meets all keys that it sees, and a key all queries of its group that see it.
    wb_status compare(const wb_ring &ring, const attention_shape &shape, wb_stream stream, float far[NAMES]) const
    {
        enum { ROWS = 4 };
        const size_t D = (size_t)ask.D, N = (size_t)ask.N, group = (size_t)(ask.Hq / ask.Hkv);
        device_memory memory;
        bf16 *many[2], *one[2];  // K and V and a row of Q and dO, or the other way round
        float *l, *sums, *want[NAMES];
        for (int n = 0; n < 2; n++) {
            DO(memory.allocate(&many[n], group * N * D));
            DO(memory.allocate(&one[n], D));
        }
        for (float **at : {&l, &sums}) DO(memory.allocate(at, group * N));
        for (float *&at : want) DO(memory.allocate(&at, group * N * D));
        for (int n = 0; n < 2 * ROWS; n++) {
            const bool of_key = n >= ROWS;
            const row_of_rank row = draw_row(ring.rank, n, (size_t)(ask.B * (of_key ? ask.Hkv : ask.Hq)));
            if (!row.any) continue;
            for (float *at : want) WB_CUDA(cudaMemsetAsync(at, 0, group * N * D * sizeof(float), stream));
            // the row, and those that it meets: of so many heads from `head` on, rows `from` and on
            const size_t head = of_key ? row.head * group : row.head / group, heads = of_key ? group : 1;
            const size_t from = of_key && ask.CAUSAL ? row.i : 0, rows = of_key || !ask.CAUSAL ? N - from : row.i + 1;
            attention_shape part = shape;
            part.batch = part.kv_heads = 1, part.causal = 0, part.q_heads = (int)heads;
            part.q_len = of_key ? (int)rows : 1, part.kv_len = of_key ? 1 : (int)rows;
            const int mine[2] = {of_key ? K_DRAWN : Q_DRAWN, of_key ? V_DRAWN : DO_DRAWN};
            const int others[2] = {of_key ? Q_DRAWN : K_DRAWN, of_key ? DO_DRAWN : V_DRAWN};
            for (int k = 0; k < 2; k++) {
                DO(draw(one[k], mine[k], row.head, 1, row.i, 1, stream));
                DO(draw(many[k], others[k], head, heads, from, rows, stream));
            }
            for (float *at : {l, sums})
                DO(draw(at, at == l ? L_DRAWN : DELTA_DRAWN, of_key ? head : row.head, heads, of_key ? from : row.i,
                        of_key ? rows : 1, stream));
            bf16 *const *queries = of_key ? many : one, *const *keys = of_key ? one : many;
            DO(wb_attention_backward(want[0], want[1], want[2], queries[0], keys[0], keys[1], queries[1], l, sums,
                                     &part, stream));
            DO(wb_device_synchronize());
            for (int k = of_key; k < (of_key ? NAMES : 1); k++)
                DO(distance((const bf16 *)gradient[k] + row.at * D, want[k], &far[k]));
        }
        return WB_OK;
    }
};

#endif
