// picture.c - see picture.h.
#include "picture.h"

#include "reference/oracle.h"

#include <stdarg.h>
#include <stdio.h>

static int min_int(int a, int b) { return a < b ? a : b; }

// Visible pairs among queries i0 ... i1 - 1 and keys j0 ... j1 - 1.
static long count_visible(const wb_picture *p, int i0, int i1, int j0, int j1)
{
    long visible = 0;
    for (int i = i0; i < i1; i++)
        for (int j = j0; j < j1; j++)
            visible += p->named ? wb_named_mask_sees(p->named, p->b, i, j) : oracle_visible(p->problem, p->shape, i, j);
    return visible;
}

wb_tile_kind wb_tile_kind_of(const wb_picture *p, int i0, int j0, long *visible)
{
    const int i1 = min_int(i0 + p->BR, p->shape->q_len), j1 = min_int(j0 + p->BC, p->shape->kv_len);
    *visible = count_visible(p, i0, i1, j0, j1);
    if (*visible == 0) return WB_TILE_SKIPPED;
    return *visible == (long)(i1 - i0) * p->BC ? WB_TILE_FULL : WB_TILE_MASKED;
}

// The picture is drawn character by character, two a key where there is room: tiles look square.
typedef struct canvas {
    char *text;
    size_t size, used;
} canvas;

__attribute__((format(printf, 2, 3))) static void put(canvas *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(c->text + c->used, c->size - c->used, format, arguments);
    va_end(arguments);
    if (n > 0) c->used += (size_t)n < c->size - c->used ? (size_t)n : c->size - c->used - 1;
}

static void put_times(canvas *c, char letter, int times)
{
    while (times-- > 0) put(c, "%c", letter);
}

static char letter(const wb_picture *p, int i0, int i1, int j0, int j1)
{
    const long visible = count_visible(p, i0, i1, j0, j1);
    if (j1 > p->nan_from && j0 < p->nan_from + p->nan_keys) return 'N';
    if (visible > 0) return visible == (long)(i1 - i0) * (j1 - j0) ? '#' : '+';
    long in_tile = 1;
    if (p->BR > 0 && wb_tile_kind_of(p, i0 / p->BR * p->BR, j0 / p->BC * p->BC, &in_tile) == WB_TILE_SKIPPED)
        return ' ';
    return '.';
}

// The smallest n >= least that divides `tile`; `least` itself if there are no tiles.
static int unit(int least, int tile)
{
    while (tile > 0 && least < tile && tile % least) least++;
    return least;
}

size_t wb_picture_print(const wb_picture *p, char *text, size_t size)
{
    enum { WIDEST = 512 };
    canvas c = {text, size, 0};
    const int Nq = p->shape->q_len, Nk = p->shape->kv_len;
    const int rows = unit((Nq - 1) / p->max_rows + 1, p->BR);   // queries a line
    const int cols = unit((Nk - 1) / p->max_width + 1, p->BC);  // keys a character
    const int repeat = cols == 1 && 2 * Nk <= p->max_width ? 2 : 1;
    // Lines between tiles fall between characters.
    const bool tiles = p->BR > 0 && p->BR % rows == 0 && p->BC % cols == 0;

    // The numbers of the keys, where there is room for them.
    char head[WIDEST];
    const int step = tiles ? p->BC : 16 * cols / repeat;
    int length = 0;
    for (int j = 0; j < Nk; j += step) {
        const int at = j / cols * repeat + (tiles ? j / p->BC : 0);
        if (at > length || j == 0) length += snprintf(head + length, sizeof head - length, "%*s%d", at - length, "", j);
        if (length >= WIDEST - 16) break;
    }
    put(&c, "%s         key %s\n", p->indent, head);
    for (int i = 0; i < Nq; i += rows) {
        const int i1 = min_int(i + rows, Nq);
        if (tiles && i && i % p->BR == 0) {
            put(&c, "%s             ", p->indent);
            for (int j = 0; j < Nk; j += cols) {
                if (j && j % p->BC == 0) put(&c, "+");
                put_times(&c, '-', repeat);
            }
            put(&c, "\n");
        }
        put(&c, "%squery %6d ", p->indent, i);
        for (int j = 0; j < Nk; j += cols) {
            if (tiles && j && j % p->BC == 0) put(&c, "|");
            put_times(&c, letter(p, i, i1, j, min_int(j + cols, Nk)), repeat);
        }
        int wrong = 0;
        for (int k = i; p->wrong && k < i1; k++) wrong += p->wrong[k] != 0;
        if (wrong && rows == 1)
            put(&c, "  < wrong");
        else if (wrong)
            put(&c, "  < %d of %d wrong", wrong, i1 - i);
        put(&c, "\n");
    }
    return c.used;
}
