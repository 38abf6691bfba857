// repair.c - looks for a change of a function with which all tests pass (README.md; generate and validate: Weimer,
// Nguyen, Le Goues, Forrest 2009): repair [--seconds n] [--said FILE] SOURCE BUILT BUILD NN [CASE...]
//
// BUILT is written, and the command BUILD makes WB_WORKER of it. FILE is an outcome (score/outcome.h), there when
// FILE.lock can be locked. n: seconds of a processor (15), with all that it starts, when all changes are compiled. A
// line says with what the cases come out right: "gap<tab>NAME|NAME" of none, one or more; "neither" also of the given
// code; or "given", the last. Else a sentence says what was found. Exit status: 0 a change, 1 none, 2 could not run.
#include "judge/expect.h"
#include "judge/tolerance.h"

#include "diagnose/cases.h"
#include "repair/changes.h"
#include "repair/probes.h"
#include "score/safe_text.h"
#include "score/score.h"

#include <ctype.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MOST_CASES = 40, MOST_WRONG = 20, ROUNDS = 20, WORK = 1 << 22, PROCESSES = 8, LINES = 4000 };
enum { RANDOM = 24, SUITES = 4 };  // cases that a change has to pass as well; changes for the suite
enum { BESIDE = 40 };  // changes that are tried after one was found, which may be better; more, far from what was said
enum { FAR = 6 };      // kinds of near lines are tried before the first kind of others
enum { DRAWN = 10, FEW = 6 };     // edits drawn for each chosen: some are never reached, or equal; cases of each
static const double DEAR = 0.15;  // seconds of a case that is not one of those tried

static const wb_problem *problem;
static wb_case cases[MOST_CASES];
static expected wanted[MOST_CASES][WB_MAX_TENSORS];
static bool wrong[MOST_CASES];                   // as the function is
static double seconds[MOST_CASES];               // of a case
static int case_count, wrong_count, first = -1;  // the cheapest wrong one
static spent_time own;
static double search = 15, budget;  // seconds of a processor, with all that was started
static repair_shared *shared;
static const char *source, *built, *command;  // the text, what is written of it, and what compiles that

// Seconds of a processor so far.
static double now(void)
{
    spent_look(&own, getpid(), false);
    return own.cpu;
}
static bool is_over(void) { return (spent_now() - own.looked > 0.05 ? now() : own.cpu) >= budget; }

// What a worker maps, in place of what it did before.
static bool share(void)
{
    char name[40];
    const int file = memfd_create("repair", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof *shared)) return false;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), file);
    setenv("WB_REPAIR", name, 1);
    session_keep(worker_path());
    return shared != MAP_FAILED;
}
static int processes(void)
{
    const char *jobs = getenv("JOBS");
    return jobs && atoi(jobs) > 0 && atoi(jobs) < PROCESSES ? atoi(jobs) : 2;
}

// Whether an output of case n is wrong, or it does not end well, or the time is up.
static bool is_wrong(int n)
{
    worker_run run;
    char limit[40];  // some changes never end; a worker that starts beside other work may take a tenth of a second
    if (is_over()) return true;
    const double least = shared->probing ? 15 : n != first && n != case_count ? 5 : 1;
    const double most = seconds[n] * 10 > least ? seconds[n] * 10 : least, before = own.cpu, left = budget - before;
    snprintf(limit, sizeof limit, "%g", most < left ? most : left < 0.3 ? 0.3 : left);
    setenv("WB_TIMEOUT", limit, 1);
    expect_start(&run, problem, &cases[n], cases[n].watched || cases[n].order ? WORKER_ALONE : WORKER_SHARED);
    const wb_exchange *x = worker_exchange(&run);
    bool right = !run.ending[0] && x->stage == WB_STAGE_DONE && x->status == WB_OK && x->device_status == WB_OK;
    if (worker_late(&run)) now(), own.cpu = before + atof(limit);  // whether it turned or slept
    if (x->device_status != WB_OK) worker_retire();                // what it leaves is no other case's
    if (right && !wanted[n][0].want && !wanted[n][1].want) expect_outputs(&run, wanted[n]);
    for (int k = 0; k < run.count; k++)
        for (size_t i = 0; right && wanted[n][k].want && i < run.tensors[k].count; i++)
            right = expected_is(&wanted[n][k], i, wb_get(run.tensors[k].type, worker_tensor(&run, k), i));
    worker_end(&run);
    return !right;
}

