#include "draw.h"

#include <math.h>
#include <string.h>

// ---------------------------------------------------------------------------------------------------------------- what is drawn
// A line of the picture for the copy engine, one for the tensor cores, and one for each group, of which its first warp is shown: the
// other three do the same at the same time.

enum { COPIES, TENSOR_CORES, FIRST_GROUP };

static int lines(const timeline *t) { return FIRST_GROUP + t->group_count; }

static int group_of(const timeline *t, const bar *b)
{
    for (int i = 0; i < t->group_count; i++)
        if (t->groups[i] == b->warp / 4) return i;
    return -1;
}

static bool on_line(const timeline *t, const bar *b, int line)
{
    if (line == COPIES) return b->kind == COPY;
    if (line == TENSOR_CORES) return b->kind == PRODUCT;
    return b->kind != COPY && b->kind != PRODUCT && group_of(t, b) == line - FIRST_GROUP && b->warp % 4 == 0;
}

static const char *line_name(const timeline *t, int line, char text[32])
{
    if (line == COPIES) return "copy engine";
    if (line == TENSOR_CORES) return "tensor cores";
    snprintf(text, 32, "warpgroup %d", t->groups[line - FIRST_GROUP]);
    return text;
}

// How much of the time a line has bars of a kind; `reason` null: any.
static double share(const timeline *t, int line, bar_kind kind, const char *reason)
{
    double sum = 0;
    for (size_t i = 0; i < t->count; i++)
        if (on_line(t, &t->bars[i], line) && t->bars[i].kind == kind &&
            (!reason || strcmp(t->bars[i].reason, reason) == 0))
            sum += t->bars[i].to - t->bars[i].from;
    return 100 * sum / t->cycles;
}

// From the end of a product to the begin of the next one on the tensor cores, longest first; returns how many.
typedef struct gap {
    double from, to;
} gap;

static int longest_gaps(const timeline *t, gap *gaps, int most)
{
    int count = 0;
    double end = -1;
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (b->kind != PRODUCT) continue;
        const gap g = {end, b->from};
        if (end >= 0 && g.to > g.from + 1) {
            int at = count < most ? count++ : most - 1;
            if (at == most - 1 && gaps[at].to - gaps[at].from > g.to - g.from && count == most) at = most;
            for (; at > 0 && at < most && gaps[at - 1].to - gaps[at - 1].from < g.to - g.from; at--)
                gaps[at] = gaps[at - 1];
            if (at < most) gaps[at] = g;
        }
        end = b->to;
    }
    return count;
}

// ------------------------------------------------------------------------------------------------------------------ in the terminal

enum { COLUMNS = 104 };

static char letter(const timeline *t, const bar *b)
{
    switch (b->kind) {
    case COPY: return b->label[0];
    case PRODUCT: return (char)('1' + group_of(t, b));
    case SCORES: return '#';
    case SCALE: return '+';
    case WAIT: break;
    }
    if (strcmp(b->reason, "a product") == 0) return '.';
    if (strcmp(b->reason, "exponentials") == 0) return 'e';
    return strncmp(b->reason, "barrier", 7) == 0 ? 't' : 'w';
}

// Each column shows what takes most of it.
static void print_line(const timeline *t, int line, FILE *f)
{
    char text[32], row[COLUMNS + 1];
    for (int c = 0; c < COLUMNS; c++) {
        const double from = t->cycles * c / COLUMNS, to = t->cycles * (c + 1) / COLUMNS;
        double filled[128] = {0}, most = (to - from) / 4;
        row[c] = ' ';
        for (size_t i = 0; i < t->count; i++) {
            const bar *b = &t->bars[i];
            if (!on_line(t, b, line) || b->to <= from || b->from >= to) continue;
            double *sum = &filled[letter(t, b) & 127];
            *sum += fmin(b->to, to) - fmax(b->from, from);
            if (*sum > most) most = *sum, row[c] = letter(t, b);
        }
    }
    row[COLUMNS] = 0;
    fprintf(f, "  %-13s|%s|\n", line_name(t, line, text), row);
}

