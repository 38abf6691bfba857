// pages.h - the pages of a paged cache in a case of problem 13 or 14: lengths, the page table, and its inverse.
//
// The pages in use are drawn from all of them, so those of a sequence lie anywhere, in any order, with unused ones
// between.
#pragma once

#include "case/case.h"

// The shape as the function gets it.
decode_shape wb_decode_shape(const wb_case *c);

// How many keys sequence b has.
int wb_case_keys(const wb_case *c, int b);

// Of K, V or their scales: how many bytes at the end belong to no key, in a case whose cache is cut.
size_t wb_case_cut(const wb_case *c, const wb_tensor *t);

typedef struct wb_pages {
    decode_shape shape;
    int *kv_len;  // [batch]
    int *table;   // [batch, max_pages]; -1: none, and so is an entry for which no page was left
    int *owner;   // [pages]: b * max_pages + column of the first entry that has this page; -1: nobody's
} wb_pages;

// Sizes below 1 count as 1, as in wb_case_tensors. Ends the program if there is no memory.
wb_pages wb_pages_make(const wb_case *c);
void wb_pages_free(wb_pages *p);
