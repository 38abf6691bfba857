// verdict.c - reads a bench's table and says what the figures mean.
//
//   verdict FILE.tsv...            of each: which roof bounds each shape, how much of it was reached, and one thing to try next
//   verdict --chart FILE.tsv...    the points of plots/roofline.gp: a line for the main shape of each problem
//
// The device's peaks stand in a table's first lines; for those of older tables see plots/data/peaks.tsv. A table without times (the
// cpu backend's) or of problem 01, which runs on the host, gives nothing. Exit status: 0, or 1 if a file cannot be read.
#include "bench.h"
#include "roofline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char PEAKS[] = "plots/data/peaks.tsv";
enum { MAX_ROWS = 512, MAX_COLUMNS = 32, LINE = 2048, MAX_IMPLS = 8 };

typedef struct row {
    char impl[32];
    wb_case c;
    double ms;
    roofline_work work;
    roofline_verdict verdict;
} row;

typedef struct table {
    const wb_problem *problem;
    char gpu[128];
    char header[LINE];  // the names of the columns
    roofline_peaks peaks;
    row rows[MAX_ROWS];
    int count;
} table;

// ---------------------------------------------------------------------------------------------------------------- reading

// The fields of a line, cut at tabs in place.
static int split(char *line, char *fields[MAX_COLUMNS])
{
    int n = 0;
    line[strcspn(line, "\r\n")] = 0;
    while (line && n < MAX_COLUMNS) {
        fields[n++] = line;
        line = strchr(line, '\t');
        if (line) *line++ = 0;
    }
    return n;
}

// The field of this name, or "-".
static const char *field(char *const names[], char *const fields[], int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return fields[i];
    return "-";
}

static void read_comment(table *t, const char *line)
{
    double value;
    if (strncmp(line, "# gpu: ", 7) == 0) {
        snprintf(t->gpu, sizeof t->gpu, "%.127s", line + 7);
        t->gpu[strcspn(t->gpu, "\r\n")] = 0;
    }
    if (sscanf(line, "# peak_tflops: %lf", &value) == 1) t->peaks.tflops = value;
    if (sscanf(line, "# peak_mma_sync_tflops: %lf", &value) == 1) t->peaks.mma_tflops = value;
    if (sscanf(line, "# peak_gbps: %lf", &value) == 1) t->peaks.gbps = value;
    if (sscanf(line, "# peak_gexps: %lf", &value) == 1) t->peaks.gexps = value;
    if (sscanf(line, "# multiprocessors: %lf", &value) == 1) t->peaks.multiprocessors = (int)value;
}

static void read_row(table *t, char *line)
{
    static char copy[LINE];
    char *names[MAX_COLUMNS], *fields[MAX_COLUMNS], *end;
    strcpy(copy, t->header);
    const int columns = split(copy, names), n = split(line, fields);
    if (n < columns || t->count == MAX_ROWS) return;
#define FIELD(name) field(names, fields, columns, name)
    if (!t->problem) t->problem = wb_problem_number(atoi(FIELD("problem")));
    if (strcmp(FIELD("impl"), "roof_copy") == 0) t->peaks.copy_gbps = atof(FIELD("gbps"));
    row *r = &t->rows[t->count];
    r->ms = strtod(FIELD("ms"), &end);
    if (!t->problem || atoi(FIELD("problem")) != t->problem->number || end == FIELD("ms") || !(r->ms > 0)) return;
    snprintf(r->impl, sizeof r->impl, "%s", FIELD("impl"));
    r->c = (wb_case){.rows = atoi(FIELD("rows")),
                     .cols = atoi(FIELD("cols")),
                     .shape = {.batch = atoi(FIELD("B")),
                               .q_heads = atoi(FIELD("Hq")),
                               .kv_heads = atoi(FIELD("Hkv")),
                               .q_len = atoi(FIELD("Nq")),
                               .kv_len = atoi(FIELD("Nk")),
                               .head_dim = atoi(FIELD("D")),
                               .window = atoi(FIELD("W")),
                               .sinks = atoi(FIELD("S")),
                               .causal = atoi(FIELD("causal"))}};
    r->c.seed = BENCH_SEED;
    if (t->problem->signature == WB_DECODE) r->c.page = atoi(FIELD("page")), r->c.lens = wb_lens_named(FIELD("lens"));
    if (t->problem->signature == WB_BLOCK_MASK) {
        char text[WB_CASE_TEXT];
        const attention_shape *s = &r->c.shape;
        snprintf(text, sizeof text, "B=%d,Hq=%d,Hkv=%d,Nq=%d,Nk=%d,D=%d,masks=%d,seed=%d,mask=%s,q_tile=%s", s->batch,
                 s->q_heads, s->kv_heads, s->q_len, s->kv_len, s->head_dim, s->batch, BENCH_SEED, FIELD("mask"),
                 FIELD("q_tile"));
        if (wb_case_parse(t->problem, text, &r->c) != WB_OK) return;
    }
#undef FIELD
    t->count++;
}