// ------------------------ building

// The status with which a command ends, or SPENT_LATE; what it says goes into a file.
static int status_of(const char *line, const char *log)
{
    const double rest = budget - now();
    if (rest <= 0) return SPENT_LATE;
    char left[40], text[9000];
    snprintf(left, sizeof left, "%g", rest);
    snprintf(text, sizeof text, "{ %s\n} >%s 2>&1", line, log);
    const int status = spent_within((char *[]){left, "sh", "-c", text, NULL});
    if (status == SPENT_LATE) spent_add(&own, budget);
    return status;
}

// Compiles what is written, and drops what does not compile. False if that is nothing, or all, or the time is up.
static bool build(void)
{
    char mark[300], log[4096];
    snprintf(mark, sizeof mark, "%s:", strrchr(built, '/') ? strrchr(built, '/') + 1 : built);
    snprintf(log, sizeof log, "%s.log", built);
    for (int round = 0; round < ROUNDS && !is_over(); round++) {
        bool some = false;
        FILE *const to = fopen(built, "w");
        if (!to) return false;
        changes_write(to);
        fclose(to);
        const int status = status_of(command, log);
        char *const said = grades_read_file("%s", log);
        for (char *rest = said, *line; status > 0 && (line = strsep(&rest, "\n"));) {
            const bool cause = strstr(line, "error") || strstr(line, "required from") || strstr(line, "of macro");
            const char *const at = cause ? strstr(line, mark) : NULL;
            if (at) some |= changes_drop(atoi(at + strlen(mark)));
        }
        free(said), unlink(log);
        if (status == 0 || !some) return status == 0;
    }
    return false;
}

// ------------------------ cases

static int head_dim;  // of the case that failed; others may be left out

// Leaves out the lines that choose a kernel of another head dimension than that case's: each is compiled for itself.
static void leave_out_head_dims(char *text, const char *given)
{
    wb_case c;
    if (!given || wb_case_parse(problem, given, &c) != WB_OK || !c.shape.head_dim) return;
    for (const int *D = problem->head_dims; *D; D++) {
        char form[80];
        regex_t line;
        regmatch_t at;
        snprintf(form, sizeof form, "^ *(if \\(|case ).* %d.*<%d, .*;$", *D, *D);
        if (*D == c.shape.head_dim || regcomp(&line, form, REG_EXTENDED | REG_NEWLINE)) continue;
        for (; regexec(&line, text, 1, &at, 0) == 0; head_dim = c.shape.head_dim)
            memset(text + at.rm_so, ' ', (size_t)(at.rm_eo - at.rm_so));
        regfree(&line);
    }
}

static void add_case(const wb_case *c, bool given)
{
    if (case_count == MOST_CASES || !wb_case_is_valid(problem, c) || c->dry || is_over()) return;
    const attention_shape *s = &c->shape;  // the oracle's time has no limit
    if (4.0 * s->batch * s->q_heads * s->q_len * s->kv_len > 64.0 * WORK) return;
    if (head_dim && s->head_dim != head_dim) return;
    const double from = now();
    const int n = case_count;
    cases[n] = *c, seconds[n] = given ? 0.5 : DEAR / 2;
    memset(wanted[n], 0, sizeof wanted[n]);
    wrong[n] = is_wrong(n);
    const double middle = now();
    if (!given && middle - from > 4 * DEAR) return;
    if (wrong[n] != is_wrong(n) || is_over() || (wrong[n] && wrong_count == MOST_WRONG))
        return;  // the first: a matter of chance
    seconds[n] = now() - middle;
    if (!given && seconds[n] > DEAR) return;
    case_count++, wrong_count += wrong[n];
}

