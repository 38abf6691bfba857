// repair.c - looks for a change of a function that makes its wrong cases right:
// repair [--seconds n] SOURCE BUILT BUILD NN [CASE...]
//
// All changes that stand in one place (changes.c) are compiled into one worker (choice.h): BUILT is written, the command
// BUILD makes WB_WORKER of it, and what does not compile is dropped, line by line. Each change is then tried on the
// cheapest wrong case, unless no value there would have been another; if that is right, on all others: CASE, those of
// diagnose/cases.c, and drawn ones (generate and validate: Weimer, Nguyen, Le Goues, Forrest 2009). A change that mends
// some wrong cases, and harms none, is one of two: a second is looked for beside it.
//
// Exit status: 0 what was found is printed, 1 nothing was, 2 could not run.
#include "judge/expect.h"

#include "case/cover.h"
#include "diagnose/cases.h"
#include "repair/changes.h"
#include "score/grades.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MOST_CASES = 64, ROUNDS = 12, SHOWN = 2, WORK = 120, PROCESSES = 8 };
static const double DEAR = 0.15;  // seconds of a case that is not one of those tried
static const double CASES = 5;    // for all of them

static const wb_problem *problem;
static wb_case cases[MOST_CASES];
static expected wanted[MOST_CASES][WB_MAX_TENSORS];
static bool wrong[MOST_CASES];      // as the function is, with the first of two changes
static double seconds[MOST_CASES];  // of a case
static int case_count, first;       // the cheapest wrong one
static double began, budget = 20;
static bool says;  // what it does, for who works on it
static repair_shared *shared;
static char shared_name[] = "/tmp/wb_repair.XXXXXX";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A file that a worker maps, in place of the one before; unshare() takes it away.
static bool share(void)
{
    strcpy(strrchr(shared_name, '.'), ".XXXXXX");
    const int file = mkstemp(shared_name);
    if (file < 0 || ftruncate(file, sizeof *shared)) return false;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    setenv("WB_REPAIR", shared_name, 1);
    return shared != MAP_FAILED;
}
static void unshare(void)
{
    worker_retire(WORKER_SHARED);
    unlink(shared_name);
}
static pid_t children[PROCESSES];
static void end(int signal)
{
    for (int p = 0; p < PROCESSES && children[p]; p++) kill(children[p], signal);
    unlink(shared_name);
    _exit(2);
}

static bool is_right(int n)
{
    worker_run run;
    char limit[40];  // many changes never end
    snprintf(limit, sizeof limit, "%g", seconds[n] == 0 ? 5 : seconds[n] * 10 > 0.3 ? seconds[n] * 10 : 0.3);
    setenv("WB_TIMEOUT", limit, 1);
    worker_start(&run, problem, &cases[n], cases[n].watched ? WORKER_ALONE : WORKER_SHARED);
    const wb_exchange *x = worker_exchange(&run);
    bool right = !run.ending[0] && x->status == WB_OK && x->device_status == WB_OK;
    if (!right) worker_retire(WORKER_SHARED);
    if (right && !wanted[n][0].want && !wanted[n][1].want) expect_outputs(&run, wanted[n]);
    for (int k = 0; right && k < run.count; k++)
        for (size_t i = 0; wanted[n][k].want && i < run.tensors[k].count && right; i++)
            right = expected_is(&wanted[n][k], i, wb_get(run.tensors[k].type, worker_tensor(&run, k), i));
    worker_end(&run);
    return right;
}

// ------------------------ building

static bool build(const char *built, const char *command)
{
    const char *name = strrchr(built, '/') ? strrchr(built, '/') + 1 : built;
    char mark[300], line[8192];
    snprintf(mark, sizeof mark, "%s:", name);
    for (int round = 0; round < ROUNDS; round++) {
        FILE *to = fopen(built, "w");
        if (!to) return false;
        changes_write(to);
        fclose(to);
        FILE *from = popen(command, "r");
        bool some = false;
        while (from && fgets(line, sizeof line, from)) {
            const char *at = strstr(line, "error") || strstr(line, "required from") ? strstr(line, mark) : NULL;
            if (at) some |= changes_drop(atoi(at + strlen(mark)));
        }
        const int status = from ? pclose(from) : -1;
        if (says) fprintf(stderr, "build %d: status %d after %.2f s\n", round, status, now() - began);
        if (status == 0 || !some) return status == 0;
    }
    return false;
}

// ------------------------ cases

