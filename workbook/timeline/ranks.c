#include "ranks.h"

#include "grown.h"

#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------------------------------------------------------- reading

static bool read_clock(const char *text, long before[MOST_STREAMS])
{
    for (char *end; *text && strcmp(text, "-") != 0; text = end + (*end == ' ')) {
        const long stream = strtol(text, &end, 10);
        if (end == text || *end != ':' || stream < 0 || stream >= MOST_STREAMS) return false;
        const char *number = end + 1;
        before[stream] = strtol(number, &end, 10);
        if (end == number || (*end && *end != ' ')) return false;
    }
    return true;
}

enum { RANK, ORDER, STREAM, NUMBER, KIND, NAME, SOURCE, LINE, COST, AT, PEER, TURN, CLOCK, FIELDS };

// A row is a piece, or one more message of the piece before it.
static bool read_row(char *text, rank_timeline *t)
{
    char *field[FIELDS], *rest = text;
    text[strcspn(text, "\n")] = 0;
    for (int i = 0; i < FIELDS; i++)
        if (!(field[i] = strsep(&rest, "\t"))) return false;
    const char *kind = field[KIND];
    const bool sends = strncmp(kind, "send", 4) == 0, receives = strncmp(kind, "receive", 7) == 0;
    const bool kernel = strcmp(kind, "kernel") == 0, copy = strcmp(kind, "copy") == 0;
    const bool gradients = strcmp(kind, "gradients") == 0;
    if (rest || (!sends && !receives && !kernel && !copy && !gradients && strcmp(kind, "product") != 0)) return false;
    piece p = {.kind = sends || receives ? PIECE_MESSAGES
                       : kernel          ? PIECE_KERNEL
                       : copy            ? PIECE_COPY
                                         : PIECE_PRODUCT,
               .rank = atoi(field[RANK]),
               .stream = atoi(field[STREAM]),
               .order = atol(field[ORDER]),
               .number = atol(field[NUMBER]),
               .line = atoi(field[LINE]),
               .cost = atof(field[COST]),
               .keys = strtoull(field[AT], NULL, 16),
               .gradients = gradients,
               .after = NOTHING,
               .partner = NOTHING};
    snprintf(p.name, sizeof p.name, "%s", field[NAME]);
    snprintf(p.file, sizeof p.file, "%s", field[SOURCE]);
    if (p.rank < 0 || p.rank >= t->ranks || p.stream < 0 || p.stream >= MOST_STREAMS || p.number < 1 ||
        !(p.cost >= 0 && p.cost < 1e18) || !read_clock(field[CLOCK], p.before))
        return false;
    piece *last = t->count ? &t->pieces[t->count - 1] : NULL;
    if (!last || last->rank != p.rank || last->order != p.order || p.kind != PIECE_MESSAGES) {
        t->pieces = grown(t->pieces, t->count, sizeof p);
        t->pieces[t->count++] = p;
        last = &t->pieces[t->count - 1];
    }
    if (p.kind != PIECE_MESSAGES) return true;
    const message m = {sends, strstr(kind, " all") != NULL, atoi(field[PEER]), atoi(field[TURN]), p.cost, p.keys,
                       p.line};
    if (m.peer < 0 || m.peer >= t->ranks) return false;
    last->messages = grown(last->messages, last->message_count, sizeof m);
    last->messages[last->message_count++] = m;
    return true;
}

static int by_rank_and_order(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    return x->rank != y->rank ? x->rank - y->rank : (x->order > y->order) - (x->order < y->order);
}

bool ranks_recorded(const char *path)
{
    char text[3] = "";
    FILE *f = fopen(path, "r");
    if (f) {
        if (!fgets(text, sizeof text, f)) *text = 0;
        fclose(f);
    }
    return strcmp(text, "N\t") == 0;
}

