#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------------------------------------------------------- what is drawn
// A line for each stream that a rank has put something on: pieces, and what lies before them.

typedef struct lane {
    int rank, stream;
    bool wire;      // it has no kernels
    char name[32];  // "rank 0 wire"
} lane;
enum { MOST_LANES = 128 };

static bool is_kernel(const piece *p) { return p->kind == PIECE_PRODUCT || p->kind == PIECE_KERNEL; }

static int lanes_of(const rank_timeline *t, lane *lanes)
{
    int count = 0;
    for (int r = 0; r < t->ranks; r++)
        for (int s = 0; s < MOST_STREAMS && count < MOST_LANES; s++) {
            lane l = {r, s, true, ""};
            bool any = false;
            for (size_t i = t->first[r]; i < t->first[r + 1]; i++)
                if (t->pieces[i].stream == s) any = true, l.wire = l.wire && !is_kernel(&t->pieces[i]);
            if (any) lanes[count++] = l;
        }
    for (int i = 0; i < count; i++) {
        int alike = 0, before = 0;
        for (int k = 0; k < count; k++)
            if (lanes[k].rank == lanes[i].rank && lanes[k].wire == lanes[i].wire) alike++, before += k <= i;
        const int n = snprintf(lanes[i].name, sizeof lanes[i].name, "rank %d %s", lanes[i].rank,
                               lanes[i].wire ? "wire" : "stream");
        if (alike > 1) snprintf(lanes[i].name + n, sizeof lanes[i].name - (size_t)n, " %d", before);
    }
    return count;
}

typedef enum bar_kind { PRODUCT, SMALL, MESSAGES, BUBBLE, IDLE } bar_kind;
static const char *const kind_names[] = {"product", "small", "messages", "bubble", "idle"};

typedef struct bar {
    bar_kind kind;
    double from, to;
    const piece *p;  // whose it is; of a BUBBLE or IDLE the piece behind it
} bar;

static bool on_lane(const piece *p, const lane *l) { return p->rank == l->rank && p->stream == l->stream; }

// The bars of a piece, in time; returns how many. A stream of products that waits is a bubble, and so are messages that wait for another
// rank. A wire that has nothing to send yet is idle.
static int bars_of(const rank_timeline *t, const piece *p, const lane *l, bar bars[3])
{
    int count = 0;
    double end = 0;
    for (const piece *o = p - 1; o >= t->pieces && o->rank == p->rank && end == 0; o--)
        if (o->stream == p->stream) end = o->to;
    const double ready = p->kind == PIECE_MESSAGES ? p->ready : p->from;
    if (ready > end) bars[count++] = (bar){l->wire ? IDLE : BUBBLE, end, ready, p};
    if (p->from > ready) bars[count++] = (bar){BUBBLE, ready, p->from, p};
    const bar_kind kind = p->kind == PIECE_PRODUCT ? PRODUCT : p->kind == PIECE_MESSAGES ? MESSAGES : SMALL;
    bars[count++] = (bar){kind, p->from, p->to, p};
    return count;
}

static void print_owners(const piece *p, char text[64])
{
    int n = 0;
    text[0] = 0;
    for (int i = 0; i < p->owner_count; i++)
        n += snprintf(text + n, 64 - (size_t)n, "%s%d", n ? " " : "", p->owners[i]);
}

static const message *first_received(const piece *p)
{
    for (size_t k = 0; k < p->message_count; k++)
        if (!p->messages[k].send) return &p->messages[k];
    return p->message_count ? &p->messages[0] : NULL;
}

