// heads_first.cu - tensors with tokens before heads are copied to the bit, wherever they lie, and nothing else is
// touched.
#include "case/case.h"
#include "on_device.cuh"

#include <criterion/criterion.h>
#include <memory>

struct drawn {
    int D;
    wb_tokens t;
    std::vector<uint16_t> from, got, want;
    explicit drawn(int D_) : D(D_)
    {
        enum { GAP = 8, EDGE = 64 };
        t.batch = 1 + below(3), t.tokens = 1 + below(below(2) ? 9 : 700), t.heads = 1 + below(9);
        const int pad[] = {below(3) * GAP, below(3) * GAP, below(3) * GAP};
        const bool heads_outside = below(2);
        t.stride_h = D + pad[0], t.stride_n = t.stride_h * t.heads + pad[1];
        if (heads_outside) t.stride_n = D + pad[0], t.stride_h = t.stride_n * t.tokens + pad[1];
        t.stride_b = (heads_outside ? t.stride_h * t.heads : t.stride_n * t.tokens) + pad[2];
        from.resize((size_t)(t.batch * t.stride_b)), got.resize((size_t)t.batch * t.heads * t.tokens * D + EDGE);
        for (uint16_t &x : from) x = (uint16_t)below(1 << 16);
        for (uint16_t &x : got) x = (uint16_t)below(1 << 16);
        want = got;
        size_t at = 0;
        for (int b = 0; b < t.batch; b++)
            for (int h = 0; h < t.heads; h++)
                for (int n = 0; n < t.tokens; n++)
                    for (int d = 0; d < D; d++)
                        want[at++] = from[(size_t)(b * t.stride_b + n * t.stride_n + h * t.stride_h + d)];
    }
};

Test(heads_first, to_the_bit)
{
    for (int n = 0; n < 40; n++) {
        const int D = 8 * (1 + below(32)), count = 1 + below(4);
        std::vector<drawn> all;
        for (int k = 0; k < count; k++) all.emplace_back(D);
        {
            std::vector<std::unique_ptr<on_device<bf16>>> there;
            wb_tokens of[4];
            for (int k = 0; k < count; k++) {
                drawn &one = all[(size_t)k];
                of[k] = one.t;
                for (std::vector<uint16_t> *x : {&one.from, &one.got})
                    there.emplace_back(new on_device<bf16>(reinterpret_cast<bf16 *>(x->data()), x->size()));
                of[k].from = there[2 * (size_t)k]->at, of[k].to = there[2 * (size_t)k + 1]->at;
            }
            cr_assert_eq(wb_heads_first(of, count, D, 0), WB_OK, "%s", wb_last_message());
        }
        for (const drawn &one : all)
            cr_assert(one.got == one.want, "[%d, %d, %d, %d] with strides %ld, %ld, %ld", one.t.batch, one.t.tokens,
                      one.t.heads, D, (long)one.t.stride_b, (long)one.t.stride_n, (long)one.t.stride_h);
    }
}

Test(heads_first, refuses)
{
    bf16 *const x = reinterpret_cast<bf16 *>(64);
    const wb_tokens good = {x, x, 1, 1, 1, 8, 8, 8};
    const auto refused = [&](wb_tokens bad, wb_status status, const char *word) {
        cr_assert_eq(wb_heads_first(&bad, 1, 8, 0), status);
        cr_assert(strstr(wb_last_message(), word), "%s", wb_last_message());
    };
    wb_tokens bad = good;
    bad.from = NULL, refused(bad, WB_BAD_ARGUMENT, "null");
    bad = good, bad.heads = 0, refused(bad, WB_BAD_ARGUMENT, "0 rows");
    bad = good, bad.stride_n = 4, refused(bad, WB_UNSUPPORTED, "aligned");
    bad = good, bad.from = reinterpret_cast<bf16 *>(72), refused(bad, WB_UNSUPPORTED, "aligned");
    bad = good, bad.tokens = INT_MAX, refused(bad, WB_UNSUPPORTED, "too large");
    cr_assert_eq(wb_heads_first(&good, 5, 8, 0), WB_BAD_ARGUMENT);
    cr_assert_eq(wb_heads_first(&good, 1, 12, 0), WB_UNSUPPORTED);
}
