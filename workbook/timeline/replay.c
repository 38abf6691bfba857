#include "timeline.h"

#include <stdlib.h>
#include <string.h>

enum { GROUPS = 32, MEMBERS = 64, LANES = 32, QUARTERS = 4, NONE = -1 };
// What does one thing at a time: of a block, and of each rank its GPU.
enum { COPY_ENGINE, TENSOR_CORES, MATHS, GPU = MATHS + QUARTERS, UNITS = GPU + GROUPS };

// What a row does with its phases: waits for all of them, is a part of its one, or only has to do with it.
typedef enum role { WAITS, POSTS, REFERS } role;

// Work takes `fixed` and `each` of its amount on a unit, after a latency in which the unit is free.
#define SOFTMAX (QUARTERS * (1. / EXPONENTIALS + (double)BESIDE_EXPONENTIAL / ARITHMETIC))
#define MS(us)  ((us) / 1e3)
#define MORE    ((double)LONGER * WIDER)  // bytes than were recorded; FLOPs LONGER times as many again

typedef struct event {
    const char *name;
    role role;
    bar_kind kind;
    int unit;
    double latency, fixed, each;
} event;

static const event events[] = {
    {.name = "wait", WAITS},
    {.name = "idle", WAITS},  // a stream that has nothing to send yet
    {.name = "sent", REFERS},
    {.name = "arrive", POSTS},
    {.name = "receive", REFERS},
    {"load", POSTS, MOVE, COPY_ENGINE, COPY_LATENCY, 0, 1. / COPY_BYTES},
    {"send", REFERS, MOVE, COPY_ENGINE, 0, 0, 1. / COPY_BYTES},
    {"product", POSTS, PRODUCT, TENSOR_CORES, 0, 0, 1. / FLOPS},
    {"scores", REFERS, SCORES, MATHS, 0, 0, SOFTMAX},
    {"scale", REFERS, OTHER, NONE, 0, 0, (double)QUARTERS / ARITHMETIC},
    {"attention", POSTS, PRODUCT, GPU, 0, MS(CALL_US), MORE *LONGER / (TFLOPS * 1e9)},
    {"gradients", POSTS, PRODUCT, GPU, 0, MS(GRADIENTS_CALL_US), MORE *LONGER / (GRADIENTS_TFLOPS * 1e9)},
    {"kernel", POSTS, OTHER, GPU, 0, MS(LAUNCH_US), MORE / (MEMORY_GBS * 1e6)},
    {"copy", POSTS, OTHER, NONE, 0, MS(LAUNCH_US), MORE / (MEMORY_GBS * 1e6)},
    {"messages", POSTS, MOVE, NONE, 0, MS(MESSAGE_US), MORE / (WIRE_GBS * 1e6)},
};

static bool works(const event *e) { return e->each > 0; }
// Its actor goes on meanwhile, and it has a line of its own in the picture.
static bool works_apart(const event *e) { return works(e) && (e->unit == COPY_ENGINE || e->unit == TENSOR_CORES); }

// A warp, by its number in its group; or a stream of a rank.
typedef struct actor {
    int group, member, lane;      // lane or NONE
    bool sends, works, computes;  // whether it has rows of products; of any work; of kernels
    double at[LANES], sent;       // how far each lane has come; when all that it has sent is read
    char received[16];            // label of what came last
} actor;

typedef struct row {
    actor *who;
    unsigned lanes;
    const event *event;
    char what[64], source[64];
    double amount;
    size_t at;
    size_t phases, phase_count;  // in the list of all
    bool over;
} row;

// Over when all that is part of it is.
typedef struct phase {
    char name[64], said[128];  // said: without its number; of a ring what was its last part, and where
    int missing;
    double over;
    char label[16];  // of what is multiplied, or sent
} phase;

// What lies in a tile, or in a buffer of a rank; of several that cover an address the last.
typedef struct contents {
    int group;
    size_t at, end;
    char label[16];
} contents;