// What a bubble or an idle wire waits for.
static void print_reason(const rank_timeline *t, const bar *b, char *text, size_t size)
{
    const piece *p = b->p;
    if (b->kind == BUBBLE && p->kind == PIECE_MESSAGES && b->to > p->ready && p->partner != NOTHING) {
        const piece *o = &t->pieces[p->partner];
        snprintf(text, size, "rank %d, which comes to %s:%d only at %.2f ms", o->rank, o->file, o->line, o->ready);
        return;
    }
    if (p->after == NOTHING) {
        snprintf(text, size, "nothing");
        return;
    }
    const piece *o = &t->pieces[p->after];
    const message *m = o->kind == PIECE_MESSAGES ? first_received(o) : NULL;
    int n = 0;
    if (m)
        n = snprintf(text, size, "what %s:%d %s rank %d", o->file, m->line, m->send ? "sends to" : "receives from",
                     m->peer);
    if (m && o->partner != NOTHING && o->from - o->ready > t->ms / 200)
        snprintf(text + n, size - (size_t)n, ", which rank %d comes to at %.2f ms", t->pieces[o->partner].rank,
                 o->from);
    if (!m) snprintf(text, size, "%.*s at %s:%d", (int)strcspn(o->name, "<"), o->name, o->file, o->line);
}

typedef struct shares {
    double of[IDLE + 1];  // ms
    double idle;          // while no kernel runs
    double under;         // of its messages, while a product runs
} shares;

static shares shares_of(const rank_timeline *t, const lane *lanes, int count, int rank)
{
    shares s = {.under = 0};
    for (int l = 0; l < count; l++)
        for (size_t i = t->first[rank]; i < t->first[rank + 1] && lanes[l].rank == rank; i++) {
            const piece *p = &t->pieces[i];
            if (!on_lane(p, &lanes[l])) continue;
            bar bars[3];
            const int n = bars_of(t, p, &lanes[l], bars);
            for (int k = 0; k < n; k++)
                if (bars[k].kind != SMALL || !lanes[l].wire) s.of[bars[k].kind] += bars[k].to - bars[k].from;
            for (size_t j = t->first[rank]; p->kind == PIECE_MESSAGES && j < t->first[rank + 1]; j++)
                if (t->pieces[j].kind == PIECE_PRODUCT)
                    s.under += fmax(0, fmin(p->to, t->pieces[j].to) - fmax(p->from, t->pieces[j].from));
        }
    s.idle = fmax(0, t->ms - s.of[PRODUCT] - s.of[SMALL]);
    return s;
}

// Of its products.
static int tflops(const rank_timeline *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->pieces[i].gradients) return GRADIENTS_TFLOPS;
    return TFLOPS;
}

static void print_sizes(const rank_timeline *t, char *text, size_t size)
{
    snprintf(text, size, "N %d drawn as %d, %d heads of %d as %d of %d", t->N, t->as, t->heads, t->D, DRAWN_HEADS,
             DRAWN_D);
}

// ------------------------------------------------------------------------------------------------------------------ in the terminal

enum { COLUMNS = 80, GAPS = 4 };

static char letter(const bar *b)
{
    if (b->kind == PRODUCT) return "0123456789abcdef"[b->p->owners[0]];
    if (b->kind == MESSAGES) return b->p->number % 2 ? '=' : '~';
    return " + . "[b->kind];
}

// Each column shows what takes most of it.
static void print_lane(const rank_timeline *t, const lane *l, FILE *f)
{
    char row[COLUMNS + 1];
    for (int c = 0; c < COLUMNS; c++) {
        const double from = t->ms * c / COLUMNS, to = t->ms * (c + 1) / COLUMNS;
        double filled[128] = {0}, most = (to - from) / 4;
        row[c] = ' ';
        for (size_t i = t->first[l->rank]; i < t->first[l->rank + 1]; i++) {
            bar bars[3];
            const int n = on_lane(&t->pieces[i], l) ? bars_of(t, &t->pieces[i], l, bars) : 0;
            for (int k = 0; k < n; k++) {
                double *sum = &filled[letter(&bars[k]) & 127];
                *sum += fmax(0, fmin(bars[k].to, to) - fmax(bars[k].from, from));
                if (*sum > most) most = *sum, row[c] = letter(&bars[k]);
            }
        }
    }
    row[COLUMNS] = 0;
    fprintf(f, "  %-16s|%s|\n", l->name, row);
}

static double length(const bar *b) { return b->to - b->from; }

static int longest_first(const void *a, const void *b)
{
    const bar *x = a, *y = b;
    const double more = length(y) - length(x);
    return fabs(more) > 1e-9 ? (more > 0) - (more < 0) : (x->p > y->p) - (x->p < y->p);
}

