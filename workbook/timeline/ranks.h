// ranks.h - the rows of all ranks (cpu/queued.cpp), replayed with costs: what each stream of each rank does, and for what it waits.
//
// A piece of work begins when all that its stream's clock names is over. Kernels of one GPU take turns, copies do not. A group of messages
// begins likewise, goes when all its partners' groups have begun, and is over after its bytes. So this is no measurement; it shows who waits for whom.
//
// The sequence that was recorded is short. What is drawn is the same schedule on a longer one: FLOPs grow with its square, bytes with it, and
// both with the heads.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// Of an H200, as plots/ring_model.awk has them: products in TFLOP/s, and what a call takes beyond them; other kernels by the bytes of the
// pages that they touch, GB/s; messages in GB/s, both ways at once. Times that something takes to begin: microseconds.
enum { TFLOPS = 700, CALL_US = 32, MEMORY_GBS = 4000, LAUNCH_US = 4, WIRE_GBS = 153, MESSAGE_US = 30 };
// What is drawn, but for N: 32 heads of 128.
enum { DRAWN_N = 32768, MOST_N = 1 << 30, DRAWN_HEADS = 32, DRAWN_D = 128 };

// Of gradients, which two kernels of the workbook's own make together where a GPU has one.
enum { GRADIENTS_TFLOPS = 600, GRADIENTS_CALL_US = CALL_US / 2 };

typedef enum piece_kind { PIECE_PRODUCT, PIECE_KERNEL, PIECE_COPY, PIECE_MESSAGES } piece_kind;
enum { MOST_RANKS = 16, MOST_STREAMS = 64, NOTHING = -1 };

typedef struct message {
    bool send, all;  // all: of a collective call
    int peer, turn;
    double bytes;
    size_t at;
    int line;
} message;

typedef struct piece {
    piece_kind kind;
    int rank, stream;
    long order, number;  // of the host's calls; on its stream
    char name[64], file[64];
    int line;
    double cost;  // FLOPs or bytes
    size_t keys;  // where the keys of a product lie
    long before[MOST_STREAMS];
    message *messages;
    size_t message_count;
    double ready, from,
        to;  // ms. ready: what it is ordered behind is over. Messages from `from` on travel: all partners have begun
    int after, partner;  // pieces: the last that it is ordered behind; whose beginning messages waited for
    int owners[MOST_RANKS], owner_count;  // ranks whose keys a product reads, or whose keys or gradients come
    bool gradients, is_ready;
} piece;

typedef struct rank_timeline {
    piece *pieces;                        // by rank, and in the order of its calls
    size_t count, first[MOST_RANKS + 1];  // of each rank
    int ranks, N, heads, D;               // as recorded
    int as;                               // N as drawn
    double ms;
} rank_timeline;

bool ranks_recorded(const char *path);  // whether it begins as such a record
// False, with a sentence on stderr, if the file is no record of ranks. as: the N that is drawn.
bool ranks_replay(const char *path, int as, rank_timeline *t);
void ranks_free(rank_timeline *t);

// In the terminal, as a drawing, and as rows: rank stream kind keys from to name source for, after "# title" and "ms N".
void ranks_print(const rank_timeline *t, const char *title, FILE *f);
void ranks_draw(const rank_timeline *t, const char *title, FILE *f);
void ranks_write(const rank_timeline *t, const char *title, FILE *f);