// The same with other numbers, and shorter.
static void add_like(const wb_case *given)
{
    for (int n = 1; n < 8; n++) {
        wb_case c = *given;
        c.seed += (uint64_t)n, c.input = n % 2 ? c.input : WB_NORMAL;
        c.shape.q_len = c.shape.q_len * n / 8 + !(c.shape.q_len * n / 8);
        c.shape.kv_len = c.shape.kv_len * n / 8 + !(c.shape.kv_len * n / 8);
        c.rows = c.rows ? c.rows * n / 8 + 1 : 0, c.cols = c.cols ? c.cols * n / 8 + 1 : 0;
        if (n == 7 && c.shape.scale > 0) c.shape.scale = 30;  // the largest of the suites': exponents overflow
        if (!c.watched) add_case(&c, false);
    }
}

static void find_first(void)  // the quickest wrong case
{
    for (int n = 0; n < case_count; n++)
        if (wrong[n] && (first < 0 || seconds[n] < seconds[first])) first = n;
}

static void find_given_cases(int count, char **given)
{
    wb_case c;
    for (int n = 0; n < count; n++)
        if (wb_case_parse(problem, given[n], &c) == WB_OK) add_case(&c, true), add_like(&c);
    find_first();
}

static void find_other_cases(void)
{
    char texts[MAX_CASES][WB_CASE_TEXT];
    wb_case c;
    const int listed = diagnose_cases(problem, texts);
    const double until = now() + (budget - own.cpu) / 4;
    for (int n = 0; n < listed && now() < until; n++)
        if (wb_case_parse(problem, texts[n], &c) == WB_OK) add_case(&c, false);
    for (int n = 0; n < RANDOM && now() < until; n++) {
        c = wb_random_case(problem, 1, n, WORK), c.late = 0, c.order = 0;  // these want a worker of their own
        if (head_dim) c.shape.head_dim = head_dim;
        add_case(&c, false);
    }
    find_first();
}

// ------------------------ where

static bool is_near[LINES + 1];  // a line, to what was said

// lines: of a report, "19 82"; names: of gaps, "max|rescale".
static void find_near(const char *lines, char *names)
{
    char *end;
    for (long line; line = strtol(lines, &end, 10), end > lines; lines = end)
        for (long k = line - 2; line > 2 && k < line + 2 && k < LINES; k++) is_near[k] = true;
    for (char *name; (name = strsep(&names, "|"));) {
        size_t size;
        int line;
        const char *at = gaps_text(source, name, &size, &line), *const behind = at + size;
        for (; line && at < behind && line < LINES; at = next_line(at)) is_near[++line] = true;
    }
}
static bool is_far(const change *c) { return c->line >= LINES || !is_near[c->line]; }

// The reference solution's text in place of a gap, and of gaps without a line between them, which may share names.
typedef struct swap {
    int at, end;
    char *names;  // "max|rescale"
    const char *text;
    int length;
    int ids, ids_end;  // its changes
    bool alone;        // none behind it is on as well
} swap;
static char solution[64], *reference;  // its file, and what that holds
static swap swaps[64];
static int swap_count;
static uint64_t swapped;  // those that make cases right; 0: it is not known

static int by_line(const void *a, const void *b) { return ((const gap *)a)->line - ((const gap *)b)->line; }

// The text of gap a; or, if b is another, from the line above a to the one behind b.
static const char *text_in(const char *in, const gap *a, const gap *b, int *length)
{
    size_t size;
    int line;
    const char *begin = gaps_text(in, a->name, &size, &line), *end = begin + size;
    if (a != b) {
        while (begin > in && strncmp(begin, "//{", 3) != 0) begin--;
        const char *const last = gaps_text(in, b->name, &size, &line);
        end = next_line(last + size);
    }
    *length = line ? (int)(end - begin) : 0;
    return begin;
}

// How many gaps follow another without a line between them.
static int followers(const gap *gaps, int count)
{
    int n = 0, length;
    while (n + 1 < count) {
        const char *const text = text_in(source, &gaps[n], &gaps[n], &length), *const next = next_line(text + length);
        if (strncmp(next + strspn(next, " "), "//{", 3) != 0) break;
        n++;
    }
    return n;
}