// Peaks of a GPU that an older table does not state.
static void look_up_peaks(table *t)
{
    char line[LINE], first[LINE] = "", *names[MAX_COLUMNS], *fields[MAX_COLUMNS];
    FILE *file = fopen(PEAKS, "r");
    int columns = 0;
    while (file && t->peaks.tflops == 0 && fgets(line, sizeof line, file)) {
        if (*line == '#') continue;
        if (!columns) {
            strcpy(first, line);
            columns = split(first, names);
            continue;
        }
        if (split(line, fields) < columns || strcmp(field(names, fields, columns, "gpu"), t->gpu) != 0) continue;
        t->peaks.multiprocessors = atoi(field(names, fields, columns, "multiprocessors"));
        t->peaks.tflops = atof(field(names, fields, columns, "peak_tflops"));
        t->peaks.mma_tflops = atof(field(names, fields, columns, "peak_mma_sync_tflops"));
        t->peaks.gbps = atof(field(names, fields, columns, "peak_gbps"));
        t->peaks.gexps = atof(field(names, fields, columns, "peak_gexps"));
    }
    if (file) fclose(file);
}

static bool read_table(const char *path, table *t)
{
    char line[LINE];
    memset(t, 0, sizeof *t);
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "verdict: %s cannot be read\n", path);
        return false;
    }
    while (fgets(line, sizeof line, file)) {
        if (*line == '#')
            read_comment(t, line);
        else if (!*t->header)
            strcpy(t->header, line);
        else
            read_row(t, line);
    }
    fclose(file);
    if (t->peaks.tflops == 0) look_up_peaks(t);
    for (int k = 0; k < t->count; k++) {
        row *r = &t->rows[k];
        r->work = roofline_work_of(t->problem, &r->c);
        r->verdict = roofline_judge(t->problem, &t->peaks, &r->work, r->ms);
    }
    return true;
}

// Whether there is something to say: times of a device.
static bool of_a_device(const table *t)
{
    return t->count > 0 && !t->problem->on_host && *t->gpu && strcmp(t->gpu, "none") != 0;
}

static bool same_shape(const wb_problem *problem, const wb_case *a, const wb_case *b)
{
    const attention_shape *s = &a->shape, *t = &b->shape;
    if (problem->signature == WB_ROW_SUM) return a->rows == b->rows && a->cols == b->cols;
    return s->batch == t->batch && s->q_heads == t->q_heads && s->kv_heads == t->kv_heads && s->q_len == t->q_len &&
           s->kv_len == t->kv_len && s->head_dim == t->head_dim && (!problem->window || s->window == t->window) &&
           (!problem->sinks || s->sinks == t->sinks) && a->page == b->page && a->lens == b->lens &&
           a->mask == b->mask && a->mask_size == b->mask_size && a->q_tile == b->q_tile;
}

