// timeline.c - draws what a block did over time, or what the ranks of a ring did, from the record that a worker
// made of it: `make timeline-10`, `make timeline-17`.
//
//   timeline RECORD TITLE [FILE]     in the terminal; FILE: also there, as trace events
#include "timeline.h"

#include <math.h>
#include <string.h>

// ------------------------ in words

static const char *unit(const timeline *t) { return t->of_ring ? "ms" : "cycles"; }
static int digits(const timeline *t) { return t->of_ring ? 2 : 0; }
static bool waits_for_product(const bar *b) { return strcmp(b->reason, "a product") == 0; }

static const char *kind_name(const timeline *t, bar_kind kind)
{
    static const char *const of_block[] = {"copies", "products", "scores", "other results", "waits"};
    static const char *const of_ring[] = {"messages", "products", "", "other kernels and copies", "waits"};
    return t->of_ring ? of_ring[kind] : of_block[kind];
}

// "K7", "attention_kernel 3", "waits for K.full[0]".
static void name_bar(const bar *b, char name[192])
{
    if (b->kind == WAIT)
        snprintf(name, 192, "waits for %s", b->reason);
    else
        snprintf(name, 192, "%s%s%s", b->name, b->name[0] && b->label[0] ? " " : "", b->label);
}

// How much of the time a lane has bars of a kind, in per cent; `reason` null: any.
static double share(const timeline *t, int lane, bar_kind kind, const char *reason)
{
    double sum = 0;
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (b->lane == lane && b->kind == kind && (!reason || strcmp(b->reason, reason) == 0)) sum += b->to - b->from;
    }
    return 100 * sum / t->end;
}

// Of what a lane moves the part that is under a product of its rank or block, in per cent.
static double hidden(const timeline *t, int lane)
{
    double sum = 0, under = 0;
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (b->lane != lane || b->kind != MOVE) continue;
        sum += b->to - b->from;
        for (size_t k = 0; k < t->count; k++) {
            const bar *c = &t->bars[k];
            if (c->kind == PRODUCT && (!t->of_ring || c->group == b->group))
                under += fmax(0, fmin(b->to, c->to) - fmax(b->from, c->from));
        }
    }
    return 100 * under / sum;
}

// "rank 0 wire: messages 20 %, 97 % of them under products": what a lane does, and why it waits, each reason once.
static void describe(const timeline *t, int lane, FILE *f)
{
    const char *said[32];
    int count = 0;
    fprintf(f, "%s:", t->lanes[lane].name);
    for (int kind = 0; kind < BAR_KINDS; kind++) {
        const double part = share(t, lane, (bar_kind)kind, NULL);
        if (part < .5) continue;
        fprintf(f, "%s %s %.0f %%", count++ ? "," : "", kind_name(t, (bar_kind)kind), part);
        if (kind == MOVE) fprintf(f, " (%.0f %% of them under products)", hidden(t, lane));
    }
    count = 0;
    const char *before = ":";
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        bool again = b->lane != lane || b->kind != WAIT;
        for (int k = 0; k < count && !again; k++) again = strcmp(said[k], b->reason) == 0;
        if (again || count == 32) continue;
        const double part = share(t, lane, WAIT, b->reason);
        if (part >= 1) fprintf(f, "%s %.0f %% for %s", before, part, b->reason), before = ",";
        said[count++] = b->reason;
    }
}

// Two lines: by which figures it was drawn.
static void describe_costs(const timeline *t, char lines[2][160])
{
    enum { SIZE = 160 };
    if (t->of_ring) {
        snprintf(lines[0], SIZE,
                 "No measurement: what was queued, drawn as if %d times as long and %d as wide, at an H200's costs:",
                 LONGER, WIDER);
        snprintf(lines[1], SIZE,
                 "products %d TFLOP/s and %d us a call (of gradients %d and %d), other kernels %d GB/s and %d us, "
                 "messages %d and %d.",
                 TFLOPS, CALL_US, GRADIENTS_TFLOPS, GRADIENTS_CALL_US, MEMORY_GBS, LAUNCH_US, WIRE_GBS, MESSAGE_US);
        return;
    }
    snprintf(lines[0], SIZE,
             "No measurement: recorded events, replayed at the costs of an H100 alone, a cycle: %d operations", FLOPS);
    snprintf(lines[1], SIZE,
             "of products, %d exponentials, %d other operations, %d bytes of copies, which take %d cycles to begin.",
             EXPONENTIALS, ARITHMETIC, COPY_BYTES, COPY_LATENCY);
}

