#include "replay.h"

#include "grown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARPS = 32, LANES = 32, QUARTERS = 4, GROUPS = WARPS / QUARTERS, NONE = -1 };

typedef struct row {
    int warp;
    unsigned lanes;
    char event[16], what[64], signal[64];
    long number, amount, first;
    int line;
    int phase;  // that it is part of, or waits for; an index, or NONE
    bool over;
} row;

// A phase of a signal or barrier: over when all that is part of it is.
typedef struct phase {
    char signal[64];
    long number;
    int missing;
    double over;
    int after;  // the bar that was its last part, or the last one of the group that arrived last
} phase;

// A product of a group: begun when its four warps have issued it.
typedef struct product {
    int missing;
    double done;
    char label[16];
    int bar;
} product;

typedef struct contents {
    char tile[64], label[16];
} contents;

// Something grows by one now and then.
#define ADD(array, count) ((array) = grown((array), (count)++, sizeof *(array)), &(array)[(count)-1])

typedef struct replay {
    row *rows;
    phase *phases;
    contents *tiles;
    product *products[GROUPS];  // [number], from 1 on
    size_t row_count, phase_count, tile_count, product_count[GROUPS];
    double at[WARPS][LANES];                       // how far each lane has come
    double copies, tensor_cores, maths[QUARTERS];  // from when on the units are free
    double sent[WARPS];                            // when all that a warp has sent is read
    int last[WARPS], cause[WARPS];                 // a warp's last bar, and what its last wait waited for; bars
    int last_copy, maths_last[QUARTERS];           // bars
    timeline *t;
} replay;

static double later(double a, double b) { return a > b ? a : b; }
static bool is(const row *r, const char *event) { return strcmp(r->event, event) == 0; }

// ---------------------------------------------------------------------------------------------------------------- reading

static bool read_row(char *text, row *r)
{
    char *field[9], *rest = text;
    text[strcspn(text, "\n")] = 0;
    for (int i = 0; i < 9; i++)
        if (!(field[i] = strsep(&rest, "\t"))) return false;
    *r = (row){.warp = atoi(field[0]),
               .lanes = (unsigned)strtoul(field[1], NULL, 16),
               .number = atol(field[5]),
               .amount = atol(field[6]),
               .first = atol(field[7]),
               .line = atoi(field[8]),
               .phase = NONE};
    snprintf(r->event, sizeof r->event, "%s", field[2]);
    snprintf(r->what, sizeof r->what, "%s", field[3]);
    snprintf(r->signal, sizeof r->signal, "%s", field[4]);
    return !rest && r->warp >= 0 && r->warp < WARPS && r->number >= 0 && r->number < 1 << 24;
}

static int find_phase(replay *p, const char *signal, long number)
{
    for (size_t i = 0; i < p->phase_count; i++)
        if (p->phases[i].number == number && strcmp(p->phases[i].signal, signal) == 0) return (int)i;
    phase *x = ADD(p->phases, p->phase_count);
    *x = (phase){.number = number, .after = NONE};
    snprintf(x->signal, sizeof x->signal, "%s", signal);
    return (int)p->phase_count - 1;
}

static product *find_product(replay *p, const row *r)
{
    const int g = r->warp / QUARTERS;
    while (p->product_count[g] <= (size_t)r->number) *ADD(p->products[g], p->product_count[g]) = (product){0};
    return &p->products[g][r->number];
}