static const row *find(const table *t, const char *impl, const wb_case *c)
{
    for (int k = 0; k < t->count; k++)
        if (strcmp(t->rows[k].impl, impl) == 0 && same_shape(t->problem, &t->rows[k].c, c)) return &t->rows[k];
    return NULL;
}

// ------------------------------------------------------------------------------------------------------------------- text

// 5.498e11 and "FLOP" as "550 GFLOP".
static void amount(char *text, size_t size, double value, const char *unit)
{
    static const char prefixes[] = " kMGTP";
    int k = 0;
    while (value >= 999.5 && prefixes[k + 1]) value /= 1e3, k++;
    snprintf(text, size, value < 9.95 ? "%.1f %.1s%s" : "%.0f %.1s%s", value, k ? &prefixes[k] : "", unit);
}

// Whether a problem's rate is one of bytes: it does little with each.
static bool in_bytes(const wb_problem *problem)
{
    return problem->signature == WB_ROW_SUM || problem->signature == WB_DECODE;
}

static void say_table(const table *t, char labels[][32], int impls)
{
    char shape[80];
    const bool rate_of_bytes = in_bytes(t->problem);
    const int width = t->problem->signature == WB_DECODE ? 36 : 24;
    printf("  %-*s %10s  %-12s %9s", width, "shape", "FLOPs/byte", "bound by", "at most");
    for (int i = 0; i < impls; i++) printf("  %17.17s", labels[i]);
    printf("\n");
    for (int k = 0; k < t->count; k++) {
        const row *r = &t->rows[k];
        bool first = strcmp(r->impl, "naive") != 0;
        for (int before = 0; before < k && first; before++)
            if (strcmp(t->rows[before].impl, "naive") != 0) first = !same_shape(t->problem, &t->rows[before].c, &r->c);
        if (!first) continue;
        bench_shape_text(t->problem, &r->c, shape, sizeof shape);
        const double unit = rate_of_bytes ? 1e3 / r->verdict.intensity : 1;
        printf("  %-*s %10.4g  %-12s %9.4g", width, shape, r->verdict.intensity, roofline_roof_text(r->verdict.roof),
               unit * r->verdict.attainable);
        for (int i = 0; i < impls; i++) {
            const row *of = find(t, labels[i], &r->c);
            if (of)
                printf("  %9.4g  (%3.0f %%)", unit * of->verdict.reached, 100 * of->verdict.fraction);
            else
                printf("  %17s", "-");
        }
        printf("\n");
    }
}

// A paragraph of at most 100 characters a line, indented.
static void say_words(const char *text)
{
    int column = 0;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (column == 0 || column + 1 + length > 100) {
            printf("%s  %.*s", column ? "\n" : "", length, text);
            column = 2 + length;
        } else {
            printf(" %.*s", length, text);
            column += 1 + length;
        }
        text += length;
        text += strspn(text, " ");
    }
    printf("\n");
}

static void say_main(const table *t, const row *r)
{
    char shape[80], flops[32], bytes[32], advice[ROOFLINE_TEXT], text[2 * ROOFLINE_TEXT];
    const roofline_verdict *v = &r->verdict;
    const double gbps = r->work.bytes / r->ms * 1e-6;
    bench_shape_text(t->problem, &r->c, shape, sizeof shape);
    amount(flops, sizeof flops, r->work.flops, "FLOP");
    amount(bytes, sizeof bytes, r->work.bytes, "B");
    snprintf(text, sizeof text,
             "%s at %s: %s, %s with each input read once and each output written once: %.4g FLOPs a byte.",
             strcmp(r->impl, "key") == 0 ? "the answer key" : r->impl, shape, flops, bytes, v->intensity);
    say_words(text);
    if (v->roof == ROOFLINE_MEMORY && t->peaks.copy_gbps > 0)
        snprintf(
            text, sizeof text,
            "bounded by memory: %.4g GB/s at most, %.4g reached, %.0f %% of it and %.0f %% of what a copy reaches.",
            t->peaks.gbps, gbps, 100 * v->fraction, 100 * gbps / t->peaks.copy_gbps);
    else
        snprintf(text, sizeof text, "bounded by %s: %.4g TFLOP/s at most, %.4g reached, %.0f %% of it.",
                 roofline_roof_text(v->roof), v->attainable, v->reached, 100 * v->fraction);
    say_words(text);
    roofline_advice_text(v, t->problem, &t->peaks, &r->work, r->ms, advice);
    snprintf(text, sizeof text, "next: %s", advice);
    say_words(text);
}