// ------------------------ in the terminal

enum { COLUMNS = 80 };

static char letter(const timeline *t, const bar *b, bool odd)
{
    if (b->kind == SCORES) return '#';
    if (b->kind == OTHER) return '+';
    if (b->kind == PRODUCT) return t->of_ring ? b->label[0] : "0123456789abcdef"[b->group % 16];
    if (b->kind == MOVE) return !t->of_ring ? b->label[0] : odd ? '=' : '~';
    if (t->of_ring || waits_for_product(b)) return '.';
    return strcmp(b->reason, "exponentials") == 0 ? 'e' : strncmp(b->reason, "barrier", 7) == 0 ? 't' : 'w';
}

// Each column shows what takes most of it.
static void print_lane(const timeline *t, int lane, FILE *f)
{
    double filled[COLUMNS][128] = {{0}};
    char row[COLUMNS + 1];
    bool odd = false;
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (b->lane != lane) continue;
        if (b->kind == MOVE) odd = !odd;
        for (int c = 0; c < COLUMNS; c++)
            filled[c][letter(t, b, odd) & 127] +=
                fmax(0, fmin(b->to, t->end * (c + 1) / COLUMNS) - fmax(b->from, t->end * c / COLUMNS));
    }
    for (int c = 0; c < COLUMNS; c++) {
        double most = t->end / COLUMNS;
        for (int k = 0; k < 128; k++) most -= filled[c][k];  // nothing
        row[c] = ' ';
        for (int k = 0; k < 128; k++)
            if (filled[c][k] > most) most = filled[c][k], row[c] = (char)k;
    }
    row[COLUMNS] = 0;
    fprintf(f, "  %-15s |%s|\n", t->lanes[lane].name, row);
}

// The next product of a group that waits: the wait itself may stand in a word that all waits go through.
static const bar *next_product(const timeline *t, const bar *wait)
{
    const bar *next = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (b->kind == PRODUCT && b->group == wait->group && b->from >= wait->to && (!next || b->from < next->from))
            next = b;
    }
    return next;
}

// What a lane does at a moment.
static void print_moment(const timeline *t, int lane, double at, FILE *f)
{
    char name[192];
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (b->lane != lane || at < b->from || at > b->to) continue;
        name_bar(b, name);
        fprintf(f, b->kind == SCORES ? "works on the scores of %s" : "%s", name);
        if (b->kind != WAIT || t->of_ring) return;
        const bool own = waits_for_product(b) || strcmp(b->reason, "exponentials") == 0;
        const bar *next = own ? NULL : next_product(t, b);
        fprintf(f, ", %s", b->source);
        if (next) fprintf(f, ", before the product of %s", next->source);
        return;
    }
    fprintf(f, "nothing");
}

// When the tensor cores do nothing, or a rank has no kernel to run: the longest such time, and what others do then.
static void print_gap(const timeline *t, int rank, FILE *f)
{
    double end = t->of_ring ? 0 : t->end, from = 0, to = t->end / 200;  // of a block none before the first product
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (b->kind != PRODUCT && (b->kind != OTHER || !t->of_ring)) continue;
        if (t->of_ring && b->group != rank) continue;
        if (b->from - end > to - from) from = end, to = b->from;
        end = t->of_ring ? fmax(end, b->to) : b->to;
    }
    if (to <= t->end / 200) return;
    fprintf(f, t->of_ring ? "\n  the longest idle time of rank %d" : "\n  the tensor cores idle longest", rank);
    fprintf(f, ", %.*f %s from %.*f on:\n", digits(t), to - from, unit(t), digits(t), from);
    for (int l = 0; l < t->lane_count; l++) {
        if (t->lanes[l].group < 0 || (t->of_ring && t->lanes[l].group != rank)) continue;
        fprintf(f, "    %s: ", t->lanes[l].name);
        print_moment(t, l, (from + to) / 2, f);
        fprintf(f, "\n");
    }
}

