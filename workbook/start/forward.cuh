// forward.cuh - flash_ring as `make ring` runs it: its tensors on a rank, the call, and what its rows should be. In
// ring.cu's words.
#pragma once

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