static bool read_rows(const char *path, replay *p)
{
    char text[512];
    row r;
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        return false;
    }
    bool good = fgets(text, sizeof text, f) && strncmp(text, "warp\tlanes\tevent\t", 17) == 0;
    const char *const of = good ? strstr(text, "\tof ") : NULL;
    const long blocks = of ? strtol(of + 4, NULL, 10) : 0;  // of the launch
    while (good && fgets(text, sizeof text, f) && (good = read_row(text, &r))) {
        if (is(&r, "load") || is(&r, "arrive")) {
            r.phase = find_phase(p, is(&r, "load") ? r.signal : r.what, r.number);
            p->phases[r.phase].missing++;
        } else if (is(&r, "wait") && r.number > 0)
            r.phase = find_phase(p, r.what, r.number - 1);
        else if (is(&r, "product"))
            find_product(p, &r)->missing++;
        *ADD(p->rows, p->row_count) = r;
    }
    fclose(f);
    if (!good)
        fprintf(stderr, "timeline: %s is no record of a block\n", path);
    else if (!p->row_count)
        fprintf(stderr, "timeline: nothing is recorded of this block: the launch has %ld, numbered from 0\n", blocks);
    return good && p->row_count;
}

// --------------------------------------------------------------------------------------------------------------- replaying

static bar *add_bar(replay *p, bar_kind kind, const row *r, double from, double to, const char *label)
{
    bar *b = ADD(p->t->bars, p->t->count);
    *b = (bar){.kind = kind, .warp = r->warp, .from = from, .to = to, .line = r->line, .after = p->cause[r->warp]};
    if (kind != COPY && kind != PRODUCT) p->last[r->warp] = (int)p->t->count - 1;
    snprintf(b->label, sizeof b->label, "%s", label);
    p->t->cycles = later(p->t->cycles, to);
    return b;
}

// What a tile holds now, "K7"; of one into which nothing was loaded its name.
static contents *find_tile(replay *p, const char *tile)
{
    for (size_t i = 0; i < p->tile_count; i++)
        if (strcmp(p->tiles[i].tile, tile) == 0) return &p->tiles[i];
    contents *c = ADD(p->tiles, p->tile_count);
    snprintf(c->tile, sizeof c->tile, "%s", tile);
    snprintf(c->label, sizeof c->label, "%.*s", (int)strcspn(tile, ".["), tile);
    return c;
}

static void wait_bar(replay *p, const row *r, double from, double to, const char *reason, int after)
{
    if (to <= from) return;
    bar *b = add_bar(p, WAIT, r, from, to, "");
    b->after = p->cause[r->warp] = after;
    snprintf(b->reason, sizeof b->reason, "%s", reason);
}

// The copy engine brings or sends a tile; returns when that is done.
static double copy(replay *p, const row *r, double now)
{
    contents *tile = find_tile(p, r->what);
    const double from = later(now + (is(r, "load") ? COPY_LATENCY : 0), p->copies);
    p->copies = from + (double)r->amount / COPY_BYTES;
    if (is(r, "load"))
        snprintf(tile->label, sizeof tile->label, "%.*s%ld", (int)strcspn(r->what, ".["), r->what, r->first % 100000);
    else
        p->sent[r->warp] = p->copies;
    add_bar(p, COPY, r, from, p->copies, is(r, "load") ? tile->label : "O");
    p->last_copy = (int)p->t->count - 1;
    return p->copies;
}

static void issue(replay *p, const row *r, double now)
{
    product *x = find_product(p, r);
    if (--x->missing) return;
    const double from = later(now, p->tensor_cores);
    x->done = p->tensor_cores = from + (double)r->amount / FLOPS;
    memcpy(x->label, find_tile(p, r->signal)->label, sizeof x->label);
    add_bar(p, PRODUCT, r, from, x->done, x->label);
    x->bar = (int)p->t->count - 1;
}

// A warp works on a result, with the units of its quarter; returns when it has.
static double work(replay *p, const row *r, double now)
{
    const double elements = QUARTERS * (double)r->amount, arithmetic = elements / ARITHMETIC;
    if (is(r, "scale")) {
        add_bar(p, SCALE, r, now, now + arithmetic, "");
        return now + arithmetic;
    }
    double *unit = &p->maths[r->warp % QUARTERS];
    const double from = later(now, *unit);
    wait_bar(p, r, now, from, "exponentials", p->maths_last[r->warp % QUARTERS]);
    *unit = from + elements / EXPONENTIALS + BESIDE_EXPONENTIAL * arithmetic;
    add_bar(p, SCORES, r, from, *unit, find_product(p, r)->label);
    p->maths_last[r->warp % QUARTERS] = (int)p->t->count - 1;
    return *unit;
}

