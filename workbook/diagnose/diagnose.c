// diagnose.c - names a function's mistake: diagnose [-v] [--source FILE] [--record FILE] [--only] NN [CASE...]
// Runs the worker of the CPU execution layer (WB_WORKER) on small cases in which mistakes differ (cases.c), and on each
// CASE (--only: on these alone), with a record of products (layer_requests.h). The first wrong step is named, unless it
// can only be wrong in gaps that FILE has as shipped. Silence is better than a wrong name.
// --record: an outcome's `step` and `gaps` (score/outcome.h): "address" if that is wrong by a known formula, or no part
// has a sequence's last keys; "relation" if one explains all that was seen; else "step". -v: prints id and gaps, too.
// Exit status: 0 a mistake was named, 1 none, 2 could not run.
#include "score/score.h"
#include "score/outcome.h"

#include "evidence.h"

// The most numbers of a record, and the most pairs of a query and a key of a case.
enum { RECORD = 1 << 24, PAIRS = 2300000 };

static const wb_problem *problem;
static gap gaps[MAX_GAPS];  // of the problem
static int gap_count;
static bool no_mask;        // the gap of an optional mask is as shipped: only cases without one are looked at
static bool verbose, hung;  // a case had no answer in time: no more are tried
static bool some_wrong;     // the answer of a case is
static int plain;           // cases that ended well without a product

// Whether `name` is one of those that `list` has: "max|rescale".
static bool is_in(const char *list, const char *name)
{
    for (; *list; list += strcspn(list, "|"), list += *list == '|')
        if (strcspn(list, "|") == strlen(name) && strncmp(list, name, strlen(name)) == 0) return true;
    return false;
}

// Which gaps look wrong where another is as shipped.
static const char *const needed[][2] = {
    {"delta", "dS|dS for dQ"},
    {"share|page lookup|packed rows", "merge|finalize"},
    {"finalize", "merge"},
    {"parts", "sum of the parts"},
    {"mask|tail|mask of the diagonal|mask of the window|mask of the sinks|mask of dK and dV|mask of dQ",
     "max|rescale|accumulate"},
    {"product|keys|values|weights|row|pages", "owner"},
};
bool has_gap(const char *look)
{
    bool some = false;
    for (int n = 0; n < gap_count; n++) some |= is_in(look, gaps[n].name);
    return some;
}

bool worth_naming(const char *look)
{
    const bool some = has_gap(look);  // else it is in code that was given
    for (int n = 0; n < gap_count; n++) {
        // These may stay empty: more is done than needed, which is no mistake of results.
        if (!gaps[n].untouched || is_in(no_mask ? "ends|bound|mask" : "ends|bound", gaps[n].name)) continue;
        if (!some || is_in(look, gaps[n].name)) return false;
        for (int k = 0; k < COUNT(needed); k++)
            for (int m = 0; m < gap_count && is_in(needed[k][0], gaps[n].name); m++)
                if (is_in(needed[k][1], gaps[m].name) && is_in(look, gaps[m].name)) return false;
    }
    return true;
}

// A byte of an int8 cache counts as a 64th in products (int8.cuh).
static const float *floats(const worker_run *run, const char *name)
{
    const int k = wb_tensor_named(run->tensors, run->count, name);
    if (k < 0) return NULL;
    const wb_tensor *t = &run->tensors[k];
    const char *data = t->output ? worker_tensor(run, k) : original_tensor(run, k);
    float *values = allocate(t->count, sizeof *values);
    for (size_t i = 0; i < t->count; i++) values[i] = (float)(wb_get(t->type, data, i) / (t->type == WB_INT8 ? 64 : 1));
    return values;
}

// V of 16 as 10 has it, without its powers of two.
static const float *values_of_bytes(const worker_run *run)
{
    const attention_shape *s = &run->c.shape;
    const size_t heads = (size_t)s->batch * (size_t)s->kv_heads, N = (size_t)s->kv_len, D = (size_t)s->head_dim;
    const int V = wb_tensor_named(run->tensors, run->count, "V");
    float *values = allocate(heads * N * D, sizeof *values);
    const int8_t *none = allocate(run->tensors[V + 3].count, 1);
    wb_dequantise_fp8(values, 'V', (const uint8_t *)original_tensor(run, V), none, heads, N, D);
    return values;
}