// Why a group waited, each reason once, and how much of the time.
static void print_waits(const timeline *t, int line, FILE *f)
{
    const char *said[32];
    int count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        bool again = !on_line(t, b, line) || b->kind != WAIT;
        for (int k = 0; k < count && !again; k++) again = strcmp(said[k], b->reason) == 0;
        if (again || count == 32) continue;
        said[count++] = b->reason;
        const double part = share(t, line, WAIT, b->reason);
        if (part >= 1) fprintf(f, ", %.0f %% for %s", part, b->reason);
    }
}

// The line of the next product of a group that waits: the wait itself may stand in a word that all waits go through.
static int line_of_next_product(const timeline *t, const bar *wait)
{
    const bar *next = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (b->kind == PRODUCT && b->warp / 4 == wait->warp / 4 && b->from >= wait->to &&
            (!next || b->from < next->from))
            next = b;
    }
    return next ? next->line : 0;
}

// What a group does at a moment.
static void print_moment(const timeline *t, int line, double at, FILE *f)
{
    for (size_t i = 0; i < t->count; i++) {
        const bar *b = &t->bars[i];
        if (!on_line(t, b, line) || at < b->from || at > b->to) continue;
        const bool own = strcmp(b->reason, "a product") == 0 || strcmp(b->reason, "exponentials") == 0;
        const int next = b->kind == WAIT && !own ? line_of_next_product(t, b) : 0;
        if (b->kind == WAIT)
            fprintf(f, "waits for %s, line %d", b->reason, b->line);
        else
            fprintf(f, b->kind == SCORES ? "works on the scores of %s" : "works on its result", b->label);
        if (next) fprintf(f, ", before the product of line %d", next);
        return;
    }
    fprintf(f, "has ended");
}

void timeline_print(const timeline *t, const char *title, FILE *f)
{
    char text[32];
    fprintf(f, "%s: %.0f cycles\n\n", title, t->cycles);
    for (int line = 0; line < lines(t); line++) print_line(t, line, f);
    fprintf(f,
            "\n  copies: the tensor's letter   tensor cores: whose product   # works on scores   + on another result\n"
            "  waits: . for a product   e for the units of exponentials   w for a signal   t at a barrier (a turn)\n\n"
            "  tensor cores busy %.0f %% of the time, copy engine %.0f %%\n",
            share(t, TENSOR_CORES, PRODUCT, NULL), share(t, COPIES, COPY, NULL));
    for (int line = FIRST_GROUP; line < lines(t); line++) {
        fprintf(f, "  %s works on scores %.0f %%; waits", line_name(t, line, text), share(t, line, SCORES, NULL));
        fprintf(f, " %.0f %%", share(t, line, WAIT, NULL));
        print_waits(t, line, f);
        fprintf(f, "\n");
    }
    gap gaps[3];
    const int count = longest_gaps(t, gaps, 3);
    if (count) fprintf(f, "\n  the tensor cores idle longest, between products:\n");
    for (int i = 0; i < count; i++) {
        fprintf(f, "    %.0f cycles from %.0f on", gaps[i].to - gaps[i].from, gaps[i].from);
        for (int line = FIRST_GROUP; line < lines(t); line++) {
            fprintf(f, line == FIRST_GROUP ? ": %s " : "; %s ", line_name(t, line, text));
            print_moment(t, line, (gaps[i].from + gaps[i].to) / 2, f);
        }
        fprintf(f, "\n");
    }
    fprintf(f,
            "\nNo measurement: the recorded order of events, replayed with what each would cost an H100 alone, %d "
            "operations\n"
            "of products a cycle, %d exponentials (and %d other operations on each, %d a cycle), %d bytes of copies, "
            "which take\n"
            "%d cycles to begin.\n",
            FLOPS, EXPONENTIALS, BESIDE_EXPONENTIAL, ARITHMETIC, COPY_BYTES, COPY_LATENCY);
}

// ------------------------------------------------------------------------------------------------------------------ as a drawing

enum { LEFT = 92, WIDE = 980, TOP = 34, HIGH = 24, APART = 34, BELOW = 84 };
static const char *const of_group[] = {"#0b5fa5", "#c8651b", "#2e7d4f", "#7b4fa3"};