// Of the student's function if it is there, else of the key's; the table has both, and the variants.
static void say(const table *t)
{
    char labels[MAX_IMPLS][32];
    int impls = 0;
    if (!of_a_device(t)) return;
    const wb_case main_shape = bench_main_shape(t->problem);
    printf("roofline %02d %s on %s: ", t->problem->number, t->problem->name, t->gpu);
    if (!(t->peaks.tflops > 0) || !(t->peaks.gbps > 0)) {
        printf("no verdict, the peaks of this GPU are not known (neither its compute capability in "
               "workbook/bench/roofline.c\n"
               "  nor its name in %s).\n",
               PEAKS);
        return;
    }
    printf("%.4g TFLOP/s of bf16 products", t->peaks.tflops);
    if (t->peaks.mma_tflops > 0 && t->peaks.mma_tflops < 0.99 * t->peaks.tflops)
        printf(" (about %.3g by mma.sync, which tile.cuh uses)", t->peaks.mma_tflops);
    printf(", %.4g GB/s; the roofs meet at %.0f FLOPs a byte\n", t->peaks.gbps, 1e3 * t->peaks.tflops / t->peaks.gbps);
    for (int k = 0; k < t->count; k++) {
        bool known = strcmp(t->rows[k].impl, "naive") == 0 || impls == MAX_IMPLS;
        for (int i = 0; i < impls && !known; i++) known = strcmp(labels[i], t->rows[k].impl) == 0;
        if (!known) strcpy(labels[impls++], t->rows[k].impl);
    }
    if (impls == 0) {
        printf("  nothing was measured beside the naive baseline\n");
        return;
    }
    say_table(t, labels, impls);
    printf("  (%s, and how much of the most that this roof allows)\n\n", in_bytes(t->problem) ? "GB/s" : "TFLOP/s");
    const row *r = find(t, "yours", &main_shape);
    if (!r) r = find(t, "key", &main_shape);
    if (r) say_main(t, r);
}

// ------------------------------------------------------------------------------------------------------------------ chart

typedef struct point {
    const table *t;
    const row *key, *yours;  // one may be missing
    double x, lowest;        // logarithms of the intensity, and of the lower rate of the two
    double label_x, label_y;
} point;

enum { MAX_POINTS = 16 };
static const double GAP = 0.16, DROP = 0.25;  // between two numbers; between a point and its number. All in logarithms

// Numbers that would touch are moved apart, to the left and to the right by as much.
static void spread(point *points, int count)
{
    for (int round = 0; round < 200; round++)
        for (int k = 0; k + 1 < count; k++) {
            const double missing = GAP - (points[k + 1].label_x - points[k].label_x);
            if (missing > 0) points[k].label_x -= missing / 2, points[k + 1].label_x += missing / 2;
        }
}

static bool on_a_point(const point *label, const point *p)
{
    const row *rows[2] = {p->key, p->yours};
    for (int i = 0; i < 2; i++)
        if (rows[i] && fabs(label->label_x - p->x) < 0.7 * GAP &&
            fabs(label->label_y - log10(rows[i]->verdict.reached)) < 0.6 * DROP)
            return true;
    return false;
}