static void add_swap(const gap *a, const gap *b)
{
    int mine, theirs;
    const char *const at = text_in(source, a, b, &mine), *const text = text_in(reference, a, b, &theirs);
    swap *const s = &swaps[swap_count];
    *s = (swap){(int)(at - source), (int)(at - source) + mine, strdup(a->name), text, theirs, change_count, 0, false};
    for (const gap *g = a + 1; g <= b; g++)
        if (asprintf(&s->names, "%s|%s", s->names, g->name) < 0) return;
    if (!mine || !theirs || swap_count == 63) return;
    swap_count += changes_swap(swap_count, s->at, s->end, text, theirs, &s->alone);
    s->ids_end = change_count;
}

static void find_swaps(const char *file)
{
    static gap gaps[MAX_GAPS];
    if (!gaps_file_in("solutions", problem, solution, sizeof solution)) return;
    reference = grades_read_file("%s", solution);
    const int count = gaps_in(problem, file, gaps);
    qsort(gaps, (size_t)count, sizeof *gaps, by_line);
    for (int n = 0, more; n < count; n += more + 1)
        if ((more = followers(gaps + n, count - n))) add_swap(&gaps[n], &gaps[n + more]);
    for (int n = 0; n < count; n++) add_swap(&gaps[n], &gaps[n]);
}

static bool is_right(void)
{
    if (is_wrong(first)) return false;
    for (int k = 0; k < case_count; k++)
        if (k != first && is_wrong(k)) return false;
    return true;
}
static bool is_right_with(uint64_t some)
{
    shared->swapped = some;
    const bool right = is_right();
    return shared->swapped = 0, right;
}

// Which swap makes the cases right; else those of all that have to be there together.
static void find_gap(void)
{
    uint64_t all = 0;
    if (first < 0) return;
    for (int n = 0; n < swap_count; n++) all |= (uint64_t)!swaps[n].alone << n;
    for (int n = swap_count - 1; n >= 0 && !swapped; n--)
        if (is_right_with(1ull << n)) swapped = 1ull << n;
    if (swapped || !is_right_with(all)) return;
    swapped = all;
    for (int n = 0; n < swap_count; n++)
        if (swapped >> n & 1 && is_right_with(swapped & ~(1ull << n))) swapped &= ~(1ull << n);
}

static int compile_with(const char *text, int at, const char *put, int end)
{
    FILE *const to = fopen(built, "w");
    if (!to) return 2;
    fprintf(to, "#define REPAIR_NONE\n#include \"repair/choice.h\"\n%.*s%s%s", at, text, put, text + end);
    fclose(to);
    return status_of(command, "/dev/null");
}

// 0: the cases are right with this text, 1: one is not, 2: it is not known.
static int try_text(const char *text)
{
    if (first < 0 || is_over() || compile_with(text, 0, "", 0)) return 2;
    return worker_retire(), session_keep(worker_path()), is_right() ? 0 : is_over() ? 2 : 1;
}

// ------------------------ trying

static int order[REPAIR_IDS], order_count;
static int like[REPAIR_IDS];  // the first in the order with the same values there; 0: it is not in the order

// Which values all changes would have in these cases.
static void probe(int what, int from, int to)
{
    memset(shared->values, 0, sizeof shared->values);
    shared->on = 0, shared->probing = what;
    for (int n = from; n < to; n++) is_wrong(n);
    shared->probing = 0;
    worker_retire();
}

// A number for a name or the reverse, no condition, a product for a quotient: what is wrong may only be out of use.
static bool may_hide(const change *c)
{
    const bool always = strcmp(c->put, "true") == 0 || strcmp(c->put, "false") == 0;
    if (c->of[strspn(c->of, "0123456789")] == 0) return isalpha((unsigned char)*c->put);
    return *c->of == '/' ? *c->put != '%' : always || isdigit((unsigned char)*c->put);
}

// What is worth trying, in its order.
static void find_order(void)
{
    probe(REPAIR_VALUES, first, first + 1);
    const uint64_t *const values = shared->values;
    order_count = 0, memset(like, 0, sizeof like);
    for (int rank = 0; rank < CHANGE_KINDS + FAR; rank++)
        for (int id = 1; id < change_count; id++) {
            const change *c = &changes[id];
            if (!*c->put || (int)c->kind + FAR * is_far(c) != rank) continue;
            if (!values[id] || (c->as_it_is && values[id] == values[c->as_it_is])) continue;  // it makes no difference
            order[order_count++] = like[id] = id;
            for (int k = c->site; c->as_it_is && changes[k].site == c->site && like[id] == id; k++)
                if (like[k] && values[k] == values[id]) like[id] = like[k];
        }
}