// When a row that its lanes come to at `now` is over; negative: what it waits for has not happened yet.
static double over_at(replay *p, const row *r, double now)
{
    if (is(r, "wait") && r->phase != NONE)
        return p->phases[r->phase].missing ? -1 : later(now, p->phases[r->phase].over);
    if (is(r, "done") && r->number) return find_product(p, r)->missing ? -1 : later(now, find_product(p, r)->done);
    return is(r, "sent") ? later(now, p->sent[r->warp]) : now;
}

// The bar that a row waits for.
static int waits_for(replay *p, const row *r)
{
    if (is(r, "done")) return r->number ? find_product(p, r)->bar : NONE;
    return is(r, "sent") ? p->last_copy : r->phase == NONE ? NONE : p->phases[r->phase].after;
}

static void run(replay *p, row *r, double now)
{
    double over = over_at(p, r, now), part = over;
    wait_bar(p, r, now, over, is(r, "done") ? "a product" : is(r, "sent") ? "what it sends" : r->what, waits_for(p, r));
    if (is(r, "load") || is(r, "send"))
        part = copy(p, r, over);
    else if (is(r, "product"))
        issue(p, r, over);
    else if (is(r, "scores") || is(r, "scale"))
        over = work(p, r, over);
    if (r->phase != NONE && !is(r, "wait")) {
        p->phases[r->phase].missing--;
        if (part >= p->phases[r->phase].over)  // of a group its first warp, which is drawn
            p->phases[r->phase].after = is(r, "load") ? p->last_copy : p->last[r->warp / QUARTERS * QUARTERS];
        p->phases[r->phase].over = later(p->phases[r->phase].over, part);
    }
    for (int lane = 0; lane < LANES; lane++)
        if (r->lanes >> lane & 1) p->at[r->warp][lane] = over;
    p->t->cycles = later(p->t->cycles, over);
    r->over = true;
}

// Of all rows that may come next, the one that is over first. A lane's rows come in their order.
static row *next_row(replay *p, double *now)
{
    unsigned behind[WARPS] = {0};  // lanes that have a row further up
    row *best = NULL;
    double best_over = 0;
    for (size_t i = 0; i < p->row_count; i++) {
        row *r = &p->rows[i];
        const bool blocked = behind[r->warp] & r->lanes;
        if (r->over) continue;
        behind[r->warp] |= r->lanes;
        if (blocked) continue;
        double start = 0;
        for (int lane = 0; lane < LANES; lane++)
            if (r->lanes >> lane & 1) start = later(start, p->at[r->warp][lane]);
        const double over = over_at(p, r, start);
        if (over < 0 || (best && over >= best_over)) continue;
        best = r, best_over = over, *now = start;
    }
    return best;
}

bool timeline_replay(const char *path, timeline *t)
{
    replay p = {.t = t};
    *t = (timeline){0};
    for (int w = 0; w < WARPS; w++) p.last[w] = p.cause[w] = NONE;
    for (int k = 0; k < QUARTERS; k++) p.maths_last[k] = NONE;
    if (!read_rows(path, &p)) return false;
    double now = 0;
    size_t done = 0;
    for (row *r; (r = next_row(&p, &now)); done++) run(&p, r, now);
    for (int g = 0; g < GROUPS; g++) {
        if (p.product_count[g]) t->groups[t->group_count++] = g;
        free(p.products[g]);
    }
    if (done < p.row_count) fprintf(stderr, "timeline: %s: events that wait for each other\n", path);
    free(p.rows), free(p.phases), free(p.tiles);
    return done == p.row_count;
}