// When no kernel of a rank runs, and the one that comes next is waited for: longest first; returns how many.
static int find_gaps(const rank_timeline *t, bar *gaps)
{
    int count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const piece *p = &t->pieces[i];
        bar gap = {BUBBLE, 0, p->from, p};
        for (size_t k = t->first[p->rank]; k < t->first[p->rank + 1]; k++) {  // the last one before it
            const piece *o = &t->pieces[k];
            const bool works = is_kernel(o) || (o->kind == PIECE_COPY && o->stream == p->stream);
            if (works && o->from < p->from) gap.from = fmax(gap.from, o->to);
        }
        if (is_kernel(p) && length(&gap) > t->ms / 200) gaps[count++] = gap;
    }
    qsort(gaps, (size_t)count, sizeof *gaps, longest_first);
    return count;
}

// Other ranks do the same at about the same time.
static bool alike(const rank_timeline *t, const bar *a, const bar *b)
{
    return a->p->rank != b->p->rank && a->p->line == b->p->line && strcmp(a->p->name, b->p->name) == 0 &&
           fabs(a->from - b->from) < t->ms / 50 && fabs(a->to - b->to) < t->ms / 50;
}

static void print_gaps(const rank_timeline *t, FILE *f)
{
    bar *gaps = malloc(t->count * sizeof *gaps);
    const int count = gaps ? find_gaps(t, gaps) : 0;
    if (count) fprintf(f, "\n  a rank computes nothing longest:\n");
    for (int i = 0, printed = 0; i < count && printed < GAPS; i++) {
        const bar *b = &gaps[i];
        char reason[256];
        int others = 0;
        bool again = false;
        for (int k = 0; k < count; k++)
            if (alike(t, b, &gaps[k])) others++, again = again || k < i;
        if (again) continue;
        printed++;
        fprintf(f, "    rank %d, %.2f ms from %.2f ms on", b->p->rank, length(b), b->from);
        if (others) fprintf(f, " (and %d other%s)", others, others > 1 ? "s" : "");
        if (b->p->kind == PIECE_PRODUCT)
            fprintf(f, ": a product with the keys of rank %d waits for\n", b->p->owners[0]);
        else
            fprintf(f, ": %s at %s:%d waits for\n", b->p->name, b->p->file, b->p->line);
        print_reason(t, b, reason, sizeof reason);
        fprintf(f, "      %s\n", reason);
    }
    free(gaps);
}

void ranks_print(const rank_timeline *t, const char *title, FILE *f)
{
    lane lanes[MOST_LANES];
    char text[256];
    const int count = lanes_of(t, lanes);
    print_sizes(t, text, sizeof text);
    fprintf(f, "%s: %.2f ms\n%s\n", title, t->ms, text);
    for (int l = 0; l < count; l++) {
        if (l == 0 || lanes[l].rank != lanes[l - 1].rank) fprintf(f, "\n");
        print_lane(t, &lanes[l], f);
    }
    fprintf(f, "\n  0 1 ... products, by the rank whose keys they read   + other kernels, copies   = ~ messages\n"
               "  . a bubble: the stream waits, or messages wait for another rank\n\n");
    for (int r = 0; r < t->ranks; r++) {
        const shares s = shares_of(t, lanes, count, r);
        fprintf(f, "  rank %d: products %.0f %%, %.2f ms; other kernels %.0f %%, idle %.0f %%", r,
                100 * s.of[PRODUCT] / t->ms, s.of[PRODUCT], 100 * s.of[SMALL] / t->ms, 100 * s.idle / t->ms);
        if (s.of[MESSAGES] > 0)
            fprintf(f, "; messages %.2f ms, %.0f %% hidden", s.of[MESSAGES], 100 * s.under / s.of[MESSAGES]);
        fprintf(f, "\n");
    }
    print_gaps(t, f);
    fprintf(f,
            "\nNo measurement: what was queued, replayed with what it would cost an H200: products %d TFLOP/s and\n"
            "%d us a call, other kernels %d GB/s and %d us, messages %d GB/s and %d us.\n",
            tflops(t), CALL_US, MEMORY_GBS, LAUNCH_US, WIRE_GBS, MESSAGE_US);
}