static void timeline_print(const timeline *t, const char *title, FILE *f)
{
    char costs[2][160];
    fprintf(f, "%s: %.*f %s\n", title, digits(t), t->end, unit(t));
    for (int l = 0; l < t->lane_count; l++) {
        if (l == 0 || (t->of_ring && t->lanes[l].group != t->lanes[l - 1].group)) fprintf(f, "\n");
        print_lane(t, l, f);
    }
    fprintf(f, t->of_ring
                   ? "\n  0 1 ... products, by the rank whose keys they read   + other kernels, copies   = ~ messages\n"
                     "  . a stream waits, or messages wait for another rank\n\n"
                   : "\n  copies: the tensor's letter   tensor cores: whose product   # works on scores   + on another "
                     "result\n"
                     "  waits: . for a product   e for the units of exponentials   w for a signal   t at a barrier (a "
                     "turn)\n\n");
    for (int l = 0; l < t->lane_count; l++) fprintf(f, "  "), describe(t, l, f), fprintf(f, "\n");
    for (int rank = -1, l = 0; l < t->lane_count; rank = t->lanes[l++].group)
        if (t->of_ring ? t->lanes[l].group != rank : l == 0) print_gap(t, t->lanes[l].group, f);
    describe_costs(t, costs);
    fprintf(f, "\n%s\n%s\n", costs[0], costs[1]);
}

// ------------------------ as trace events

// In microseconds, to the nanosecond, so that what ends where something begins does so in whole numbers, too.
static double trace_time(const timeline *t, double at) { return round((t->of_ring ? 1e3 : 1) * at * 1e3) / 1e3; }

// A line each, which Perfetto, chrome://tracing and plots/timeline.awk read. A cycle is a microsecond there.
static void timeline_trace(const timeline *t, const char *title, FILE *f)
{
    char costs[2][160];
    describe_costs(t, costs);
    fprintf(f, "{\"otherData\":{\"title\":\"%s: %.*f %s\",\"costs\":\"%s\",\"at\":\"%s\"},\"traceEvents\":[\n", title,
            digits(t), t->end, unit(t), costs[0], costs[1]);
    fprintf(f, "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}}", title);
    for (int l = 0; l < t->lane_count; l++) {
        fprintf(f, ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", l + 1,
                t->lanes[l].name);
        fprintf(f, ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}",
                l + 1, l);
    }
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        const double from = trace_time(t, b->from);
        char name[192];
        name_bar(b, name);
        fprintf(f, ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":\"%s\",",
                b->lane + 1, from, trace_time(t, b->to) - from, kind_name(t, b->kind), name);
        fprintf(f, "\"args\":{\"group\":%d,\"source\":\"%s\"}}", b->group, b->source);
    }
    fprintf(f, "\n]}\n");
}

int main(int argc, char **argv)
{
    static timeline t;
    if (argc < 3) {
        fprintf(stderr, "usage: timeline RECORD TITLE [FILE]   RECORD: what NN_worker --record RECORD wrote\n");
        return 2;
    }
    if (strpbrk(argv[2], "\"\\<>&")) return fprintf(stderr, "timeline: a title has none of \" \\ < > &\n"), 2;
    if (!timeline_replay(argv[1], &t)) return 1;
    if (!t.of_ring && t.lane_count == 2) {
        fprintf(stderr, "timeline: no warpgroup of this block uses the products of hopper.cuh\n");
        return 1;
    }
    timeline_print(&t, argv[2], stdout);
    if (argc == 3) return 0;
    FILE *f = fopen(argv[3], "w");
    if (f) timeline_trace(&t, argv[2], f);
    if (!f || fclose(f)) return perror(argv[3]), 1;
    printf("written: %s\n", argv[3]);
    return 0;
}