static void add_case(const wb_case *c, bool given)
{
    if (case_count == MOST_CASES || !wb_case_is_valid(problem, c) || c->dry) return;
    const double from = now();
    const int n = case_count;
    cases[n] = *c, seconds[n] = 0;
    memset(wanted[n], 0, sizeof wanted[n]);
    wrong[n] = !is_right(n);
    const double middle = now();
    if (!given && middle - from > 4 * DEAR) return;
    if (wrong[n] == is_right(n)) return;  // a matter of chance
    seconds[n] = now() - middle;
    if (!given && seconds[n] > DEAR) return;
    if (says) {
        char text[WB_CASE_TEXT];
        wb_case_print(problem, c, text);
        fprintf(stderr, "%s %.4f s %s\n", wrong[n] ? "wrong" : "right", seconds[n], text);
    }
    case_count++;
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
        if (!c.watched) add_case(&c, false);
    }
}

static void find_cases(int count, char **given)
{
    char texts[MAX_CASES][WB_CASE_TEXT];
    wb_case c;
    for (int n = 0; n < count; n++)
        if (wb_case_parse(problem, given[n], &c) == WB_OK) add_case(&c, true), add_like(&c);
    const int listed = diagnose_cases(problem, texts);
    for (int n = 0; n < listed && now() - began < CASES; n++)
        if (wb_case_parse(problem, texts[n], &c) == WB_OK) add_case(&c, false);
    wb_cover_row rows[WB_COVERING];
    const int drawn = wb_cover(problem, 1, WORK, 300, rows);
    for (int n = 0; n < drawn && now() - began < CASES; n++) {
        if (rows[n].vast) continue;
        c = wb_cover_case(problem, &rows[n], 1);
        c.late = 0, c.order = 0;
        if (!c.watched) add_case(&c, false);
    }
}

static bool choose_first(void)
{
    first = -1;
    for (int n = 0; n < case_count; n++)
        if (wrong[n] && (first < 0 || seconds[n] < seconds[first])) first = n;
    return first >= 0;
}

// ------------------------ trying

typedef struct trial {
    int id;
    int mends;  // of the wrong cases
    bool harms;
} trial;

static int order[REPAIR_IDS], order_count;
static uint64_t values[REPAIR_IDS];  // of the last probe, see shared.h

// What is worth trying, in its order.
static void find_order(void)
{
    memset(shared->values, 0, sizeof shared->values);
    shared->probing = 1;
    worker_retire(WORKER_SHARED);
    is_right(first);
    shared->probing = 0;
    memcpy(values, shared->values, sizeof values);
    worker_retire(WORKER_SHARED);
    order_count = 0;
    for (change_kind kind = 0; kind < CHANGE_KINDS; kind++)
        for (int id = 1; id < change_count; id++) {
            const change *c = &changes[id];
            bool again = !*c->put || c->kind != kind || shared->values[id] == 0 || id == shared->on[0] ||
                         (c->as_it_is && shared->values[id] == shared->values[c->as_it_is]);
            for (int k = id - 1; c->as_it_is && k > 0 && changes[k].site == c->site && !again; k--)
                again = shared->values[k] == shared->values[id] && changes[k].kind <= kind;
            if (!again) order[order_count++] = id;
        }
}

static trial try(int id, int place)
{
    trial t = {.id = id};
    shared->on[place] = id;
    if (is_right(first)) {
        t.mends = 1;
        for (int n = 0; n < case_count && !t.harms; n++) {
            if (n == first) continue;
            const bool right = is_right(n);
            t.mends += wrong[n] && right;
            t.harms |= !wrong[n] && !right;
        }
    }
    shared->on[place] = 0;
    return t;
}