// ------------------------------------------------------------------------------------------------------------------ as a drawing

enum { LEFT = 100, WIDE = 980, TOP = 52, HIGH = 20, APART = 23, RANKS_APART = 14, BELOW = 92 };

static double x_of(const rank_timeline *t, double ms) { return LEFT + WIDE * ms / t->ms; }

static void draw_bar(const rank_timeline *t, const bar *b, int y, FILE *f)
{
    static const char *const fills[] = {"#0b5fa5", "#8a8a8a", "#c8651b", "url(#bubble)", ""};
    char text[256];
    const double x = x_of(t, b->from), width = x_of(t, b->to) - x;
    const piece *p = b->p;
    if (width < 0.3 || b->kind == IDLE) return;
    fprintf(f, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"%s>", x, y, width, HIGH,
            fills[b->kind], b->kind == PRODUCT || b->kind == MESSAGES ? " stroke=\"#fff\" stroke-width=\".7\"" : "");
    if (b->kind == BUBBLE) print_reason(t, b, text, sizeof text);
    // A name of a template has < in it.
    fprintf(f, "<title>%.*s, %s:%d, %.2f to %.2f ms%s%s</title></rect>\n", (int)strcspn(p->name, "<"), p->name, p->file,
            p->line, b->from, b->to, b->kind == BUBBLE ? ": waits for " : "", b->kind == BUBBLE ? text : "");
    if (b->kind != PRODUCT && b->kind != MESSAGES) return;
    print_owners(p, text);
    if (width < 7 * (double)strlen(text) + 2) return;
    fprintf(f, "<text x=\"%.1f\" y=\"%d\" fill=\"#fff\">%s</text>\n", x + width / 2, y + 14, text);
}

static void draw_legend(int x, int y, const char *color, const char *text, FILE *f)
{
    fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"11\" height=\"11\" fill=\"%s\"/>\n", x, y - 10, color);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"start\">%s</text>\n", x + 16, y, text);
}

// What the drawing says, in words.
static void describe(const rank_timeline *t, const lane *lanes, int count, FILE *f)
{
    fprintf(f, "%d ranks over %.2f ms, a line for each stream.", t->ranks, t->ms);
    for (int r = 0; r < t->ranks; r++) {
        const shares s = shares_of(t, lanes, count, r);
        fprintf(f, " Rank %d: products %.0f %% of the time, other kernels %.0f %%, idle %.0f %%.", r,
                100 * s.of[PRODUCT] / t->ms, 100 * s.of[SMALL] / t->ms, 100 * s.idle / t->ms);
        if (s.of[MESSAGES] > 0)
            fprintf(f, " Messages %.2f ms, %.0f %% of it under products.", s.of[MESSAGES],
                    100 * s.under / s.of[MESSAGES]);
    }
}

