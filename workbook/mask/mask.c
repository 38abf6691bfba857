// mask.c - shows the mask of a problem, and which tiles its kernel visits: `make mask-06 N=32 W=12`, in the terminal;
// with --table as rows for plots/mask.gp as well. Of 15 a mask as data by its name (named_mask.h); without one, four.
#include "case/case.h"
#include "picture.h"

#include <stdio.h>

static int usage(void)
{
    fprintf(stderr, "usage: mask NN [N=32] [W=12] [sinks=3] [BR=8] [BC=8] [--table FILE]   NN: 01, 03 to 12, 15 to 19\n"
                    "       mask 15 [mask=documents/10] [N=32] [BR=8] [BC=8] [--table FILE]\n");
    return 2;
}

// Of more tiles along a side, or of the pairs of a longer sequence, a drawing would be too large to look at.
enum { LONGEST = 16384, MOST_TILES = 512, LONGEST_BY_PAIRS = 4096 };

static int ceil_div(int a, int b) { return (a - 1) / b + 1; }

// How much of the score matrix is computed, and how much of that is needed.
static void print_count(const wb_picture *p)
{
    const int N = p->shape->q_len, BR = p->BR, BC = p->BC;
    long tiles[3] = {0}, all = 0, visible;
    for (int i = 0; i < N; i += BR)
        for (int j = 0; j < N; j += BC) {
            tiles[wb_tile_kind_of(p, i, j, &visible)]++;
            all += visible;
        }
    const long computed = (tiles[WB_TILE_FULL] + tiles[WB_TILE_MASKED]) * BR * BC;
    printf("\n%ld tiles of %d queries x %d keys are full, %ld masked, %ld skipped of %d\n", tiles[WB_TILE_FULL], BR, BC,
           tiles[WB_TILE_MASKED], tiles[WB_TILE_SKIPPED], ceil_div(N, BR) * ceil_div(N, BC));
    printf("%ld of %ld pairs are visible; %ld scores are computed, %.0f %% of them for nothing\n", all, (long)N * N,
           computed, 100.0 * (double)(computed - all) / (double)computed);
}

// ------------------------ a table for plots/mask.gp

// Of a mask a row "title N BR BC", and a row for each rectangle: its edges of keys, of queries, and what it is.
typedef enum rectangle { COMPUTED, VISIBLE, FULL } rectangle;
static void write_rectangle(FILE *f, int j, int j1, int i, int i1, rectangle what)
{
    fprintf(f, "%d\t%d\t%d\t%d\t%d\n", j, j1, i, i1, (int)what);
}

// The visible keys of each row of a masked tile, a rectangle a run.
static void write_masked(FILE *f, const wb_picture *p, int i0, int i1, int j0, int j1)
{
    wb_picture pixel = *p;
    pixel.BR = pixel.BC = 1;
    for (int i = i0; i < i1; i++)
        for (int j = j0; j < j1; j++) {
            long seen;
            const int from = j;
            while (j < j1 && wb_tile_kind_of(&pixel, i, j, &seen) == WB_TILE_FULL) j++;
            if (j > from) write_rectangle(f, from, j, i, i + 1, VISIBLE);
        }
}

static void write_table(FILE *f, const wb_picture *p, const char *title)
{
    const int N = p->shape->q_len;
    fprintf(f, "%s\t%d\t%d\t%d\n", title, N, p->BR, p->BC);
    for (int i = 0; i < N; i += p->BR)
        for (int j = 0; j < N; j += p->BC) {
            long visible;
            const wb_tile_kind kind = wb_tile_kind_of(p, i, j, &visible);
            const int i1 = i + p->BR < N ? i + p->BR : N, j1 = j + p->BC < N ? j + p->BC : N;
            const rectangle part = N <= LONGEST_BY_PAIRS ? COMPUTED : VISIBLE;
            if (kind != WB_TILE_SKIPPED) write_rectangle(f, j, j1, i, i1, kind == WB_TILE_FULL ? FULL : part);
            if (kind == WB_TILE_MASKED && part == COMPUTED) write_masked(f, p, i, i1, j, j1);
        }
}

// ------------------------ command line

typedef struct options {
    const wb_problem *problem;
    int N, W, sinks, BR, BC;   // tiles: 0 if not given
    const char *mask, *table;  // null: not given
} options;