typedef struct replay {
    actor actors[GROUPS][MEMBERS];
    double free_from[UNITS];
    row *rows;
    phase *phases;
    size_t *listed;
    contents *contents;
    size_t row_count, phase_count, listed_count, contents_count;
    timeline *t;
} replay;

static double later(double a, double b) { return a > b ? a : b; }
static bool is(const row *r, const char *name) { return strcmp(r->event->name, name) == 0; }

#define COPY_TEXT(to, from) snprintf(to, sizeof(to), "%.*s", (int)sizeof(to) - 1, from)

// An array of `count` elements, with room for one more at least. Out of memory it ends the program.
static void *grown(void *array, size_t count, size_t size)
{
    if (count & (count - 1)) return array;  // room is a power of two
    array = realloc(array, (count ? 2 * count : 1) * size);
    if (array) return array;
    fprintf(stderr, "timeline: out of memory\n");
    exit(2);
}

#define ADD(array, count) ((array) = grown((array), (count)++, sizeof *(array)), &(array)[(count)-1])

// ------------------------ reading

static size_t find_phase(replay *p, const char *name)
{
    for (size_t i = p->phase_count; i-- > 0;)
        if (strcmp(p->phases[i].name, name) == 0) return i;
    phase *x = ADD(p->phases, p->phase_count);
    *x = (phase){.missing = 0};
    COPY_TEXT(x->name, name);
    snprintf(x->said, sizeof x->said, "%.*s", (int)strcspn(name, "#"), name);
    return p->phase_count - 1;
}

// who, lanes, event, what, amount, at, source; all that follow are phases.
static bool read_row(char *text, replay *p)
{
    enum { WHO, BY_LANES, EVENT, WHAT, AMOUNT, AT, SOURCE, FIELDS };
    char *field[FIELDS], *rest = text, *name;
    int group, member;
    for (char *c = text; *c; c++)
        if (strchr("\"\\<>&\n", *c)) *c = *c == '\n' ? 0 : '\'';  // what would end a text of SVG or of JSON
    for (int i = 0; i < FIELDS; i++)
        if (!(field[i] = strsep(&rest, "\t"))) return false;
    if (sscanf(field[WHO], "%d.%d", &group, &member) != 2) return false;
    if (group < 0 || group >= GROUPS || member < 0 || member >= MEMBERS) return false;
    row r = {.who = &p->actors[group][member],
             .lanes = (unsigned)strtoul(field[BY_LANES], NULL, 16),
             .amount = atof(field[AMOUNT]),
             .at = strtoull(field[AT], NULL, 16),
             .phases = p->listed_count};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (strcmp(field[EVENT], events[i].name) == 0) r.event = &events[i];
    if (!r.event || !r.lanes || !(r.amount >= 0 && r.amount < 1e18)) return false;
    COPY_TEXT(r.what, field[WHAT]);
    COPY_TEXT(r.source, field[SOURCE]);
    while ((name = strsep(&rest, "\t")))
        if (*name) {
            const size_t found = find_phase(p, name);
            *ADD(p->listed, p->listed_count) = found, r.phase_count++;
        }
    if (r.event->role == POSTS && r.phase_count != 1) return false;
    if (r.event->role == POSTS) p->phases[p->listed[r.phases]].missing++;
    if (is(&r, "product")) p->actors[group][0].sends = true;
    r.who->works = r.who->works || works(r.event);
    r.who->computes = r.who->computes || r.event->unit >= GPU;
    *ADD(p->rows, p->row_count) = r;
    return true;
}

static bool read_rows(const char *path, replay *p)
{
    char text[8192];
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        return false;
    }
    bool good = fgets(text, sizeof text, f) && strncmp(text, "who\tlanes\tevent\t", 16) == 0;
    p->t->of_ring = good && strstr(text, "\tof a ring");
    while (good && fgets(text, sizeof text, f)) good = read_row(text, p);
    fclose(f);
    if (!good)
        fprintf(stderr, "timeline: %s is not a record of a block or a ring\n", path);
    else if (!p->row_count)
        fprintf(stderr, "timeline: nothing is recorded in %s\n", path);
    return good && p->row_count;
}