// Tries this edit of the whole source: other head dimensions, other numbers, and what no case shows, such as tiles that
// are read in vain. 0: all tests pass, 1: some fail, 2: it is not known.
static int try_suite(const change *c, const char *whole)
{
    char suite[4096];
    if (compile_with(whole, c->at, changes_text(c), c->end)) return 2;
    setenv("WB_TIMEOUT", "20", 1), setenv("WB_BACKEND", "cpu", 1), unsetenv("WB_REPAIR");
    snprintf(suite, sizeof suite, "build/cpu/tests/%02d_test -j%d --fail-fast", problem->number, processes());
    const int tests = status_of(suite, "/dev/null");
    return tests >= 0 && tests < 2 ? tests : 2;
}

static bool is_swapped(int at)
{
    for (int n = 0; n < swap_count; n++)
        if (swapped >> n & 1 && swaps[n].at <= at && at < swaps[n].end) return true;
    return !swapped;
}

// Says whether it is changed given code, or the gap. False: there is no edit to try.
static bool name_gap(int count, char **texts, const char *file)
{
    static bool keep[REPAIR_IDS];
    const given_code given = gaps_given(problem, file);
    find_swaps(file);
    for (const swap *s = swaps; s < swaps + swap_count; s++) keep[s->ids] = true;
    changes_keep(keep);
    int tests = 2;  // with given code as it was
    if ((swap_count || *given.says) && build() && share()) {
        find_given_cases(count, texts);
        find_gap();
        if (*given.says && !swapped)  // no small case: calls before the failed one matter
            tests = first < 0 ? try_suite(&(change){.put = ""}, given.restored) : try_text(given.restored);
        worker_retire();
    }
    if (tests == 0) return puts("given"), false;
    printf(swapped || tests == 2 ? "gap\t" : "neither");
    for (int n = 0, some = 0; n < swap_count; n++)
        if (swapped >> n & 1) printf("%s%s", some++ ? "|" : "", swaps[n].names);
    puts(""), fflush(stdout);
    return true;
}

typedef struct trials {
    int next, last;                             // in the order
    bool fails[REPAIR_IDS], mends[REPAIR_IDS];  // fails: in the first case, as those like it do
} trials;

static void try_some(trials *done)
{
    if (!share()) return;
    for (int n; (n = __atomic_fetch_add(&done->next, 1, __ATOMIC_RELAXED)) < done->last;) {
        const int id = shared->on = order[n];
        if (done->fails[like[id]]) continue;
        if ((done->fails[id] = is_wrong(first)) || !is_right()) continue;
        done->mends[id] = true;
        const int last = n + 1 + BESIDE * (1 + is_far(&changes[id]));
        if (last < done->last) done->last = last;
    }
    worker_retire();
}

static int tried;                         // changes
static int likely[SUITES], likely_count;  // those that mend all cases, in the order,
static char others[SUITES][PROBES_OTHER_TEXT];
static probes_found leaves[SUITES];  // and what they leave at the gap's end

// Tries all in several processes, until some mend all cases or the time is up.
static void try_all(void)
{
    find_order();
    pid_t children[PROCESSES];
    int started = 0;
    trials *const done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (done == MAP_FAILED) return;
    done->last = order_count;
    while (started < processes() && (children[started] = fork()) > 0) started++;
    if (started < processes() && children[started] == 0) {
        signal(SIGTERM, SIG_DFL), prctl(PR_SET_PDEATHSIG, SIGTERM);
        try_some(done);
        _exit(0);
    }
    for (int p = 0; p < started; p++)
        for (; waitpid(children[p], NULL, WNOHANG) == 0; usleep(50000))
            if (is_over()) kill(children[p], SIGTERM);
    tried = done->next < order_count ? done->next : order_count;
    for (int n = 0, id; n < 2 * tried && likely_count < SUITES; n++)
        if (done->mends[id = order[n % tried]] && (n < tried) == !may_hide(&changes[id]))
            leaves[likely_count] = PROBES_UNKNOWN, likely[likely_count++] = id;
}

