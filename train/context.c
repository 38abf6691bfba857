// context.c - see context.h: which rows of whom a chunk needs, and the way there and back.
#include "context.h"

// Chunks in the order of the sequence, zigzag as in 17: whose each is, and which of its two.
static int owner(int chunk) { return chunk < ranks.all ? chunk : 2 * ranks.all - 1 - chunk; }
static bool second(int chunk) { return chunk >= ranks.all; }
static bool mine(int chunk) { return owner(chunk) == ranks.mine; }

pieces context_pieces(int B, int length, int room)
{
    const int T = length / (2 * ranks.all);
    return (pieces){2 * B, T, room, {ranks.mine * T, (2 * ranks.all - 1 - ranks.mine) * T}};
}

// Rows `at` and on of the room of chunk `to` are rows `row` and on of chunk `of`. parts: how many loans of these rows
// begin here in the list.
typedef struct loan {
    int of, row, to, at, rows, parts;
} loan;
enum { MAX_LOANS = 4 * MAX_RANKS };

// Each chunk but the first needs the sinks, which the first has, and the tail of the chunk before.
static int list_loans(loan *list, const heads *x)
{
    const int others = 2 * ranks.all - 1, sinks = x->shape.sinks, tail = x->shape.window - 1;
    for (int k = 1; k <= others; k++) {
        list[k - 1] = (loan){.of = 0, .row = 0, .to = k, .at = 0, .rows = sinks, .parts = k == 1 ? others : 0};
        list[others + k - 1] =
            (loan){.of = k - 1, .row = x->pieces.T - tail, .to = k, .at = sinks, .rows = tail, .parts = 1};
    }
    return 2 * others;
}

// Where this row of a chunk of this rank, or of its room, begins in a tensor [B, Hkv, T + room, D].
static act *find(const heads *x, act *tensor, int chunk, int row, bool in_room)
{
    const int first = in_room || chunk == 0 ? 0 : x->pieces.room;
    const size_t half = (size_t)x->pieces.B / 2 * x->shape.kv_heads * x->shape.kv_len;
    return tensor + (second(chunk) * half + (size_t)(first + row)) * x->shape.head_dim;
}

// Loans travel as [rows, D] of each head: K's or dK's, one after another, then V's or dV's.
static void trade(const heads *x, act *tensors[2], bool back)
{
    static act *at_home, *lent;  // where these rows belong, and where they are lent to
    static size_t room;
    loan list[MAX_LOANS];
    move moves[2 * MAX_LOANS];
    const int count = list_loans(list, x), D = x->shape.head_dim, all = x->pieces.B / 2 * x->shape.kv_heads;
    const size_t apart = (size_t)x->shape.kv_len * D;
    const size_t needed = 2 * (2 * (size_t)ranks.all - 1) * (size_t)x->pieces.room * D * all;
    if (needed > room) at_home = new_array(needed * sizeof(act)), lent = new_array(needed * sizeof(act)), room = needed;

    size_t way = 0;
    for (int i = 0; i < 2 * count; i++) {
        const loan l = list[i % count];
        const size_t n = (size_t)l.rows * D;
        act *const tensor = tensors[i / count], *const home = at_home + way, *const guest = lent + way;
        if (!back && mine(l.of)) copy_runs(home, n, find(x, tensor, l.of, l.row, false), apart, n, all);
        if (back && mine(l.to)) copy_runs(guest, n, find(x, tensor, l.to, l.at, true), apart, n, all);
        moves[i] = back ? (move){owner(l.to), owner(l.of), n * all, guest, home}
                        : (move){owner(l.of), owner(l.to), n * all, home, guest};
        way += n * all;
    }
    ranks_move(moves, 2 * count);
    for (int i = 0; i < 2 * count; i++) {
        const loan l = list[i % count];
        const size_t n = (size_t)l.rows * D;
        act *const tensor = tensors[i / count];
        if (!back && mine(l.to)) copy_runs(find(x, tensor, l.to, l.at, true), apart, moves[i].in, n, n, all);
        if (back && mine(l.of))
            add_runs(find(x, tensor, l.of, l.row, false), apart, moves[i].in, n * all, l.parts, n, all);
    }
}

void context_borrow(const heads *x)
{
    if (x->pieces.room > 0) trade(x, (act *[]){x->K, x->V}, false);
}
void context_return(const heads *x)
{
    if (x->pieces.room > 0) trade(x, (act *[]){x->dK, x->dV}, true);
}
