// indices.cu - of drawn tables and lengths, right and wrong, wb_check_indices makes ones that can be followed, leaves
// right ones as they are, and tells of a wrong entry if there is one.
#include "case/case.h"
#include "on_device.cuh"

#include <criterion/criterion.h>

// Of 0 ... most; a wrong one now and then.
static int drawn(int most, bool wrong)
{
    const int values[] = {-1, INT_MIN, most + 1, INT_MAX};
    return wrong && below(40) == 0 ? values[below(4)] : below(most + 1);
}
static bool is_in(int value, int most) { return value >= 0 && value <= most; }
static int brought(int value, int most) { return value < 0 ? 0 : value > most ? most : value; }

Test(indices, brings_into_range_and_tells)
{
    int told = 0;
    for (int n = 0; n < 200; n++) {
        decode_shape s = {1 + below(9),  4, 2, 1, 64, 1, below(2) ? 16 << below(5) : 17 + below(600), 1 + below(500),
                          1 + below(300)};
        const int rows = below(2) ? 1 + below(12) : 0, new_keys = below(2) ? below(17) : 0;
        const int most = s.max_pages * s.page_size - new_keys;
        std::vector<int> table((size_t)((rows ? rows : s.batch) * s.max_pages)), len((size_t)s.batch),
            row((size_t)s.batch), table_out((size_t)(s.batch * s.max_pages), -7), len_out((size_t)s.batch, -7);
        const bool wrong = n % 4 != 0;
        for (int &x : len) x = drawn(most, wrong);
        for (int &x : row) x = drawn(rows ? rows - 1 : 0, wrong);
        for (int &x : table) x = drawn(s.pages - 1, wrong && below(30) == 0);
        std::vector<uint64_t> found(1);
        {
            on_device<int> T(table), N(len), R(row), T_out(table_out), N_out(len_out);
            on_device<uint64_t> F(found);
            cr_assert_eq(
                wb_check_indices(T_out.at, N_out.at, T.at, N.at, F.at, rows ? R.at : NULL, rows, new_keys, &s, 0),
                WB_OK, "%s", wb_last_message());
        }
        bool is_wrong = false, is_told = found[0] == 0;
        const auto look = [&](int value, int limit, int b, int which) {
            is_wrong = is_wrong || !is_in(value, limit);
            is_told = is_told || (!is_in(value, limit) &&
                                  found[0] == ((uint64_t)(uint32_t)value << 32 | (uint64_t)b << 16 | (uint64_t)which));
            return brought(value, limit);
        };
        for (int b = 0; b < s.batch; b++) {
            const int from = rows ? look(row[(size_t)b], rows - 1, b, WB_BAD_ROW) : b;
            const int keys = look(len[(size_t)b], most, b, WB_BAD_LENGTH) + new_keys;
            cr_assert_eq(len_out[(size_t)b], keys);
            for (int p = 0; p < s.max_pages; p++) {
                const int page = table[(size_t)(from * s.max_pages + p)];
                const int want = p * s.page_size < keys ? look(page, s.pages - 1, b, WB_BAD_PAGE + p) : 0;
                cr_assert_eq(table_out[(size_t)(b * s.max_pages + p)], want, "sequence %d, column %d", b, p);
            }
        }
        cr_assert(is_told && is_wrong == (found[0] != 0), "told %lx", (unsigned long)found[0]);
        told += is_wrong;
    }
    cr_assert_gt(told, 20);
}

Test(indices, refuses)
{
    const decode_shape s = {1, 1, 1, 1, 64, 1, 16, 1, 1};
    int x = 0;
    uint64_t found = 0;
    cr_assert_eq(wb_check_indices(&x, &x, &x, NULL, &found, NULL, 0, 0, &s, 0), WB_BAD_ARGUMENT);
    cr_assert_eq(wb_check_indices(&x, &x, &x, &x, &found, &x, 0, 0, &s, 0), WB_BAD_ARGUMENT);
    cr_assert_eq(wb_check_indices(&x, &x, &x, &x, &found, NULL, 0, 17, &s, 0), WB_BAD_ARGUMENT);
    cr_assert(strstr(wb_last_message(), "new_keys = 17"));
}