static double x_of(const timeline *t, double cycles) { return LEFT + WIDE * cycles / t->cycles; }

static void draw_bar(const timeline *t, const bar *b, int line, FILE *f)
{
    const int group = group_of(t, b), y = TOP + line * APART;
    const double x = x_of(t, b->from), width = x_of(t, b->to) - x;
    const char *color = b->kind == COPY   ? "#8a8a8a"
                        : b->kind == WAIT ? strcmp(b->reason, "a product") == 0 ? "#f3d3cf" : "#e2786c"
                                          : of_group[group % 4];
    if (width < 0.3) return;
    fprintf(f, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", x, y, width, HIGH, color);
    const char *label = b->kind == WAIT ? b->reason : b->label;
    if (width < 7 * (double)strlen(label) + 2 || (b->kind == WAIT && strcmp(b->reason, "a product") == 0)) return;
    fprintf(f, "<text x=\"%.1f\" y=\"%d\"%s>%s</text>\n", x + width / 2, y + 16,
            b->kind == WAIT ? "" : " fill=\"#fff\"", label);
}

static void draw_legend(int x, int y, const char *color, const char *text, FILE *f)
{
    fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"11\" height=\"11\" fill=\"%s\"/>\n", x, y - 10, color);
    fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"start\">%s</text>\n", x + 16, y, text);
}

void timeline_draw(const timeline *t, const char *title, FILE *f)
{
    const int bottom = TOP + lines(t) * APART, width = LEFT + WIDE + 14, height = bottom + BELOW;
    char text[32];
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"DejaVu Sans, sans-serif\" font-size=\"11\" text-anchor=\"middle\" fill=\"#202020\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"19\" font-size=\"13\" text-anchor=\"start\">%s</text>\n",
            width, height, width, height, width, height, LEFT, title);
    for (int line = 0; line < lines(t); line++) {
        fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, TOP + line * APART + 16,
                line_name(t, line, text));
        fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/>\n", LEFT, TOP + line * APART,
                WIDE, HIGH);
        for (size_t i = 0; i < t->count; i++)
            if (on_line(t, &t->bars[i], line)) draw_bar(t, &t->bars[i], line, f);
    }
    double step = 100;
    while (t->cycles / step > 12)
        step *= step == 100 || fmod(log10(step), 1) == 0 ? 2 : fmod(log10(step / 2), 1) == 0 ? 2.5 : 2;
    for (double at = 0; at <= t->cycles; at += step) {
        fprintf(f, "<text x=\"%.1f\" y=\"%d\">%.0f</text>\n", x_of(t, at), bottom + 12, at);
        fprintf(f, "<path d=\"M%.1f %dv%d\" stroke=\"#bbb\" stroke-width=\".5\"/>\n", x_of(t, at), TOP - 4,
                bottom - TOP + 2);
    }
    int x = LEFT;
    const int y = bottom + 36;
    draw_legend(x, y, "#8a8a8a", "a tile comes", f);
    for (int i = 0; i < t->group_count; i++) {
        snprintf(text, sizeof text, "warpgroup %d", t->groups[i]);
        draw_legend(x += 110, y, of_group[i % 4], text, f);
    }
    draw_legend(x += 110, y, "#f3d3cf", "waits for a product", f);
    draw_legend(x += 150, y, "#e2786c", "waits for something else", f);
    fprintf(f,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"start\">tensor cores busy %.0f %% of %.0f cycles: the products of "
            "warpgroups, K: "
            "scores, V: outputs; below, warpgroups at work on scores</text>\n",
            LEFT, y + 20, share(t, TENSOR_CORES, PRODUCT, NULL), t->cycles);
    fprintf(f,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"start\" fill=\"#606060\">No measurement: recorded events, replayed "
            "with what "
            "each would cost an H100 alone, a cycle: %d operations of products, %d exponentials, %d bytes of "
            "copies</text>\n</svg>\n",
            LEFT, y + 38, FLOPS, EXPONENTIALS, COPY_BYTES);
}