static const void *raw(const worker_run *run, const char *name)
{
    const int k = wb_tensor_named(run->tensors, run->count, name);
    return k < 0 ? NULL : original_tensor(run, k);
}

static void judge_case(const worker_run *run, bool recorded)
{
    expected outputs[WB_MAX_TENSORS] = {{0}};
    worker_run judged = *run;
    judged.count -= recorded;
    expect_outputs(&judged, outputs);
    for (int k = 0; k < judged.count; k++) {
        const wb_tensor *t = &run->tensors[k];
        bool right = true;
        for (size_t i = 0; outputs[k].want && i < t->count && right; i++)
            right = expected_is(&outputs[k], i, wb_get(t->type, worker_tensor(run, k), i));
        e.wrong |= !right;
        free(outputs[k].want), free(outputs[k].tolerance);
    }
    some_wrong |= e.wrong;
}

static void read_case(const worker_run *run)
{
    e = (evidence){.problem = problem, .c = &run->c, .s = &run->c.shape};
    const bool sums = problem->signature == WB_ROW_SUM;
    e.Q = floats(run, sums ? "x" : "Q"), e.K = floats(run, sums ? "w" : "K"), e.dO = floats(run, "dO");
    e.V = problem->signature == WB_FP8 ? values_of_bytes(run) : floats(run, "V");
    e.sink_logits = floats(run, "sink_logits");
    e.K_scale = floats(run, "K_scale"), e.V_scale = floats(run, "V_scale");
    e.table = raw(run, "page_table"), e.kv_len = raw(run, "kv_len"), e.V_exponent = raw(run, "V_exponent");
    e.Q_exponent = raw(run, "Q_exponent"), e.K_exponent = raw(run, "K_exponent");
    e.delta = floats(run, "delta"), e.dsinks = floats(run, "dsinks");
    wb_case shown = run->c;
    shown.products = 0;
    wb_case_print(problem, &shown, e.text);
    if (wb_is_backward(problem)) e.O = floats(run, "O"), e.L = floats(run, "L");
    int outputs = 0;
    for (int k = 0; k < run->count && outputs < 5; k++)
        if (run->tensors[k].output && strcmp(run->tensors[k].name, "products"))
            e.out[outputs++] = floats(run, run->tensors[k].name);
    const int k = wb_tensor_named(run->tensors, run->count, "products");  // the last one
    if (k >= 0) e.products = (const float *)worker_tensor(run, k), e.product_count = run->tensors[k].count;
    for (int r = 0; k >= 0 && run->parts && r < run->c.ranks; r++)
        e.held[r] = (const float *)worker_tensor(worker_part(run, r), k);
    judge_case(run, k >= 0);
}

// Parses a case, with room for a record; false if it is none to look at.
static bool parse(const char *text, wb_case *c)
{
    if (wb_case_parse(problem, text, c) != WB_OK || !wb_case_is_valid(problem, c) || (no_mask && c->shape.causal) ||
        c->dry)
        return false;
    c->products = wb_has_ranks(problem) ? RECORD / 128 : c->watched || problem->signature == WB_ROW_SUM ? 0 : RECORD;
    if (!wb_has_ranks(problem) && c->late > 1) c->late = 1;  // the record is of one call
    const attention_shape *s = &c->shape;
    return c->watched || wb_has_ranks(problem) || (double)s->batch * s->q_heads * s->q_len * s->kv_len <= PAIRS;
}