// Tries all in several processes, until `enough` have mended all or the time is up. The best in best[], how many.
static int try_all(int place, int enough, int wrong_count, trial best[SHOWN])
{
    const char *jobs = getenv("WB_JOBS");
    const int processes = jobs && atoi(jobs) > 0 && atoi(jobs) < PROCESSES ? atoi(jobs) : 2;
    int pipes[2], found = 0, whole = 0;
    if (pipe(pipes)) return 0;
    const int before = shared->on[0];
    for (int p = 0; p < processes; p++) {
        children[p] = fork();
        if (children[p]) continue;
        memset(children, 0, sizeof children);
        signal(SIGTERM, SIG_DFL);
        close(pipes[0]);
        setpgid(0, 0);
        if (!share()) _exit(2);
        signal(SIGTERM, end);
        shared->on[0] = before;
        for (int n = p; n < order_count && now() - began < budget; n += processes) {
            const trial t = try(order[n], place);
            if (t.mends && !t.harms && write(pipes[1], &t, sizeof t) != sizeof t) break;
        }
        unshare();
        _exit(0);
    }
    close(pipes[1]);
    trial t;
    double until = 0;
    while (whole < enough && (!until || now() < until)) {
        struct pollfd ready = {pipes[0], POLLIN, 0};
        if (poll(&ready, 1, 100) == 0) continue;
        if (read(pipes[0], &t, sizeof t) != sizeof t) break;
        whole += t.mends == wrong_count;
        if (t.mends == wrong_count && !until) until = now() + 1;  // another may be as good
        if (says)
            fprintf(stderr, "%.2f s: mends %d of %d: line %d: %s\n", now() - began, t.mends, wrong_count,
                    changes[t.id].line, changes[t.id].put);
        int at = found < SHOWN ? found++ : SHOWN;
        for (; at > 0 && best[at - 1].mends < t.mends; at--)
            if (at < SHOWN) best[at] = best[at - 1];
        if (at < SHOWN) best[at] = t;
    }
    for (int p = 0; p < processes; p++) kill(children[p], SIGTERM);
    while (wait(NULL) > 0) continue;
    memset(children, 0, sizeof children);
    close(pipes[0]);
    return found;
}

// "in line 57 `BC` or `BR` in place of `cols`": those that had the same values there.
static void say(int id)
{
    const change *c = &changes[id];
    const bool moved = strncmp(c->put, "one statement", 13) == 0;
    printf("in line %d ", c->line);
    if (moved)
        printf("`%s` %s", c->of, c->put);
    else if (!*c->of)
        printf("`%s` before what stands there", c->put);
    else if (strcmp(c->put, "nothing") == 0)
        printf("without `%s`", c->of);
    else
        printf("`%s`", c->put);
    for (int k = 1, more = 0; c->as_it_is && k < change_count && more < 2; k++)
        if (k != id && changes[k].site == c->site && changes[k].kind == c->kind && *changes[k].put &&
            values[k] == values[id])
            printf(" or `%s`", changes[k].put), more++;
    if (*c->of && !moved && strcmp(c->put, "nothing")) printf(" in place of `%s`", c->of);
}

int main(int argc, char **argv)
{
#ifdef _OPENMP
    omp_set_num_threads(1);  // the oracle's threads would not live on in what is forked here
#endif
    began = now();
    says = getenv("WB_REPAIR_SAYS");
    if (argc > 2 && strcmp(argv[1], "--seconds") == 0) budget = atof(argv[2]), argc -= 2, argv += 2;
    if (argc < 5 || !(problem = wb_problem_number(atoi(argv[4])))) {
        fprintf(stderr, "usage: repair [--seconds n] SOURCE BUILT BUILD NN [CASE...]\n");
        return 2;
    }
    signal(SIGTERM, end), signal(SIGINT, end);
    char *source = grades_read_file("%s", argv[1]), *skeleton = grades_read_file("build/shipped/%02d", problem->number);
    if (!changes_read(source, skeleton) || !build(argv[2], argv[3]) || !share()) return 2;
    began = now();
    find_cases(argc - 5, argv + 5);
    began = now();
    int wrong_count = 0;
    for (int n = 0; n < case_count; n++) wrong_count += wrong[n];
    trial best[SHOWN], second[SHOWN];
    int found = 0, beside = 0;
    if (choose_first()) {
        find_order();
        if (says)
            fprintf(stderr, "%d changes, %d to try, %d of %d cases wrong; %.2f s\n", change_count, order_count,
                    wrong_count, case_count, now() - began);
        found = try_all(0, SHOWN, wrong_count, best);
    }
    const bool whole = found && best[0].mends == wrong_count;
    if (found && !whole && best[0].mends > 0) {
        shared->on[0] = best[0].id;
        for (int n = 0; n < case_count; n++) wrong[n] = !is_right(n);
        if (choose_first()) {
            find_order();
            beside = try_all(1, 1, wrong_count - best[0].mends, second);
            beside = beside && second[0].mends == wrong_count - best[0].mends;
        }
    }
    unshare();
    if (!whole && !beside) return 1;
    if (whole)
        printf("one change makes %s right: ", wrong_count > 1 ? "all wrong cases" : "this case");
    else
        printf("two changes make all wrong cases right: ");
    say(best[0].id);
    if (beside || (found > 1 && whole && best[1].mends == wrong_count)) {
        printf(beside ? "; and " : "; or ");
        say(beside ? second[0].id : best[1].id);
    }
    printf("\n");
    return 0;
}
