// add_share.cu - rows of a part become part of the rows of a whole, and nothing else is touched.
#include "case/case.h"
#include "on_device.cuh"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static uint64_t state = 1;
static int below(int n) { return (int)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % n; }
static float number(float scale) { return scale * ((float)below(1 << 20) / (1 << 19) - 1); }
static std::vector<float> numbers(size_t count, float scale)
{
    std::vector<float> x(count);
    for (float &one : x) one = number(scale);
    return x;
}
static std::vector<uint16_t> rounded(const std::vector<float> &x)
{
    std::vector<uint16_t> y(x.size());
    for (size_t i = 0; i < x.size(); i++) y[i] = wb_to_bf16(x[i]);
    return y;
}

Test(add_share, right)
{
    for (int n = 0; n < 60; n++) {
        const int D = 16 << below(4), heads = 1 + below(9), rows = 1 + below(below(2) ? 5 : 90),
                  first = below(3) * below(40);
        const int all = first + rows + below(2) * below(30), with_L = below(2), with_more = !with_L && below(2);
        const size_t whole = (size_t)heads * all, mine = (size_t)heads * rows;
        const float far = below(3) ? 3 : 300;  // apart: exp is 0 or infinite in float32
        std::vector<float> to = numbers(whole * D, 2), L = numbers(whole, far), logs = numbers(mine, far);
        std::vector<uint16_t> part = rounded(numbers(mine * D, 2)), more = rounded(numbers(mine * D, 2));
        std::vector<uint16_t> to_bf16 = rounded(to);
        std::vector<float> got = to, got_L = L;
        const bool is_float = below(2);
        if (!is_float)
            for (size_t i = 0; i < to.size(); i++) to[i] = wb_from_bf16(to_bf16[i]);
        {
            on_device<float> to_there(got), L_there(got_L), logs_there(logs);
            on_device<bf16> bf16_there = as_bf16(to_bf16), part_there = as_bf16(part), more_there = as_bf16(more);
            const wb_share s = {is_float ? (void *)to_there.at : bf16_there.at,
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
            const size_t head = i / D / all, from = (head * rows + row) * D + i % D;
            const float is = is_float ? got[i] : wb_from_bf16(to_bf16[i]);
            double want = to[i], want_L = L[i / D];
            if (row >= 0 && row < rows) {
                const double x = wb_from_bf16(part[from]), y = with_more ? wb_from_bf16(more[from]) : 0;
                const double w = with_L ? 1 / (1 + exp((double)logs[from / D] - L[i / D])) : 1;
                want = w * want + (with_L ? 1 - w : 1) * x + y;
                const double m = fmax(L[i / D], logs[from / D]);
                if (with_L) want_L = m + log(exp(L[i / D] - m) + exp(logs[from / D] - m));
            } else
                cr_assert(is == to[i] && got_L[i / D] == L[i / D], "row %d of %d is touched", row, rows);
            const double limit = is_float ? 3e-6 : 1e-6 + fabs(want) / 256;
            cr_assert(fabs(is - want) <= limit, "D %d, rows %d + %d of %d: %g, should be %g", D, first, rows, all, is,
                      want);
            cr_assert(fabs(got_L[i / D] - want_L) <= 1e-6 * (1 + far), "L %g, should be %g", got_L[i / D], want_L);
        }
    }
}

Test(add_share, refuses)
{
    bf16 *const x = reinterpret_cast<bf16 *>(64);
    float *const f = reinterpret_cast<float *>(64);
    const wb_share good = {x, 0, x, NULL, NULL, NULL, 1, 8, 4, 4, 64};
    const auto refused = [&](wb_share bad, wb_status status, const char *word) {
        cr_assert_eq(wb_add_share(&bad, 0), status);
        cr_assert(strstr(wb_last_message(), word), "%s", wb_last_message());
    };
    wb_share bad = good;
    bad.part = NULL, refused(bad, WB_BAD_ARGUMENT, "null");
    bad = good, bad.L = f, refused(bad, WB_BAD_ARGUMENT, "null");
    bad = good, bad.L = f, bad.logs = f, bad.more = x, refused(bad, WB_BAD_ARGUMENT, "too many");
    bad = good, bad.rows = 5, refused(bad, WB_BAD_ARGUMENT, "rows 4 to 8 of 8");
    bad = good, bad.head_dim = 48, refused(bad, WB_UNSUPPORTED, "head_dim = 48");
    bad = good, bad.part = x + 1, refused(bad, WB_UNSUPPORTED, "aligned to 16 bytes: 0");
    bad = good, bad.heads = INT_MAX, refused(bad, WB_UNSUPPORTED, "rows");
}
