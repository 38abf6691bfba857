// named_mask.h - masks that a case can ask for by name, for problem 15. Query i of Nq is the token t = i + Nk - Nq of
// Nk, so that the last query is that of the last key; b is the mask's number; `size` means what stands here.
#pragma once

#include "workbook.h"

#include <stdbool.h>

__BEGIN_DECLS

typedef enum wb_mask_name {
    // packed documents, `size` tokens long on average: a token sees those of its document up to itself
    WB_MASK_DOCUMENTS,
    WB_MASK_PADDED,  // the same; and the last tokens belong to none: they see nothing and nobody sees them
    WB_MASK_PREFIX,  // the first keys, half to one and a half `size` of them, are seen by all; the others causally
    // the last `size` tokens are drafts, a tree: a draft sees the prompt, its ancestors, and itself; the prompt is
    // causal
    WB_MASK_TREE,
    // of spans of `size` keys the token's own up to itself, and of earlier ones the last eighth (Child et al. 2019)
    WB_MASK_STRIDED,
    WB_MASK_WINDOW,  // the last `size` tokens up to itself
    WB_MASK_CAUSAL,  // j <= t
    WB_MASK_FULL,    // everything
    WB_MASK_EMPTY,   // nothing
    // blocks of 64 x 64 that are hidden, visible or drawn pair by pair; some rows of blocks are hidden; lists shuffled
    WB_MASK_RANDOM,
    WB_MASK_GAPS,  // causal, but every other query or so sees nothing
    WB_MASK_LAST,  // the last key and no other
    // as random; and some tiles that are hidden or seen whole are listed among the others, with no bit or with all of
    // them
    WB_MASK_LOOSE,
    WB_MASK_NAMES  // how many there are
} wb_mask_name;

extern const char *const wb_mask_names[WB_MASK_NAMES];

typedef struct wb_named_mask {
    wb_mask_name name;
    int size;  // 0: a sixth of the keys or so
    uint64_t seed;
    int masks, q_len, kv_len;
    int *table;  // what was drawn: of each token its document's first key, of each draft its parent; [masks, kv_len]
} wb_named_mask;

// Draws what the mask needs. Then wb_named_mask_sees(&mask, b, i, j) may be asked by many at a time.
void wb_named_mask_draw(wb_named_mask *mask);
void wb_named_mask_free(wb_named_mask *mask);
wb_sees wb_named_mask_sees;

__END_DECLS
