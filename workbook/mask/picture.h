// picture.h - a mask as text: which query sees which key, and what that makes of each tile.
#pragma once

#include "case/named_mask.h"
#include "problems.h"

// What a kernel that wastes nothing does with a tile of scores.
typedef enum wb_tile_kind {
    WB_TILE_SKIPPED,  // nothing in it is visible: neither loaded nor computed
    WB_TILE_MASKED,   // some of it is visible, or it reaches behind the last key: computed, then masked
    WB_TILE_FULL      // all of it is visible, and no key is missing: computed without a mask
} wb_tile_kind;

typedef struct wb_picture {
    const wb_problem *problem;
    const attention_shape *shape;
    const wb_named_mask *named;  // the mask where it is data; else null
    int b;                       // which of its masks
    int BR, BC;                  // query rows and keys of a tile; 0: no tiles are drawn
    const int *wrong;            // [q_len]: rows to be marked on the right; null: none
    int nan_from, nan_keys;      // keys to be marked with N
    const char *indent;          // stands before each line
    int max_rows, max_width;     // in characters, which stand for several queries or keys of longer sequences
} wb_picture;

// The kind of the tile of queries i0 ... i0 + BR - 1 and keys j0 ... j0 + BC - 1; `visible`: how many pairs it shows.
wb_tile_kind wb_tile_kind_of(const wb_picture *p, int i0, int j0, long *visible);

// Writes the picture to `text`, as much as fits, each line ended with a newline. Returns its length.
//   #  the query sees the key      .  it does not, but the tile is computed      +  some pairs of a character do
//      blank: a tile that is skipped
size_t wb_picture_print(const wb_picture *p, char *text, size_t size);