static bool read_rows(const char *path, rank_timeline *t)
{
    char text[8192];
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        return false;
    }
    bool good = fgets(text, sizeof text, f) &&
                sscanf(text, "N\t%d\theads\t%d\tD\t%d\tranks\t%d", &t->N, &t->heads, &t->D, &t->ranks) == 4 &&
                t->N > 0 && t->heads > 0 && t->D > 0 && t->ranks > 0 && t->ranks <= MOST_RANKS;
    good = good && fgets(text, sizeof text, f) && strncmp(text, "rank\torder\tstream\t", 18) == 0;
    while (good && fgets(text, sizeof text, f)) good = read_row(text, t);
    fclose(f);
    if (!good)
        fprintf(stderr, "timeline: %s is no record of ranks\n", path);
    else if (!t->count)
        fprintf(stderr, "timeline: nothing is recorded in %s: no rank has queued anything\n", path);
    if (good && t->count) qsort(t->pieces, t->count, sizeof *t->pieces, by_rank_and_order);
    for (size_t i = 0; i < t->count; i++)
        for (int r = t->pieces[i].rank; r < MOST_RANKS; r++) t->first[r + 1] = i + 1;
    return good && t->count;
}

// --------------------------------------------------------------------------------------------------------------- whose keys

static int partner_of(const rank_timeline *t, int rank, const message *m, const message **its)
{
    for (size_t i = t->first[m->peer]; i < t->first[m->peer + 1]; i++) {
        const piece *p = &t->pieces[i];
        for (size_t k = 0; k < p->message_count; k++) {
            const message *o = &p->messages[k];
            if (o->peer != rank || o->send == m->send || o->all != m->all || o->turn != m->turn) continue;
            *its = o;
            return (int)i;
        }
    }
    return NOTHING;
}

// What lies there when a piece begins, back along the messages that brought it: on which rank it was first. `hops` left.
static int owner_of(const rank_timeline *t, const piece *p, size_t at, int hops)
{
    const piece *last = NULL;
    const message *came = NULL;
    for (size_t i = t->first[p->rank]; &t->pieces[i] < p; i++) {
        const piece *o = &t->pieces[i];
        if (p->before[o->stream] < o->number) continue;
        for (size_t k = 0; k < o->message_count; k++) {
            const message *m = &o->messages[k];
            if (!m->send && at >= m->at && (double)(at - m->at) < m->bytes) last = o, came = m;
        }
    }
    if (!last || !hops) return p->rank;
    const message *sent;
    const int from = partner_of(t, p->rank, came, &sent);
    return from == NOTHING ? p->rank : owner_of(t, &t->pieces[from], sent->at + (at - came->at), hops - 1);
}

static void add_owner(piece *p, int rank)
{
    for (int i = 0; i < p->owner_count; i++)
        if (p->owners[i] == rank) return;
    p->owners[p->owner_count++] = rank;
}

static void find_owners(rank_timeline *t)
{
    for (size_t i = 0; i < t->count; i++) {
        piece *p = &t->pieces[i];
        if (p->kind == PIECE_PRODUCT) add_owner(p, owner_of(t, p, p->keys, MOST_RANKS));
        for (size_t k = 0; k < p->message_count; k++) {
            const message *sent;
            const int from = p->messages[k].send ? NOTHING : partner_of(t, p->rank, &p->messages[k], &sent);
            if (from != NOTHING) add_owner(p, owner_of(t, &t->pieces[from], sent->at, MOST_RANKS));
        }
    }
}

// --------------------------------------------------------------------------------------------------------------- replaying

static double larger(double a, double b) { return a > b ? a : b; }

// How long a piece takes, in ms, at the size that is drawn.
static double takes(const rank_timeline *t, const piece *p)
{
    const double longer = (double)t->as / t->N, wider = (double)DRAWN_HEADS * DRAWN_D / t->heads / t->D;
    if (p->kind == PIECE_PRODUCT) {
        const double rate = p->gradients ? GRADIENTS_TFLOPS : TFLOPS, call = p->gradients ? GRADIENTS_CALL_US : CALL_US;
        return call / 1e3 + p->cost * longer * longer * wider / (rate * 1e9);
    }
    if (p->kind != PIECE_MESSAGES) return LAUNCH_US / 1e3 + p->cost * longer * wider / (MEMORY_GBS * 1e6);
    double out = 0, in = 0;
    for (size_t i = 0; i < p->message_count; i++)
        if (p->messages[i].peer != p->rank) *(p->messages[i].send ? &out : &in) += p->messages[i].bytes;
    return MESSAGE_US / 1e3 + larger(out, in) * longer * wider / (WIRE_GBS * 1e6);
}