static void look_at_case(const char *text)
{
    wb_case c;
    worker_run run;
    if (!parse(text, &c)) return;
    e.alike = false;
    expect_start(&run, problem, &c, c.watched ? WORKER_ALONE : WORKER_SHARED);
    const wb_exchange *const x = worker_exchange(&run);
    if (c.watched) {
        wb_case_print(problem, &c, e.text);
        if (run.ending[0] && wb_finding_is(run.said.finding, "a tile was read that should have been skipped"))
            find(
                BY_WASTE, "tile_in_vain", "bounds|bound|first tile|sink tiles|lists|first key|skip|keys|queries",
                "a block loads tiles in which none of its rows sees a key: its loop begins too early or ends too late");
    } else if (!run.ending[0] && x->status == WB_OK && x->device_status == WB_OK) {
        read_case(&run);
        plain += !wb_has_ranks(problem) && e.product_count > 2 && e.products[0] == 0 && !(e.products[2] > 0);
        (wb_has_ranks(problem)               ? look_at_ranks
         : problem->signature == WB_BACKWARD ? look_at_backward
         : problem->signature == WB_ROW_SUM  ? look_at_rows
                                             : look_at_forward)();
    } else {
        if (verbose) printf("%s: %s\n", text, run.ending[0] ? run.ending : x->message);
        hung |= worker_late(&run);
        worker_retire();
    }
    const bool redraw = e.alike && c.input != WB_NORMAL;
    worker_end(&run);
    if (!redraw) return;
    c.input = WB_NORMAL, c.products = 0;
    char again[WB_CASE_TEXT];
    wb_case_print(problem, &c, again);
    look_at_case(again);
}

// What is plain to see comes first, and the case that failed.
enum { PLAIN, ANY_INPUT, PASSES };
static int pass_of(const char *text, bool given)
{
    wb_case c;
    if (strstr(text, "nan_") || !parse(text, &c)) return PASSES;
    return given || !strstr(text, "input=") || strstr(text, "stairs") || strstr(text, "sizes") ? PLAIN : ANY_INPUT;
}

int main(int argc, char **argv)
{
    const char *source = "", *kept = NULL;
    bool only = false;
    int at = 1;
    for (; at < argc && *argv[at] == '-'; at++)
        if (strcmp(argv[at], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[at], "--source") == 0 && at + 1 < argc)
            source = argv[++at];
        else if (strcmp(argv[at], "--record") == 0 && at + 1 < argc)
            kept = argv[++at];
        else if (strcmp(argv[at], "--only") == 0)
            only = true;
    problem = at < argc ? wb_problem_number(atoi(argv[at])) : NULL;
    if (!problem) {
        fprintf(stderr, "usage: diagnose [-v] [--source FILE] [--record FILE] [--only] NN [CASE...]\n");
        return 2;
    }
    gap_count = gaps_in(problem, source, gaps);
    for (int n = 0; n < gap_count; n++)
        no_mask |= gaps[n].untouched && problem->mask == WB_CAUSAL_OPTIONAL && strcmp(gaps[n].name, "mask") == 0;
    char cases[MAX_CASES][WB_CASE_TEXT];
    int count = only ? 0 : diagnose_cases(problem, cases);
    for (int pass = 0; pass < PASSES && !best.rank; pass++) {
        for (int n = at + 1; n < argc + count && !hung; n++) {
            const char *text = n < argc ? argv[n] : cases[n - argc];
            if (pass_of(text, n < argc) == pass) look_at_case(text);
        }
        if (!e.problem) continue;
        e.wrong = some_wrong;
        conclude();
    }
    for (int n = 0; n < gap_count; n++) plain *= !gaps[n].untouched && !gaps[n].left;
    if (plain && !best.rank)
        printf("step by step: no result. Only products computed with %s can be checked, and there were none:\n"
               "print S, m and l, and compare them with the lesson's example\n",
               problem->on_host ? "cblas_sgemm" : "the primitives of the lesson");
    if (!best.rank) return 1;
    char *const kind = best.rank <= BY_HEADS && *best.id ? "address" : best.relation ? "relation" : "step";
    char names[400] = "";  // of those gaps the problem's
    for (const char *name = best.gaps; *name; name += strcspn(name, "|"), name += *name == '|') {
        char one[64];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(name, "|"), name);
        if (has_gap(one)) APPEND(names, "%s%s", *names ? "|" : "", one);
    }
    if (kept) outcome_write(kept, &(outcome){.state = "failed", .step = kind, .gaps = names});
    if (verbose) printf("id %s\ngaps %s\n", *best.id ? best.id : "unpinned", names);
    printf("step by step%s%s: %s\n", *best.shown ? ", in " : "", best.shown, best.says);
    return 0;
}
