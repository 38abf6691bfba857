// pages.h - what a kernel of a paged cache relies on and no host has looked at: the numbers in its tables, and shares
// of its keys. workbook/paged.cuh names the words; on a GPU they are empty.
#pragma once

#include "keywords.h"

// That the page is one of `pages`; it was read from the table for key `key` of this sequence, which has to be one of
// those among which the block has sought a tile.
void expect_page(int page_, int pages_, int sequence_, int key_, cudacpu::call_site site_ = cudacpu::here());

// That the sequence has from 0 to `most` keys, as many as its row of the page table can name.
void expect_keys(int keys_, int most_, int sequence_, cudacpu::call_site site_ = cudacpu::here());

// That the tile which is looked for has not been passed: it is in this sequence of so many, or in a later one.
void expect_tile(int sequence_, int sequences_, cudacpu::call_site site_ = cudacpu::here());