static void add_lane(timeline *t, actor *a, int group, const char *format, int number, const char *of)
{
    if (t->lane_count == MOST_LANES) return;  // more are not drawn
    if (a) a->lane = t->lane_count;
    lane_name *l = &t->lanes[t->lane_count++];
    l->group = group;
    snprintf(l->name, sizeof l->name, format, number, of);
}

// Of a block each warpgroup that multiplies; of a ring each stream that does anything, and one without kernels is a
// wire.
static void add_lanes(replay *p)
{
    timeline *t = p->t;
    if (!t->of_ring) add_lane(t, NULL, NONE, "copy engine", 0, ""), add_lane(t, NULL, NONE, "tensor cores", 0, "");
    for (int g = 0; g < GROUPS; g++) {
        if (!t->of_ring && p->actors[g][0].sends) add_lane(t, &p->actors[g][0], g, "warpgroup %d", g, "");
        for (int m = 0; t->of_ring && m < MEMBERS; m++) {
            actor *a = &p->actors[g][m];
            if (a->works) add_lane(t, a, g, "rank %d %s", g, a->computes ? "stream" : "wire");
        }
    }
}

// ------------------------ replaying

static void put(replay *p, int group, size_t at, double bytes, const char *label)
{
    contents *c = ADD(p->contents, p->contents_count);
    *c = (contents){group, at, at + (size_t)bytes, ""};
    COPY_TEXT(c->label, label);
}

// What lies there; where nothing has come a rank's own, or what the record calls it.
static void find_label(const replay *p, const row *r, char label[16])
{
    const int group = p->t->of_ring ? r->who->group : 0;
    snprintf(label, 16, "%.15s", r->what);
    if (p->t->of_ring) snprintf(label, 16, "%x", (unsigned)group);
    for (size_t i = p->contents_count; i-- > 0;) {
        const contents *c = &p->contents[i];
        if (c->group != group || r->at < c->at || r->at >= c->end) continue;
        memcpy(label, c->label, sizeof c->label);
        return;
    }
}

// What a piece of work is called in the picture; what has come lies there from now on.
static void label_of(replay *p, row *r, const phase *own, char label[16])
{
    actor *a = r->who;
    label[0] = 0;
    if (is(r, "load")) put(p, 0, r->at, r->amount, r->what);
    if (r->event->kind == PRODUCT)
        find_label(p, r, label);
    else if (is(r, "messages"))
        memcpy(label, a->received, 16);
    else if (r->event->kind == MOVE)
        snprintf(label, 16, "%.15s", is(r, "send") ? "O" : r->what);
    else if (r->event->kind == SCORES && own)
        memcpy(label, own->label, 16);
}

static bar *add_bar(replay *p, bar_kind kind, const row *r, int lane, double from, double to)
{
    bar *b = ADD(p->t->bars, p->t->count);
    *b = (bar){.kind = kind, .lane = lane, .group = r->who->group, .from = from, .to = to};
    COPY_TEXT(b->source, r->source);
    p->t->end = later(p->t->end, to);
    return b;
}

static void wait_bar(replay *p, const row *r, double from, double to, const char *reason)
{
    if (to <= from || r->who->lane == NONE || is(r, "idle")) return;
    COPY_TEXT(add_bar(p, WAIT, r, r->who->lane, from, to)->reason, reason);
}

// A unit of the block, or the actor itself, works for a row that its lanes come to at `now`; returns when it is done.
static double work(replay *p, row *r, double now, phase *own)
{
    const event *e = r->event;
    actor *a = r->who;
    double *free_from = e->unit == NONE ? NULL : &p->free_from[e->unit];
    if (e->unit == MATHS) free_from += a->member % QUARTERS;
    if (e->unit == GPU) free_from += a->group;
    double from = now + e->latency;
    if (free_from && *free_from > from) {
        if (!works_apart(e)) wait_bar(p, r, from, *free_from, e->unit == GPU ? "the GPU" : "exponentials");
        from = *free_from;
    }
    const double to = from + e->fixed + e->each * r->amount;
    char label[16];
    label_of(p, r, own, label);
    if (own && e->role == POSTS) memcpy(own->label, label, sizeof label);
    const int lane = works_apart(e) ? e->unit : a->lane;
    if (lane != NONE) {
        bar *b = add_bar(p, e->kind, r, lane, from, to);
        memcpy(b->label, label, sizeof label);
        if (p->t->of_ring) COPY_TEXT(b->name, r->what);
    }
    if (free_from) *free_from = to;
    if (is(r, "send")) a->sent = to;
    return to;
}

