// forward.cuh - flash_ring as `make ring` runs it: its tensors on a rank, the call, and what its rows should be. In
// ring.cu's words.
#pragma once

struct ring_pass {
    static constexpr int NUMBER = 17, FLOPS = 4, NAMES = 2;
    static constexpr const char *names[NAMES] = {"O", "L"};
    bf16 *O, *Q, *K, *V;
    float *L;
    char *workspace;
    size_t bytes;

    // Allocated, and drawn where they are inputs.
    wb_status make(const wb_ring &ring, const attention_shape &shape, wb_stream stream)
    {
        bytes = flash_ring_workspace(&shape, &ring);
        DO(allocate(&L, (size_t)(ask.B * ask.Hq) * my_rows(ring.rank)));
        DO(allocate(&workspace, bytes));
        return make_tensors(
            {{&O, ask.Hq, OUTPUT}, {&Q, ask.Hq, Q_DRAWN}, {&K, ask.Hkv, K_DRAWN}, {&V, ask.Hkv, V_DRAWN}}, ring.rank,
            stream);
    }
    wb_status call(const wb_ring &ring, const attention_shape &shape, wb_stream stream) const
    {
        return flash_ring(O, L, Q, K, V, workspace, bytes, &shape, &ring, stream);
    }
    static size_t io_bytes(size_t rows)
    {
        return (size_t)ask.B * rows * (2 * (size_t)(ask.Hq + ask.Hkv) * (size_t)ask.D * 2 + (size_t)ask.Hq * 4);
    }
    wb_status end() const { return free_all({O, Q, K, V, L, workspace}); }

    // How far O of some rows is from what it should be, as a part of a row's length, and L: the largest.
    wb_status compare(const wb_ring &ring, const attention_shape &shape, wb_stream stream, float far[NAMES]) const
    {
        enum { ROWS = 8 };
        const size_t D = (size_t)ask.D, N = (size_t)ask.N;
        bf16 *q, *k, *v, *o;
        float *l;
        DO(allocate(&q, D));
        DO(allocate(&o, D));
        DO(allocate(&k, N * D));
        DO(allocate(&v, N * D));
        DO(allocate(&l, 1));
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
        return free_all({q, k, v, o, l});
    }
};

// The whole sequence on one GPU, as one pair: R times what a rank would take if nothing were lost.
struct alone_pass {
    bf16 *O, *Q, *K, *V;
    float *L;

    wb_status make(wb_stream stream)
    {
        DO(allocate(&L, (size_t)(ask.B * ask.Hq * ask.N)));
        return make_tensors(
            {{&O, ask.Hq, OUTPUT}, {&Q, ask.Hq, Q_DRAWN}, {&K, ask.Hkv, K_DRAWN}, {&V, ask.Hkv, V_DRAWN}}, -1, stream);
    }
    wb_status call(const attention_shape &shape, wb_stream stream) const
    {
        return wb_attention(O, L, Q, K, V, &shape, stream);
    }
    wb_status end() const { return free_all({O, Q, K, V, L}); }
};
