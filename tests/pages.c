// pages.c - the pages of a case of problem 13.
#include "case/case.h"

#include <criterion/criterion.h>

static wb_case of(int B, int Nk, int page, wb_lens lens)
{
    wb_case c = {.page = page, .lens = lens, .seed = 3};
    c.shape = (attention_shape){
        .batch = B, .q_heads = 4, .kv_heads = 2, .q_len = 2, .kv_len = Nk, .head_dim = 16, .scale = 1};
    return c;
}

// Each page is in one entry of the table at most, each entry that is used has a page, and no other has.
Test(pages, each_page_is_one_sequences)
{
    for (int page = 16; page <= 256; page *= 4)
        for (wb_lens lens = 0; lens < WB_LENS; lens++) {
            const wb_case c = of(20, 700, page, lens);
            wb_pages p = wb_pages_make(&c);
            int used = 0, in_order = 0;
            for (int entry = 0; entry < 20 * p.shape.max_pages; entry++) {
                const int b = entry / p.shape.max_pages, first = entry % p.shape.max_pages * page;
                cr_assert(p.kv_len[b] == wb_case_keys(&c, b) && p.kv_len[b] >= 0 && p.kv_len[b] <= 700);
                cr_assert(p.kv_len[b] <= p.shape.max_pages * page);
                if (first >= p.kv_len[b]) {
                    cr_assert(p.table[entry] == -1);
                    continue;
                }
                cr_assert(p.table[entry] >= 0 && p.table[entry] < p.shape.pages);
                cr_assert(p.owner[p.table[entry]] == entry);
                in_order += used > 0 && p.table[entry] == p.table[entry - 1] + 1;
                used++;
            }
            int owned = 0;
            for (int k = 0; k < p.shape.pages; k++) owned += p.owner[k] >= 0;
            cr_assert(owned == used && used < p.shape.pages, "the case must have unused pages");
            cr_assert(in_order <= used / 4,
                      "%d of %d pages directly follow the page before, but the order must be shuffled", in_order, used);
            wb_pages_free(&p);
        }
}

// Sequences that share a prompt have its pages in common, as far as both have whole ones; a cache that is cut ends with
// the first one's last page.
Test(pages, shared_and_cut)
{
    wb_case c = of(20, 700, 16, WB_LENS_MIXED);
    c.shared = c.cut = 1;
    const wb_pages p = wb_pages_make(&c);
    int same = 0;
    for (int b = 1; b < 20; b++)
        for (int k = 0; k < p.shape.max_pages; k++) {
            const int page = p.table[b * p.shape.max_pages + k];
            if (page < 0 || page != p.table[k]) continue;
            cr_assert((k + 1) * 16 <= p.kv_len[b] && (k + 1) * 16 <= p.kv_len[0] && p.owner[page] == k);
            same++;
        }
    cr_assert(same > 20, "%d pages are shared", same);
    cr_assert(p.table[(p.kv_len[0] - 1) / 16] == p.shape.pages - 1);
    wb_tensor t[WB_MAX_TENSORS];
    const int count = wb_case_tensors(wb_find_problem("flash_decode_int8"), &c, t);
    cr_assert(wb_case_cut(&c, &t[wb_tensor_named(t, count, "V")]) == 4 * 2 * 16);  // 700 = 43 * 16 + 12
    cr_assert(wb_case_cut(&c, &t[wb_tensor_named(t, count, "K_scale")]) == 4 * sizeof(float));
    cr_assert(wb_case_cut(&c, &t[wb_tensor_named(t, count, "Q")]) == 0);
}