static bool parse(options *o, int argc, char **argv)
{
    const struct {
        const char *name;
        int *value, least, most;
    } numbers[] = {{"N", &o->N, 1, LONGEST},
                   {"W", &o->W, 1, 1 << 30},
                   {"sinks", &o->sinks, 0, 1 << 30},
                   {"BR", &o->BR, 1, LONGEST},
                   {"BC", &o->BC, 1, LONGEST}};
    for (int i = 2; i < argc; i++) {
        const size_t name = strcspn(argv[i], "=");
        const char *const given = argv[i] + name + (argv[i][name] == '=');
        int k = 0;
        if (strcmp(argv[i], "--table") == 0 && i + 1 < argc) {
            o->table = argv[++i];
            continue;
        }
        if (strncmp(argv[i], "mask=", 5) == 0 && o->problem->signature == WB_BLOCK_MASK) {
            o->mask = argv[i] + 5;
            continue;
        }
        while (k < 5 && (strlen(numbers[k].name) != name || strncmp(argv[i], numbers[k].name, name) != 0)) k++;
        if (given == argv[i] + name || k == 5) return usage(), false;
        char *end;
        const long value = strtol(given, &end, 10);
        if (*end || end == given || value < numbers[k].least || value > numbers[k].most) {
            fprintf(stderr, "mask: %s: must be a number from %d to %d\n", argv[i], numbers[k].least, numbers[k].most);
            return false;
        }
        *numbers[k].value = (int)value;
    }
    const int tile = o->N <= 8 * MOST_TILES ? 8 : ceil_div(o->N, MOST_TILES);
    if (!o->BR) o->BR = tile;
    if (!o->BC) o->BC = tile;
    if (ceil_div(o->N, o->BR) <= MOST_TILES && ceil_div(o->N, o->BC) <= MOST_TILES) return true;
    fprintf(stderr, "mask: N = %d in tiles of %d x %d: at most %d tiles along a side are drawn\n", o->N, o->BR, o->BC,
            MOST_TILES);
    return false;
}

// The mask of the problem, or one as data, by this name.
static bool show(const options *o, const char *mask, FILE *f)
{
    static char text[32768];
    const wb_problem *const problem = o->problem;
    const bool named = problem->signature == WB_BLOCK_MASK;
    char title[160], name[32] = "", window[32] = "", visible[32] = "";
    wb_case c;
    snprintf(text, WB_CASE_TEXT, "mask=%.100s,Nq=%d,Nk=%d,D=16,causal=1,W=%d,sinks=%d", mask, o->N, o->N, o->W,
             o->sinks);
    if (wb_case_fit(problem, text, &c) != WB_OK) {
        fprintf(stderr, "mask: %s\n", wb_last_message());
        return false;
    }
    const wb_picture p = {.problem = problem,
                          .shape = &c.shape,
                          .named = named ? &wb_case_mask_of(&c)->named : NULL,
                          .BR = o->BR,
                          .BC = o->BC,
                          .indent = "  ",
                          .max_rows = 64,
                          .max_width = 96};
    if (named) snprintf(name, sizeof name, "%s/%d, ", wb_mask_names[c.mask], p.named->size);
    if (problem->window) snprintf(window, sizeof window, ", W = %d", o->W);
    if (problem->sinks) snprintf(visible, sizeof visible, ", %d sink%s", o->sinks, o->sinks == 1 ? "" : "s");
    snprintf(title, sizeof title, "%02d %s: %sN = %d%s%s, tiles of %d queries x %d keys", problem->number,
             problem->name, name, o->N, window, visible, o->BR, o->BC);
    wb_picture_print(&p, text, sizeof text);
    printf("%s\n\n%s\n  # visible   . computed, then masked away   blank: a tile that is skipped", title, text);
    bool mixed = false;
    for (const char *line = text; line && !mixed; line = strstr(line + 1, "query"))
        mixed = memchr(line, '+', strcspn(line, "\n")) != NULL;
    printf("%s\n", mixed ? "   + some of the pairs of one character are visible" : "");
    print_count(&p);
    if (f) write_table(f, &p, named ? strchr(title, ':') + 2 : title);
    return true;
}

int main(int argc, char **argv)
{
    static const char *const examples[] = {"documents/7", "prefix/10", "tree/7", "strided/16"};
    options o = {.problem = argc > 1 ? wb_problem_number(atoi(argv[1])) : NULL, .N = 32, .W = 12, .sinks = 3};
    if (!o.problem) return usage();
    if (o.problem->signature == WB_ROW_SUM || o.problem->signature == WB_DECODE) {
        fprintf(stderr, "mask: problem %02d has no mask to draw; 01, 03 to 12 and 15 to 19 have one\n",
                o.problem->number);
        return 2;
    }
    if (!parse(&o, argc, argv)) return 2;
    FILE *f = o.table ? fopen(o.table, "w") : NULL;
    if (o.table && !f) {
        perror(o.table);
        return 1;
    }
    const int count = o.problem->signature == WB_BLOCK_MASK && !o.mask ? 4 : 1;
    bool shown = true;
    for (int k = 0; k < count && shown; k++) {
        if (k > 0) printf("\n");
        shown = show(&o, o.mask ? o.mask : examples[k], f);
    }
    if (f) fclose(f);
    return shown ? 0 : 2;
}