// When all that a row waits for is over, if its lanes come to it at `now`; negative: that has not happened yet.
static double over_at(const replay *p, const row *r, double now, const phase **last)
{
    *last = NULL;
    if (is(r, "sent")) return later(now, r->who->sent);
    for (size_t i = 0; r->event->role == WAITS && i < r->phase_count; i++) {
        const phase *x = &p->phases[p->listed[r->phases + i]];
        if (x->missing) return -1;
        if (x->over > now) now = x->over, *last = x;
    }
    return now;
}

// A row is a part of its phase, over at `over`.
static void post(const replay *p, const row *r, phase *x, double over)
{
    if (over < x->over) return;
    x->over = over;
    if (p->t->of_ring) snprintf(x->said, sizeof x->said, "%.60s at %.60s", r->what, r->source);
}

static void run(replay *p, row *r, double now)
{
    actor *a = r->who;
    phase *own = r->phase_count && r->event->role != WAITS ? &p->phases[p->listed[r->phases]] : NULL;
    const phase *last;
    double over = over_at(p, r, now, &last);
    wait_bar(p, r, now, over, last ? last->said : "what it sends");
    if (r->event->role == POSTS) own->missing--;
    if (works(r->event) && !(is(r, "product") && own->missing)) {  // a product begins when all warps have issued it
        const double done = work(p, r, over, own);
        if (r->event->role == POSTS) post(p, r, own, done);
        if (!works_apart(r->event)) over = done;
    } else if (is(r, "arrive")) {
        post(p, r, own, over);
        if (r->at) find_label(p, r, own->label);
    } else if (is(r, "receive")) {
        put(p, a->group, r->at, r->amount, own->label);
        COPY_TEXT(a->received, own->label);
    }
    for (int lane = 0; lane < LANES; lane++)
        if (r->lanes >> lane & 1) a->at[lane] = over;
    p->t->end = later(p->t->end, over);
    r->over = true;
}

// Of all rows that may come next, the one that is over first. A lane's rows come in their order.
static row *next_row(replay *p, double *now)
{
    unsigned behind[GROUPS][MEMBERS] = {{0}};  // lanes that have a row further up
    row *best = NULL;
    double best_over = 0;
    for (size_t i = 0; i < p->row_count; i++) {
        row *r = &p->rows[i];
        unsigned *waiting = &behind[r->who->group][r->who->member];
        const bool blocked = *waiting & r->lanes;
        const phase *last;
        if (r->over) continue;
        *waiting |= r->lanes;
        if (blocked) continue;
        double start = 0;
        for (int lane = 0; lane < LANES; lane++)
            if (r->lanes >> lane & 1) start = later(start, r->who->at[lane]);
        const double over = over_at(p, r, start, &last);
        if (over < 0 || (best && over >= best_over)) continue;
        best = r, best_over = over, *now = start;
    }
    return best;
}

bool timeline_replay(const char *path, timeline *t)
{
    static replay p;
    p = (replay){.t = t};
    *t = (timeline){0};
    for (int g = 0; g < GROUPS; g++)
        for (int m = 0; m < MEMBERS; m++) p.actors[g][m] = (actor){.group = g, .member = m, .lane = NONE};
    if (!read_rows(path, &p)) return false;
    add_lanes(&p);
    double now = 0;
    size_t done = 0;
    for (row *r; (r = next_row(&p, &now)); done++) run(&p, r, now);
    if (done < p.row_count) fprintf(stderr, "timeline: %s: events wait for each other in a cycle\n", path);
    return done == p.row_count;
}
