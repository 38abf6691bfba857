#include "case/case.h"

static int rows_of(const wb_case *c) { return c->shape.q_len < 1 ? 1 : c->shape.q_len; }

int wb_chunk_rows(const wb_case *c, int chunk)
{
    return rows_of(c) / (2 * c->ranks) + (chunk < rows_of(c) % (2 * c->ranks));
}

int wb_chunk_begin(const wb_case *c, int chunk)
{
    const int longer = rows_of(c) % (2 * c->ranks);
    return rows_of(c) / (2 * c->ranks) * chunk + (chunk < longer ? chunk : longer);
}

int wb_chunk_with(const wb_case *c, int row)
{
    int chunk = 2 * c->ranks - 1;
    while (wb_chunk_begin(c, chunk) > row) chunk--;
    return chunk;
}

int wb_rank_rows(const wb_case *c, int rank)
{
    return wb_chunk_rows(c, wb_chunk_of(c, rank, 0)) + wb_chunk_rows(c, wb_chunk_of(c, rank, 1));
}

// How many numbers a row has in one head, of L and delta one, and how many rows that head has.
static bool is_vector(const wb_tensor *t) { return strcmp(t->name, "L") == 0 || strcmp(t->name, "delta") == 0; }
static size_t width_of(const wb_tensor *whole) { return is_vector(whole) ? 1 : whole->dim[3]; }
static size_t length_of(const wb_tensor *whole) { return whole->dim[is_vector(whole) ? 3 : 2]; }

wb_tensor wb_shard_of(const wb_case *c, const wb_tensor *whole)
{
    const size_t width = width_of(whole);
    wb_tensor t = *whole;
    const size_t rows = whole->count / width / length_of(whole) * (size_t)wb_rank_rows(c, c->part - 1);
    t.dim[0] = t.dim[1] = 1, t.dim[2] = width == 1 ? 1 : rows, t.dim[3] = width == 1 ? rows : width;
    t.count = rows * width;
    t.bytes = whole->bytes / whole->count * t.count;
    return t;
}

size_t wb_shard_place(const wb_case *c, const wb_tensor *whole, int rank, size_t i)
{
    const size_t width = width_of(whole), length = (size_t)rows_of(c), heads = whole->count / width / length;
    int chunk = wb_chunk_of(c, rank, 0);
    const size_t first = heads * (size_t)wb_chunk_rows(c, chunk) * width;
    if (i >= first) i -= first, chunk = wb_chunk_of(c, rank, 1);
    const size_t in_head = (size_t)wb_chunk_rows(c, chunk) * width;
    return (i / in_head * length + (size_t)wb_chunk_begin(c, chunk)) * width + i % in_head;
}

void wb_shard_copy(const wb_case *c, const wb_tensor *whole, void *data, int rank, void *shard, bool join)
{
    const size_t row = whole->bytes / whole->count * width_of(whole), length = (size_t)rows_of(c);
    const size_t heads = whole->bytes / row / length;
    char *mine = shard;
    if (length != length_of(whole)) return;  // no sequence: to be refused
    for (int half = 0; half < 2; half++) {
        const int chunk = wb_chunk_of(c, rank, half);
        const size_t bytes = (size_t)wb_chunk_rows(c, chunk) * row;
        for (size_t h = 0; h < heads; h++, mine += bytes) {
            char *there = (char *)data + (h * length + (size_t)wb_chunk_begin(c, chunk)) * row;
            memcpy(join ? there : mine, join ? mine : there, bytes);
        }
    }
}

size_t wb_board_room(const wb_problem *problem, const wb_case *c, const wb_tensor *whole)
{
    const size_t K = wb_is_backward(problem) ? 5 : 3;  // the last two of which gradients in float32 travel as well
    const size_t messages = (size_t)24 << 20;          // the layer has its own idea of these
    return messages + (wb_is_backward(problem) ? 12 : 4) * 2 * (size_t)c->ranks * whole[K].bytes;
}
