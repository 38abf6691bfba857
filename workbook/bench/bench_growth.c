// bench_growth.c - how time grows with the sequence under a sliding window: the proof in figures that tiles outside of it cost nothing.
#include "bench.h"

#include <string.h>

enum { FIRST = 8192, FACTOR = 4, ROOM = 384 };

typedef struct point {
    char label[32];
    attention_shape shape;
    double ms;
} point;

typedef struct memory {
    int count;
    point points[ROOM];
} memory;
_Static_assert(sizeof(memory) <= BENCH_KEPT, "all points must outlive an implementation that ends the program");

void bench_growth_note(const wb_problem *problem, const char *label, const wb_case *c, double ms)
{
    memory *m = (memory *)bench_guard_state()->kept;
    if (!problem->window || m->count == ROOM) return;
    point *p = &m->points[m->count++];
    snprintf(p->label, sizeof p->label, "%s", label);
    p->shape = c->shape;
    p->ms = ms;
}

static bool same_but_length(const point *a, const point *b)
{
    attention_shape x = a->shape, y = b->shape;
    x.q_len = y.q_len = x.kv_len = y.kv_len = 0;
    return strcmp(a->label, b->label) == 0 && memcmp(&x, &y, sizeof x) == 0;
}

void bench_growth_say(const wb_problem *problem, FILE *out)
{
    const memory *m = (const memory *)bench_guard_state()->kept;
    for (int i = 0; i < m->count; i++)
        for (int k = 0; k < m->count; k++) {
            const point *from = &m->points[i], *to = &m->points[k];
            char shape[80], text[320];
            if (from->shape.q_len != FIRST || to->shape.q_len != FACTOR * FIRST || !same_but_length(from, to)) continue;
            const wb_case c = {.shape = from->shape};
            bench_shape_text(problem, &c, shape, sizeof shape);
            snprintf(text, sizeof text,
                     "%.31s, %s: %.4g ms; at N = %d %.4g ms, %.1f times as much (as N W: %d times, as N^2: %d times)",
                     from->label, shape, from->ms, FACTOR * FIRST, to->ms, to->ms / from->ms, FACTOR, FACTOR * FACTOR);
            bench_say("bench: %s\n", text);
            if (out != stdout) fprintf(out, "# %s\n", text);
        }
}