// The first of those that leave this with which the suite passes; -1: none.
static int find_passing(probes_found that, const char *whole)
{
    int n = 0;
    budget = now() + 2 * search;
    setenv("WB_WARN", "1", 1);  // where warnings are errors, an edit that leaves a variable unused does not compile
    while (n < likely_count && (leaves[n] != that || try_suite(&changes[likely[n]], whole))) n++;
    unsetenv("WB_WARN");
    return n < likely_count ? n : -1;
}

static bool is_wrong_as(bool theirs, int on)
{
    shared->swapped = theirs ? swapped : 0, shared->on = on;
    const bool is = is_wrong(first);
    shared->swapped = 0, shared->on = 0;
    worker_retire();  // the next run counts visits anew
    return is;
}

static void say_edit(int found, const swap *in)
{
    const change *const c = &changes[likely[found]];
    const char *const text = changes_text(c), *const quote = changes_quote(c);
    const bool sure = leaves[found] == PROBES_SAME, missing = c->kind == CHANGE_MISSING;
    int line = c->theirs;
    for (const char *at = reference; missing && at < in->text; at++) line += *at == '\n';
    printf(leaves[found] == PROBES_OTHER ? "one edit may hide the mistake: "
           : sure || missing
               ? "with one edit the %d cases tried and all tests pass: "
               : "with one edit the %d cases tried and all tests pass, but it may only hide the mistake: ",
           case_count);
    if (missing)
        printf("behind line %d a line is missing, line %d of %s", c->line, line, solution);
    else
        printf(*text ? "in line %d, write `%s` instead of `%s`" : "in line %d, remove%s `%s`", c->line, text, c->of);
    if (!missing) printf(*quote ? "; it then reads `%s`" : "%s", quote);
    puts(others[found]);
}

static int drawn(int n, uint64_t seed) { return 1 + (int)(mix(seed << 32 | (uint64_t)n) % (uint64_t)change_count); }

// For who asks what a suite finds (tests/prove/edits.sh): so many of the changes that change a result, drawn by a seed,
// the number and a sentence a line, and for each a file BUILT.ID that turns it on in the worker that finds its name
// in WB_REPAIR.
static int choose(int count, uint64_t seed)
{
    static bool seen[REPAIR_IDS];
    if (!share()) return 2;
    find_other_cases();
    probe(REPAIR_REACHED, 0, case_count);
    for (int n = 0, chosen = 0; n < DRAWN * count && chosen < count && case_count; n++) {
        const int id = drawn(n, seed), is = changes[id].as_it_is ? changes[id].as_it_is : id;
        if (seen[id] || !shared->values[is] || !*changes[id].put) continue;
        seen[id] = true, shared->on = id;
        bool shows = false;  // in one of a few cases: an equal edit would take long in all
        for (int k = id; k < id + FEW && !shows; k++)
            first = k % case_count, shows = !wrong[first] && is_wrong(first) && is_wrong(first);
        if (!shows) continue;
        char name[4096], text[WB_CASE_TEXT];
        wb_case_print(problem, &cases[first], text);
        snprintf(name, sizeof name, "%s.%d", built, id);
        FILE *file = fopen(name, "w");
        if (!file || fwrite(&id, sizeof id, 1, file) != 1 || ftruncate(fileno(file), sizeof(repair_shared))) return 2;
        fclose(file);
        printf("%d line %d: `%s` in place of `%s`; %s shows it\n", id, changes[id].line, changes[id].put,
               changes[id].of, text);
        chosen++;
    }
    return 0;
}

