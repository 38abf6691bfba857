// add_share.cu - rows of a part become part of the rows of a whole, and nothing else is touched.
#include "case/case.h"
#include "on_device.cuh"

#include <criterion/criterion.h>

// Drawn, within +-scale; and the same as bf16.
struct numbers {
    std::vector<float> as_float;
    std::vector<uint16_t> as_bits;
    numbers(size_t count, float scale)
    {
        while (as_float.size() < count) {
            as_bits.push_back(wb_to_bf16(scale * ((float)below(1 << 20) / (1 << 19) - 1)));
            as_float.push_back(wb_from_bf16(as_bits.back()));
        }
    }
};

Test(add_share, right)
{
    for (int n = 0; n < 60; n++) {
        const int D = 16 << below(4), heads = 1 + below(9), rows = 1 + below(below(2) ? 5 : 90);
        const int first = below(3) * below(40), all = first + rows + below(2) * below(30);
        const int with_L = below(2), with_more = !with_L && below(2), is_float = below(2);
        const size_t whole = (size_t)heads * all, mine = (size_t)heads * rows;
        const float far = below(3) ? 3 : 300;  // apart: exp is 0 or infinite in float32
        numbers to(whole * D, 2), part(mine * D, 2), more(mine * D, 2), L(whole, far), logs(mine, far);
        const std::vector<float> before = to.as_float, L_before = L.as_float;
        {
            on_device<float> to_float(to.as_float), L_there(L.as_float), logs_there(logs.as_float);
            on_device<bf16> to_bf16 = as_bf16(to.as_bits), part_there = as_bf16(part.as_bits),
                            more_there = as_bf16(more.as_bits);
            const wb_share s = {is_float ? (void *)to_float.at : to_bf16.at,
                                is_float,
                                part_there.at,
                                with_more ? more_there.at : NULL,
                                with_L ? L_there.at : NULL,
                                with_L ? logs_there.at : NULL,
                                heads,
                                all,
                                first,
                                rows,
                                D};
            cr_assert_eq(wb_add_share(&s, 0), WB_OK, "%s", wb_last_message());
        }
        for (size_t i = 0; i < whole * D; i++) {
            const int row = (int)(i / D % all) - first;
            const size_t of = (i / D / all * rows + row) * D + i % D;
            const float is = is_float ? to.as_float[i] : wb_from_bf16(to.as_bits[i]);
            if (row < 0 || row >= rows) {
                cr_assert(is == before[i] && L.as_float[i / D] == L_before[i / D], "row %d of %d was modified", row,
                          rows);
                continue;
            }
            const double a = L_before[i / D], b = logs.as_float[of / D], m = fmax(a, b);
            const double w = with_L ? 1 / (1 + exp(b - a)) : 1;
            const double want =
                w * before[i] + (with_L ? 1 - w : 1) * part.as_float[of] + (with_more ? more.as_float[of] : 0);
            cr_assert(fabs(is - want) <= (is_float ? 3e-6 : 1e-6 + fabs(want) / 256),
                      "D %d, rows %d + %d of %d: %g, should be %g", D, first, rows, all, is, want);
            const double want_L = with_L ? m + log(exp(a - m) + exp(b - m)) : a;
            cr_assert(fabs(L.as_float[i / D] - want_L) <= 1e-6 * (1 + far), "L %g, should be %g", L.as_float[i / D],
                      want_L);
        }
    }
}

Test(add_share, refuses)
{
    bf16 *const x = reinterpret_cast<bf16 *>(64);
    float *const f = reinterpret_cast<float *>(64);
    const auto refused = [](wb_share bad, wb_status status, const char *word) {
        cr_assert_eq(wb_add_share(&bad, 0), status);
        cr_assert(strstr(wb_last_message(), word), "%s", wb_last_message());
    };
    refused({x, 0, NULL, NULL, NULL, NULL, 1, 8, 4, 4, 64}, WB_BAD_ARGUMENT, "null");
    refused({x, 0, x, NULL, f, NULL, 1, 8, 4, 4, 64}, WB_BAD_ARGUMENT, "null");
    refused({x, 0, x, x, f, f, 1, 8, 4, 4, 64}, WB_BAD_ARGUMENT, "not allowed");
    refused({x, 0, x, NULL, NULL, NULL, 1, 8, 4, 5, 64}, WB_BAD_ARGUMENT, "rows 4 to 8 of 8");
    refused({x, 0, x, NULL, NULL, NULL, 1, 8, 4, 4, 48}, WB_UNSUPPORTED, "head_dim = 48");
    refused({x, 0, x + 1, NULL, NULL, NULL, 1, 8, 4, 4, 64}, WB_UNSUPPORTED, "aligned to 16 bytes: 0");
    refused({x, 0, x, NULL, NULL, NULL, INT_MAX, 8, 4, 4, 64}, WB_UNSUPPORTED, "rows");
}