// Under its own point, and under others that it would cover.
static void drop(point *points, int count)
{
    for (int k = 0; k < count; k++) {
        points[k].label_y = points[k].lowest - DROP;
        for (int i = 0; i < count; i++)
            if (on_a_point(&points[k], &points[i])) points[k].label_y -= DROP / 5, i = -1;
    }
}

static int by_intensity(const void *a, const void *b)
{
    const double x = ((const point *)a)->x, y = ((const point *)b)->x;
    return (x > y) - (x < y);
}

static int by_number(const void *a, const void *b)
{
    return ((const point *)a)->t->problem->number - ((const point *)b)->t->problem->number;
}

// Rate and percent of an implementation, or "-".
static void chart_columns(const row *r)
{
    if (r)
        printf("\t%.3g\t%.0f", r->verdict.reached, 100 * r->verdict.fraction);
    else
        printf("\t-\t-");
}

static int chart(char **paths, int count)
{
    static table tables[MAX_POINTS];
    point points[MAX_POINTS];
    int used = 0, n = 0;
    for (int k = 0; k < count && used < MAX_POINTS; k++) {
        table *t = &tables[used];
        if (!read_table(paths[k], t)) return 1;
        if (!of_a_device(t) || !(t->peaks.tflops > 0)) continue;
        if (used && strcmp(t->gpu, tables[0].gpu) != 0) {
            fprintf(stderr, "verdict: %s is of another GPU than %s, and left out\n", paths[k], tables[0].gpu);
            continue;
        }
        const wb_case main_shape = bench_main_shape(t->problem);
        point p = {.t = t, .key = find(t, "key", &main_shape), .yours = find(t, "yours", &main_shape)};
        if (!p.key && !p.yours) continue;
        p.x = p.label_x = log10((p.key ? p.key : p.yours)->verdict.intensity);
        p.lowest =
            log10(fmin(p.key ? p.key->verdict.reached : INFINITY, p.yours ? p.yours->verdict.reached : INFINITY));
        points[n++] = p;
        used++;
    }
    if (n == 0) return 0;
    const roofline_peaks *peaks = &tables[0].peaks;
    printf("# gpu: %s\n# peak_tflops: %.5g\n# peak_mma_sync_tflops: %.5g\n# peak_gbps: %.5g\n", tables[0].gpu,
           peaks->tflops, peaks->mma_tflops, peaks->gbps);
    printf("problem\tname\tshape\tbound\tintensity\tkey\tkey_percent\tyours\tyours_percent\tlabel_x\tlabel_y\n");
    qsort(points, (size_t)n, sizeof *points, by_intensity);
    spread(points, n);
    drop(points, n);
    qsort(points, (size_t)n, sizeof *points, by_number);
    for (int k = 0; k < n; k++) {
        const point *p = &points[k];
        const row *any = p->key ? p->key : p->yours;
        char shape[80];
        bench_shape_text(p->t->problem, &any->c, shape, sizeof shape);
        printf("%02d\t%s\t%s\t%s\t%.5g", p->t->problem->number, p->t->problem->name, shape,
               roofline_roof_text(any->verdict.roof), any->verdict.intensity);
        chart_columns(p->key);
        chart_columns(p->yours);
        printf("\t%.5g\t%.5g\n", pow(10, p->label_x), pow(10, p->label_y));
    }
    return 0;
}

int main(int argc, char **argv)
{
    static table t;
    int failed = 0;
    if (argc > 2 && strcmp(argv[1], "--chart") == 0) return chart(argv + 2, argc - 2);
    if (argc < 2 || *argv[1] == '-') {
        fprintf(stderr, "usage: verdict [--chart] FILE.tsv...\n");
        return 2;
    }
    for (int k = 1; k < argc; k++) {
        if (read_table(argv[k], &t))
            say(&t);
        else
            failed = 1;
    }
    return failed;
}