int main(int argc, char **argv)
{
#ifdef _OPENMP
    omp_set_num_threads(1);  // the oracle's threads would not live on in what is forked here
#endif
    const char *said = NULL;
    outcome known = {.step = "", .gaps = "", .lines = ""};
    int chosen = 0;
    uint64_t seed = 0;
    for (; argc > 2 && strncmp(argv[1], "--", 2) == 0; argc -= 2, argv += 2) {
        if (strcmp(argv[1], "--seconds") == 0) search = atof(argv[2]);
        if (strcmp(argv[1], "--choose") == 0) chosen = atoi(argv[2]);
        if (strcmp(argv[1], "--seed") == 0) seed = (uint64_t)atoi(argv[2]);
        if (strcmp(argv[1], "--said") == 0) said = argv[2];
    }
    budget = 2 * search;  // of which compiling may have twice as much
    if (argc < 5 || !(problem = wb_problem_number(atoi(argv[4])))) {
        fprintf(stderr, "usage: repair [--seconds n] [--said FILE] SOURCE BUILT BUILD NN [CASE...]\n");
        return 2;
    }
    unsetenv("WB_SPENT");              // trials are no cost of what was handed in
    setenv("CUDACPU_PLACES", "0", 1);  // nobody reads their reports
    char *const whole = grades_read_file("%s", argv[1]), *const text = strdup(whole);
    const char *const skeleton = grades_read_file("build/shipped/%02d", problem->number);
    leave_out_head_dims(text, chosen ? NULL : argv[5]);
    source = text, built = argv[2], command = argv[3];
    const bool some = changes_read(source, skeleton);
    static bool keep[REPAIR_IDS];
    if (chosen) {
        for (int n = 0; n < DRAWN * chosen; n++) keep[drawn(n, seed)] = true;
        changes_keep(keep);
        return build() ? choose(chosen, seed) : 1;
    }
    if (!name_gap(argc - 5, argv + 5, argv[1])) return 1;
    const swap *const in = __builtin_popcountll(swapped) == 1 ? &swaps[__builtin_ctzll(swapped)] : NULL;
    if (!some && !in) return puts("nothing, because the source has too many places to change, or none"), 1;
    for (int id = 1; id < change_count; id++)
        keep[id] = in && id >= in->ids ? id < in->ids_end
                                       : changes[id].kind % CHANGE_SWAP > CHANGE_MISSING && is_swapped(changes[id].at);
    changes_keep(keep);
    budget = now() + 2 * search;
    if (!build()) {
        printf("nothing, because the edits %s\n", is_over() ? "take too long to compile" : "do not compile");
        return 1;
    }
    budget = now() + search;
    if (!share()) return 2;
    if (!case_count) find_given_cases(argc - 5, argv + 5);
    find_other_cases();
    char lock[4200];
    snprintf(lock, sizeof lock, "%s.lock", said ? said : "");
    if (said && flock(open(lock, O_RDONLY), LOCK_SH) == 0) outcome_read(said, &known);
    find_near(known.lines, strdup(known.gaps));
    if (first < 0) return puts("nothing, because no small case fails in every run"), 1;
    try_all();
    const bool named = strcmp(known.step, "relation") == 0;  // the sentence says what the mistake does
    char the_case[WB_CASE_TEXT];
    const char *words[PROBE_WORDS];
    wb_case_print(problem, &cases[first], the_case);
    for (int n = 0; n < PROBE_WORDS && in; n++) words[n] = changes[in->ids + 1 + n].of;
    const probed of = {in ? in->names : "", the_case, words, is_wrong_as};
    probes_are_of(&of, shared);
    budget = now() + search;
    const bool sees = in && !wb_has_ranks(problem);  // ranks arrive in any order
    for (int n = 0; n < likely_count && sees; n++) leaves[n] = probes_with(likely[n], others[n]);
    int found = find_passing(PROBES_SAME, whole);
    if (found < 0) found = find_passing(PROBES_UNKNOWN, whole);
    const bool asks = sees && !named && (found < 0 || leaves[found] == PROBES_UNKNOWN);
    if (asks && probes_say() && found < 0) return 1;
    if (found < 0) found = find_passing(PROBES_OTHER, whole);
    if (found < 0 && tried < order_count && !*known.gaps && !*known.lines)  // the cause is not named
        printf("none of the %d likeliest edits fixes it; there was no time for %d more\n", tried, order_count - tried);
    else if (found < 0)
        puts("none of the edits that were tried fixes it");
    else
        say_edit(found, in);
    return found < 0;
}