void ranks_draw(const rank_timeline *t, const char *title, FILE *f)
{
    lane lanes[MOST_LANES];
    int y[MOST_LANES + 1] = {TOP};
    char sizes[256];
    const int count = lanes_of(t, lanes);
    for (int l = 0; l < count; l++)
        y[l + 1] = y[l] + APART + (l + 1 < count && lanes[l + 1].rank != lanes[l].rank ? RANKS_APART : 0);
    const int bottom = y[count], width = LEFT + WIDE + 14, height = bottom + BELOW;
    print_sizes(t, sizes, sizeof sizes);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
            "font-family=\"DejaVu Sans, sans-serif\" font-size=\"11\" text-anchor=\"middle\" fill=\"#202020\">\n"
            "<title>%s</title>\n<desc>",
            width, height, width, height, title);
    describe(t, lanes, count, f);
    fprintf(f,
            "</desc>\n<defs><pattern id=\"bubble\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
            "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\"/><rect width=\"2.5\" "
            "height=\"6\" fill=\"#b3261e\"/></pattern></defs>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"19\" font-size=\"13\" text-anchor=\"start\">%s</text>\n"
            "<text x=\"%d\" y=\"37\" text-anchor=\"start\" fill=\"#606060\">%s</text>\n",
            width, height, LEFT, title, LEFT, sizes);
    double step = .001;
    for (int i = 0; t->ms / step > 12; i++) step *= i % 3 == 1 ? 2.5 : 2;
    for (double at = 0; at <= t->ms; at += step) {
        fprintf(f, "<text x=\"%.1f\" y=\"%d\">%g%s</text>\n", x_of(t, at), bottom + 12, at, at > 0 ? "" : " ms");
        fprintf(f, "<path d=\"M%.1f %dv%d\" stroke=\"#ccc\" stroke-width=\".5\"/>\n", x_of(t, at), TOP - 4,
                bottom - TOP + 4);
    }
    for (int l = 0; l < count; l++) {
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y[l] + 14, lanes[l].name);
        fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/>\n", LEFT, y[l], WIDE, HIGH);
        for (size_t i = t->first[lanes[l].rank]; i < t->first[lanes[l].rank + 1]; i++) {
            bar bars[3];
            const int n = on_lane(&t->pieces[i], &lanes[l]) ? bars_of(t, &t->pieces[i], &lanes[l], bars) : 0;
            for (int k = 0; k < n; k++) draw_bar(t, &bars[k], y[l], f);
        }
    }
    const int under = bottom + 36;
    draw_legend(LEFT, under, "#0b5fa5", "products", f);
    draw_legend(LEFT + 100, under, "#8a8a8a", "other kernels, copies", f);
    draw_legend(LEFT + 270, under, "#c8651b", "messages", f);
    draw_legend(LEFT + 370, under, "url(#bubble)", "a bubble: a stream waits, or messages for another rank", f);
    double least = 1, most = 0;
    for (int r = 0; r < t->ranks; r++) {
        const double part = shares_of(t, lanes, count, r).of[PRODUCT] / t->ms;
        least = fmin(least, part), most = fmax(most, part);
    }
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"start\">products run %.0f %%", LEFT, under + 20, 100 * least);
    if (most - least > .005) fprintf(f, " to %.0f %%", 100 * most);
    fprintf(f,
            " of %.2f ms; a number is the rank whose keys a product reads, or whose keys or their gradients "
            "come</text>\n"
            "<text x=\"%d\" y=\"%d\" text-anchor=\"start\" fill=\"#606060\">No measurement: what was queued, replayed "
            "with costs of an H200: products %d TFLOP/s and %d us a call, other kernels %d GB/s and %d us, messages "
            "%d GB/s and %d us</text>\n</svg>\n",
            t->ms, LEFT, under + 38, tflops(t), CALL_US, MEMORY_GBS, LAUNCH_US, WIRE_GBS, MESSAGE_US);
}

// ------------------------------------------------------------------------------------------------------------------------ as rows

void ranks_write(const rank_timeline *t, const char *title, FILE *f)
{
    lane lanes[MOST_LANES];
    const int count = lanes_of(t, lanes);
    fprintf(f, "# %s\nms\t%.4f\nrank\tstream\tkind\tkeys\tfrom\tto\tname\tsource\tfor\n", title, t->ms);
    for (int l = 0; l < count; l++)
        for (size_t i = t->first[lanes[l].rank]; i < t->first[lanes[l].rank + 1]; i++) {
            bar bars[3];
            const piece *p = &t->pieces[i];
            const int n = on_lane(p, &lanes[l]) ? bars_of(t, p, &lanes[l], bars) : 0;
            for (int k = 0; k < n; k++) {
                char keys[64], reason[256] = "";
                print_owners(p, keys);
                if (bars[k].kind >= BUBBLE) print_reason(t, &bars[k], reason, sizeof reason);
                fprintf(f, "%d\t%s\t%s\t%s\t%.4f\t%.4f\t%s\t%s:%d\t%s\n", p->rank,
                        lanes[l].name + strcspn(lanes[l].name + 5, " ") + 6, kind_names[bars[k].kind], keys,
                        bars[k].from, bars[k].to, p->name, p->file, p->line, reason);
            }
        }
}