enum { BEGUN = 1, OVER = 2 };  // of a piece, while it is replayed

// Whether all that it is ordered behind is over; then when.
static bool is_ready(const rank_timeline *t, const char *state, piece *p)
{
    if (p->is_ready) return true;
    p->ready = 0, p->after = NOTHING;
    for (size_t i = t->first[p->rank]; i < t->first[p->rank + 1]; i++) {
        const piece *o = &t->pieces[i];
        if (o == p || p->before[o->stream] < o->number) continue;
        if (state[i] != OVER) return false;
        if (o->to >= p->ready) p->ready = o->to, p->after = (int)i;
    }
    return p->is_ready = true;
}

// Messages whose partners have all begun are over after their bytes.
static void end_messages(rank_timeline *t, char *state)
{
    for (size_t i = 0; i < t->count; i++) {
        piece *p = &t->pieces[i];
        if (p->kind != PIECE_MESSAGES || state[i] != BEGUN) continue;
        bool all = true;
        double from = p->ready;
        int last = NOTHING;
        for (size_t k = 0; k < p->message_count && all; k++) {
            const message *its;
            const int o = partner_of(t, p->rank, &p->messages[k], &its);
            all = o != NOTHING && state[o];
            if (all && t->pieces[o].ready > from) from = t->pieces[o].ready, last = o;
        }
        if (all) p->from = from, p->to = from + takes(t, p), p->partner = last, state[i] = OVER;
    }
}

// Of all pieces that can begin the one that can first is next: whatever else there is comes behind one of these.
bool ranks_replay(const char *path, int as, rank_timeline *t)
{
    *t = (rank_timeline){.as = as};
    if (!read_rows(path, t)) return false;
    char *state = calloc(t->count, 1);
    double free_from[MOST_RANKS] = {0};  // the GPU, for kernels
    int last_kernel[MOST_RANKS];
    size_t begun = 0;
    for (int r = 0; r < MOST_RANKS; r++) last_kernel[r] = NOTHING;
    for (; state && begun < t->count; begun++) {
        int best = NOTHING;
        for (size_t i = 0; i < t->count; i++)
            if (!state[i] && is_ready(t, state, &t->pieces[i]) &&
                (best == NOTHING || t->pieces[i].ready < t->pieces[best].ready))
                best = (int)i;
        if (best == NOTHING) break;
        piece *p = &t->pieces[best];
        if (p->kind == PIECE_MESSAGES) {
            state[best] = BEGUN;
            end_messages(t, state);
        } else {
            const bool copy = p->kind == PIECE_COPY;
            p->from = p->ready;
            if (!copy && free_from[p->rank] > p->from) p->from = free_from[p->rank], p->after = last_kernel[p->rank];
            p->to = p->from + takes(t, p);
            if (!copy) free_from[p->rank] = p->to, last_kernel[p->rank] = best;
            state[best] = OVER;
        }
    }
    bool whole = state && begun == t->count;
    for (size_t i = 0; whole && i < t->count; i++) whole = state[i] == OVER, t->ms = larger(t->ms, t->pieces[i].to);
    free(state);
    if (!whole) fprintf(stderr, "timeline: %s: a rank waits for messages that no other one has asked for\n", path);
    if (whole) find_owners(t);
    return whole;
}

void ranks_free(rank_timeline *t)
{
    for (size_t i = 0; i < t->count; i++) free(t->pieces[i].messages);
    free(t->pieces);
    *t = (rank_timeline){0};
}
