#include "harness_judge.h"

#include "judge/record.h"
#include "reference/oracle.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

const wb_problem *problem(void)
{
    const wb_problem *found = wb_find_problem(harness_problem);
    if (found) return found;
    fprintf(stderr, "harness: TEST_PROBLEM(%s): the table has no such problem\n", harness_problem);
    exit(RECORD_GAVE_UP);
}

bool on_cpu_backend(void)
{
    const char *backend = getenv("WB_BACKEND");
    return !backend || strcmp(backend, "cuda") != 0;
}

static const char *given_case(void)
{
    const char *text = getenv("CASE");
    return text && *text ? text : NULL;
}

uint64_t run_seed(void)
{
    const char *seed = getenv("SEED");
    return seed && *seed ? strtoull(seed, NULL, 0) : 1;
}

// Defaults and the seed of this run.
static wb_case complete(wb_case c)
{
    if (c.seed == 0) c.seed = run_seed();
    return wb_case_defaults(problem(), c);
}

// ------------------------ cases

static bool promised;  // the test has asked for a promise

// Whether this is the first case that the test asks for a promise, which is asked of more heads as well.
static bool is_first(void) { return !promised && (promised = true); }

// On a GPU nothing must stand in line behind the inputs: no kernel in the only queue, nor one that is yet to be loaded.
static void set_device(void)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

// Ends the test with the report if there is one, and with it all that its workers have started.
static void conclude(report *r, worker_run *run)
{
    if (r->used && !*r->given) say_case(r, run);
    if (run) worker_end(run);
    if (r->used) worker_retire();
    if (r->used) cr_assert_fail("%s%c%s%c%s", r->given, RECORD_ABOUT, r->finding, RECORD_ABOUT, r->text);
    cr_assert(true);
}

// Between cases that run in one process, in what is given as CASE=.
enum { BEHIND = ':' };

void run_unjudged(wb_case c)
{
    worker_run run;
    c = complete(c);
    expect_start(&run, problem(), &c, WORKER_SHARED);
    const bool died = run.ending[0];
    worker_end(&run);
    if (died) worker_retire();
}

// What another run of a case comes to; if it is wrong, the report.
enum { WRONG, RIGHT, NOT_RUN };
static int comes_to(report *r, const wb_case *c, worker_kind kind, const refusal *wanted)
{
    worker_run run;
    r->used = 0;
    expect_start(&run, problem(), c, kind);
    const int is = worker_not_run(&run) ? NOT_RUN : judge(r, &run, wanted) ? RIGHT : WRONG;
    worker_end(&run);
    return is;
}

// Which of the cases that a process served before is enough for this one to fail behind it, the last such; -1: none.
static int culprit(const worker_run *run, const refusal *wanted, int known)
{
    for (int k = known - 1; k >= 0; k--) {
        static report r;
        worker_retire();
        run_unjudged(run->before[k]);
        if (comes_to(&r, &run->c, WORKER_SHARED, wanted) == WRONG) return k;
    }
    return -1;
}

// A case has failed behind others. If it fails alone, too, that is the report; or what they left is to blame: true.
static bool blame(report *r, const worker_run *run, const refusal *wanted)
{
    report alone = {.used = 0};
    const int is = comes_to(&alone, &run->c, WORKER_ALONE, wanted);
    if (is == NOT_RUN) return false;
    if (is == RIGHT) {
        const int known = run->served < WORKER_REMEMBERED ? run->served : WORKER_REMEMBERED;
        const int enough = culprit(run, wanted, known);
        char others[40];
        snprintf(others, sizeof others, enough < 0 ? "%d other%s" : "another", run->served,
                 run->served == 1 ? "" : "s");
        say(&alone,
            "the function keeps state from an earlier call (a static variable, allocated memory), reads an "
            "uninitialised variable, or is nondeterministic:\n  this case passes in a new process, but fails after %s "
            "in the same process\n  there: %s",
            others, r->text);
        char *to = alone.given;  // all of them, each behind a colon
        for (int k = enough < 0 ? 0 : enough; k < (enough < 0 ? known : enough + 1); k++, *to++ = BEHIND)
            wb_case_print(run->problem, &run->before[k], to), to += strlen(to);
        wb_case_print(run->problem, &run->c, to);
    }
    *r = alone;
    return is == RIGHT;
}

// Some of what is asked of the execution layer is asked once in a process (layer_requests.h); and a function may
// remember what the device said.
static worker_kind kind_for(const wb_case *c)
{
    const bool once = c->order || c->watched || (c->overlapped && !c->ranks);
    return on_cpu_backend() && (once || c->processors || c->shared_kb || c->dry) ? WORKER_ALONE : WORKER_SHARED;
}

static bool drawn;  // the cases are: of one that fails a smaller one is wanted

// A smaller case that fails alone: each step that makes it simpler is taken if it then still does.
static void shrink(wb_case c, report *r)
{
    enum { ROUNDS = 2 };
    static report other;
    for (int n = 0; n < ROUNDS * WB_SIMPLER; n++) {
        wb_case less = c;
        if (!wb_simpler_case(problem(), &less, n % WB_SIMPLER) || !wb_case_is_valid(problem(), &less)) continue;
        if (comes_to(&other, &less, kind_for(&less), NULL) == WRONG) c = less;
    }
    if (comes_to(&other, &c, WORKER_ALONE, NULL) == WRONG) *r = other;
}

// Ends the test if a case fails; else `run` stays open.
static void run_judged(worker_run *run, const wb_case *c, worker_kind kind, const refusal *wanted)
{
    report r = {.used = 0};
    expect_start(run, problem(), c, kind);
    if (judge(&r, run, wanted)) return;
    worker_retire();
    const bool others = run->served > 0 && blame(&r, run, wanted);
    if (drawn && !others && !worker_not_run(run) && !worker_late(run)) shrink(*c, &r);
    conclude(&r, run);
}

// A case, completed, that has passed.
static worker_run right(wb_case *c)
{
    worker_run run;
    *c = complete(*c);
    run_judged(&run, c, kind_for(c), NULL);
    return run;
}

// Where nothing more is asked of it.
static void run_and_end(wb_case c, worker_kind kind, const refusal *wanted)
{
    worker_run run;
    run_judged(&run, &c, kind, wanted);
    worker_end(&run);
}

// When a test has passed so far. Its worker is told to end, and must do so as it should.
void harness_end(void)
{
    report r = {.used = 0};
    worker_run last;
    if (worker_finish(&last)) return;
    say(&r, "%s, when the test asked the worker to end", last.ending);
    say_case(&r, &last);
    conclude(&r, NULL);
}

// ------------------------ checks

void check_case(wb_case c)
{
    c = complete(c);
    run_and_end(c, kind_for(&c), NULL);
}

void check_case_alone(wb_case c) { run_and_end(complete(c), WORKER_ALONE, NULL); }

void check_every_input(wb_case c)
{
    for (c.input = 0; c.input < WB_INPUTS; c.input++)
        if (wb_input_is_everywhere(c.input)) check_case(c);
}

void check_worked(wb_case c, const char *name, const double *numbers, int count, double tolerance)
{
    report r = {.used = 0};
    worker_run run = right(&c);
    const int k = worker_named(&run, name);
    if (k < 0) say(&r, "harness: the problem has no output %s", name);
    for (int i = 0; i < count && !r.used; i++) {
        const double got = element(&run.tensors[k], worker_tensor(&run, k), (size_t)i);
        if (isfinite(got) && fabs(got - numbers[i]) <= tolerance) continue;
        say(&r, "the worked example: ");
        say_place(&r, &run, &run.tensors[k], (size_t)i);
        say(&r, " is %.6g, but should be %.6g, as computed by hand", got, numbers[i]);
    }
    conclude(&r, &run);
}

void check_output(wb_case c, const char *name)
{
    only = name;
    check_case(c);
    only = NULL;
}

void check_doubles(wb_case c)
{
    report r = {.used = 0};
    worker_run once = right(&c);
    c.input = WB_TWICE_DO;
    worker_run twice = right(&c);
    for (int k = 0; k < once.count && !r.used; k++)
        for (size_t i = 0; once.tensors[k].output && i < once.tensors[k].count; i++) {
            const double a = element(&once.tensors[k], worker_tensor(&once, k), i),
                         b = element(&once.tensors[k], worker_tensor(&twice, k), i);
            if (b == 2 * a) continue;
            say_place(&r, &once, &once.tensors[k], i);
            say(&r, " is %.9g, but %.9g when dO is doubled: gradients must be linear in dO", a, b);
            break;
        }
    worker_end(&once);
    conclude(&r, &twice);
}

// How many gradients a backward's case has: of Q, K and V, and of the sink logits, in this order, as the inputs are.
static int gradients_of(const worker_run *run) { return run->problem->sink_logits ? 4 : 3; }

// The loss of a backward's case, at these inputs each moved by `step` times their gradient, the worker's outputs.
static double loss_at(const worker_run *run, double step)
{
    const int dQ = 0, Q = worker_named(run, "Q"), dO = run->count - 1;
    const attention_shape *s = &run->c.shape;
    double *moved[4] = {0};
    for (int n = 0; n < gradients_of(run); n++) {
        const wb_tensor *t = &run->tensors[Q + n];
        moved[n] = malloc(t->count * sizeof(double));
        if (!moved[n]) abort();
        for (size_t i = 0; i < t->count; i++)
            moved[n][i] = element(t, original_tensor(run, Q + n), i) + step * element(t, worker_tensor(run, dQ + n), i);
    }
    double loss = 0, o[WB_MAX_HEAD_DIM], l;
    for (int bh = 0; bh < s->batch * s->q_heads; bh++)
        for (int i = 0; i < s->q_len; i++) {
            const size_t row = (size_t)bh * (size_t)s->q_len + (size_t)i, D = (size_t)s->head_dim;
            oracle_attention_row(
                &(oracle_inputs){run->problem, s, moved[0], moved[1], moved[2], moved[3], .mask = NULL},
                bh / s->q_heads, bh % s->q_heads, i, o, &l, NULL, NULL, NULL);
            for (size_t d = 0; d < D; d++)
                loss += o[d] * element(&run->tensors[dO], original_tensor(run, dO), row * D + d);
        }
    for (int n = 0; n < 4; n++) free(moved[n]);
    return loss;
}

void check_descends(wb_case c)
{
    report r = {.used = 0};
    worker_run run = right(&c);
    double norm = 0;
    for (int k = 0; k < gradients_of(&run); k++)
        for (size_t i = 0; i < run.tensors[k].count; i++) {
            const double g = element(&run.tensors[k], worker_tensor(&run, k), i);
            norm += g * g;
        }
    const double step = 1e-3, slope = (loss_at(&run, step) - loss_at(&run, -step)) / (2 * step);
    if (!(norm > 0) || !(fabs(slope - norm) <= 0.01 * norm))
        say(&r, "a step along dQ, dK and dV%s should change sum(dO * O) by %.5g per unit, but changes it by %.5g",
            problem()->sink_logits ? " (and dsinks)" : "", norm, slope);
    conclude(&r, &run);
}

// The outputs of two runs, to the bit.
static void judge_same(report *r, const worker_run *first, const worker_run *second)
{
    for (int k = 0; k < first->count; k++)
        for (size_t i = 0; i < first->tensors[k].count; i++) {
            const size_t size = first->tensors[k].bytes / first->tensors[k].count;
            if (memcmp(worker_tensor(first, k) + i * size, worker_tensor(second, k) + i * size, size) == 0) continue;
            say(r, "two runs of the same case differ: ");
            say_place(r, first, &first->tensors[k], i);
            say(r, " is %.9g, then %.9g: look for a race, uninitialised memory, or state from an earlier call",
                element(&first->tensors[k], worker_tensor(first, k), i),
                element(&first->tensors[k], worker_tensor(second, k), i));
            if (second->c.order) say(r, ". In the second run threads, warps and blocks ran in another order");
            return;
        }
}

// What a function keeps of a call (a result, a map of a tensor, a choice by the first shape) must not be the next's:
// other numbers come where the case's own lay, fewer rows and another head dimension, and a call that is refused.
static void check_again(wb_case c)
{
    c.place = 1;
    wb_case numbers = c, shape = c;
    numbers.input = WB_LATE_MAX;
    if (problem()->signature == WB_ROW_SUM)
        shape.rows = shape.cols = 5;
    else
        shape.shape.q_len = shape.shape.kv_len = 5;
    shape.q_tile = c.q_tile ? 192 - c.q_tile : 0;
    if (problem()->head_dims[0])
        shape.shape.head_dim = problem()->head_dims[c.shape.head_dim == problem()->head_dims[0]];
    wb_case refused = shape;
    strcpy(refused.null, problem()->signature == WB_ROW_SUM ? "y" : wb_is_backward(problem()) ? "dQ" : "O");
    run_and_end(c, WORKER_SHARED, NULL);
    run_and_end(numbers, WORKER_SHARED, NULL);
    run_and_end(shape, WORKER_SHARED, NULL);
    run_unjudged(refused);
}

void check_same_twice(wb_case c)
{
    enum { SHUFFLED = 2, BACKWARD = 1 };
    report r = {.used = 0};
    worker_run second;
    c = complete(c);
    may_not_wait = true;
    // Large terms that cancel: a sum in another order then shows even in bfloat16.
    if (wb_is_backward(problem()) && c.input == WB_NORMAL) c.input = WB_TOWER;
    worker_run first = right(&c);
    if (on_cpu_backend() && is_first()) check_again(c);
    const bool cpu = on_cpu_backend();
    const int orders[] = {0, SHUFFLED + (int)(c.seed % 1000000), BACKWARD}, times = cpu && !problem()->on_host ? 3 : 2;
    for (int n = 0; n < times && !r.used; n++) {
        c.order = cpu && !problem()->on_host ? orders[n] : 0;
        expect_start(&second, problem(), &c, n == 0 ? WORKER_SHARED : WORKER_ALONE);
        if (judge_ending(&r, &second)) judge_same(&r, &first, &second);
        if (r.used) say_case(&r, &second);
        worker_end(&second);
    }
    conclude(&r, &first);
}

void check_stream(wb_case c)
{
    set_device();
    c.late = 1;
    may_not_wait = true;
    check_case(c);
    c.late = 2;
    if (on_cpu_backend()) check_case(c);
}

// ------------------------ rings

// Of a rank: query-key pairs that its rows see, in all heads.
static double pairs_of(const wb_case *c, int rank)
{
    double pairs = 0;
    for (int half = 0; half < 2; half++) {
        const int chunk = wb_chunk_of(c, rank, half);
        const double rows = wb_chunk_rows(c, chunk), before = wb_chunk_begin(c, chunk);
        pairs += c->shape.causal ? rows * before + rows * (rows + 1) / 2 : rows * c->shape.kv_len;
    }
    return pairs * c->shape.batch * c->shape.q_heads;
}

// None sends more than has to pass by it, as the ring turns, to the next rank or to the one before; nor works on pairs
// of chunks that it need not look at. Seen on the cpu backend.
static bool judge_sent(report *r, const worker_run *run)
{
    const wb_case *c = &run->c;
    const bool back = wb_is_backward(run->problem);
    const int calls = c->late == 2 ? 2 : 1;
    // Bytes of a position of K and V; and of their gradients, which go all the way round, in float32.
    const double row = calls * 2.0 * c->shape.batch * c->shape.kv_heads * c->shape.head_dim * 2;
    const double gradients = back && c->ranks > 1 ? 2 * row * c->shape.q_len : 0;
    double may[2][WB_MOST_RANKS];
    bool within[2] = {true, true};
    if (!wb_has_ranks(run->problem) || !on_cpu_backend()) return true;
    for (int n = 0; n < 2 * c->ranks; n++) {
        const int rank = n / 2, to = (rank + (n % 2 ? c->ranks - 1 : 1)) % c->ranks;
        may[n % 2][rank] = row * (c->shape.q_len - wb_rank_rows(c, to)) + gradients;
        within[n % 2] &= (double)worker_exchange(&run->parts[rank])->asked.sent <= may[n % 2][rank];
    }
    for (int rank = 0; rank < c->ranks && !r->used; rank++) {
        const wb_exchange *x = worker_exchange(&run->parts[rank]);
        if (!within[0] && !within[1] && (double)x->asked.sent > may[0][rank])
            say(r, "rank %d sent %.1f KiB, but needs to send only %.1f KiB: K and V of every rank but the next one%s",
                rank, (double)x->asked.sent / 1024, may[0][rank] / 1024, back ? ", and all gradients of K and V" : "");
        else if ((double)x->attended > calls * pairs_of(c, rank))
            say(r,
                "rank %d computed %.4g (query, key) pairs with %s, but its queries see only %.4g: if causal, a chunk "
                "needs all keys of earlier chunks, its own under the mask, and none of later ones",
                rank, (double)x->attended, back ? "wb_attention_backward" : "wb_attention", pairs_of(c, rank));
    }
    return !r->used;
}

// What comes next is under way while what is there is worked on. Seen on the cpu backend.
static void judge_overlap(report *r, const worker_run *run)
{
    const wb_case *c = &run->c;
    const bool back = wb_is_backward(run->problem);
    for (int rank = 0; rank < c->ranks && on_cpu_backend() && !r->used; rank++) {
        const wb_exchange *x = worker_exchange(&run->parts[rank]);
        const unsigned bare = x->asked.messages - x->asked.hidden;
        if (c->ranks > 2 && 2 * x->asked.under_messages < x->asked.kernels)
            say(r,
                "on rank %d, only %u of %u kernels could run while a message was in flight, but more than half of them "
                "should: send the next message on another stream before the kernels of this step are queued",
                rank, x->asked.under_messages, x->asked.kernels);
        else if (bare && (c->ranks > 2 || back))
            say(r, "on rank %d, %u of %u messages cannot overlap with any product. Message %u %s", rank, bare,
                x->asked.messages, x->asked.bare,
                x->asked.bare_waited ? "must arrive before the products that are queued after it: could the wait for "
                                       "the message come after these products?"
                : back && x->asked.bare == x->asked.messages
                    ? "returns gradients to their owner, but no product is queued after it: keep some of the rank's "
                      "own work for this step"
                    : "waits for the products before it, but no product is queued between it and the next message");
    }
}

// A workspace does not grow with keys, sequences or ranks, but for what lies rounded.
static void judge_workspace(report *r, const worker_run *run)
{
    enum { MOST = 32 << 20 };
    const uint64_t bytes = worker_exchange(run)->workspace_bytes, least = worker_exchange(run)->workspace_least;
    if (bytes <= (run->c.ranks ? least + least / 20 : least < MOST ? least : MOST)) return;
    say(r, "the workspace has %llu bytes, but needs only ", (unsigned long long)bytes);
    if (run->c.ranks)
        say(r, "%llu with two ranks and equal shards: it must not grow with ranks. Is all of K or V gathered?",
            (unsigned long long)least);
    else
        say(r, "%llu for one sequence of one page: it must not grow with sequences or pages, nor exceed %d bytes",
            (unsigned long long)least, MOST);
}

// ------------------------ random cases

// A grid may have 65535 blocks in y and in z: tiles, heads or sequences may be more. On the CPU layer no block runs.
static void check_grids(void)
{
    static const char *const many[] = {"Hq=33000,Hkv=1,Nq=130,Nk=1,D=1,W=1,q_tile=64,dry=1",
                                       "B=33000,Nq=130,Nk=1,D=1,W=1,q_tile=64,dry=1",
                                       "B=3,Hq=33000,Hkv=1,Nq=1,D=1,W=1,q_tile=64,dry=1"};
    const wb_signature takes = problem()->signature;
    if (!on_cpu_backend() || takes == WB_ROW_SUM || problem()->on_host || wb_has_ranks(problem())) return;
    for (int k = takes == WB_DECODE ? 2 : 0; k < 3; k++) {
        wb_case c;
        cr_assert_eq(wb_case_fit(problem(), many[k], &c), WB_OK);
        check_case(c);
    }
}

void check_random(void)
{
    // What the CPU layer multiplies in a few hundredths of a second; warpgroups take longer, and a backward.
    const double most = (1 << 25) / (harness_capability ? 8.0 : wb_is_backward(problem()) ? 3 : 1);
    const int seeds = run_seed() == 1 ? 1 : 2;  // everybody's cases, and those of this run's seed
    set_device();
    drawn = true;
    for (int n = 0; n < seeds * WB_RANDOM_CASES; n++) {
        const wb_case c = wb_random_case(problem(), n < WB_RANDOM_CASES ? 1 : run_seed(), n % WB_RANDOM_CASES, most);
        if (!c.ranks || may_have_ranks(c.ranks)) check_case(c);
    }
    drawn = false;
    check_grids();
}

void check_rejected(wb_case c, wb_status status, const char *word)
{
    if (c.seed == 0) c.seed = 1;
    run_and_end(c, WORKER_SHARED, &(refusal){status, word});
}

memory_use measure_memory(wb_case c)
{
    worker_run run;
    c = complete(c);
    run_judged(&run, &c, WORKER_ALONE, NULL);
    const memory_use use = {worker_exchange(&run)->device_bytes, worker_exchange(&run)->host_bytes,
                            worker_exchange(&run)->workspace_bytes};
    worker_end(&run);
    return use;
}

// What a worker on the cpu backend may have resident at most, by the kernel's count: the exchange, the tensors on the
// device, and the program, 5 to 10 MiB of it with libraries; for problem 01 with BLAS and the stacks of its threads.
// What the worker says of itself is exact, but in the hands of the function's process.
static size_t all_resident(const worker_run *run)
{
    const size_t MiB = (size_t)1 << 20, stacks = (size_t)sysconf(_SC_NPROCESSORS_ONLN) * 3 / 2 * MiB;
    const size_t workspace = worker_exchange(run)->workspace_bytes;  // no more than any may have
    size_t shared = 0;  // with the worker; it has them with their guards, too, but on the host
    for (int k = 0; k < run->count; k++) shared += run->tensors[k].bytes;
    // What a rank sends and receives is on its way in memory of the host, and the layer keeps what each kernel has
    // touched.
    const bool back = wb_is_backward(run->problem);
    const size_t K = back ? 5 : 3, times = back ? 18 : 6, kept = back ? 16 * MiB : 8 * MiB;
    const size_t travels = wb_has_ranks(run->problem) ? times * run->tensors[K].bytes * (size_t)run->c.ranks + kept : 0;
    return run->problem->on_host
               ? run->bytes + 20 * MiB + stacks
               : shared + run->bytes + 14 * MiB + travels + (workspace < 32 * MiB ? workspace : 32 * MiB);
}

void check_memory(wb_case c, size_t device_bytes, size_t host_bytes)
{
    report r = {.used = 0};
    worker_run run;
    struct stat program;
    // The driver keeps the kernels' code in host memory: that it should read before the call, or else during it.
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    if (!on_cpu_backend() && stat(worker_path(), &program) == 0) host_bytes += (size_t)program.st_size;
    c = complete(c);
    may_not_wait = true;
    if (on_cpu_backend() && !problem()->on_host)
        c.order = 1;  // on one host thread, so that what is counted is no stack
    // The worker's peak begins with what this process has: session.h.
    malloc_trim(0);
    run_judged(&run, &c, WORKER_ALONE, NULL);
    const wb_exchange *x = worker_exchange(&run);
    if (x->device_kept > 0)
        say(&r, "the function keeps %.1f KiB of device memory after its work is done: each call may take more",
            (double)x->device_kept / 1024);
    else if (x->device_bytes > device_bytes)
        say(&r, "%.1f KiB of device memory beyond the tensors, the limit is %.1f: is a matrix of scores stored?",
            (double)x->device_bytes / 1024, (double)device_bytes / 1024);
    else if (x->host_bytes > host_bytes)
        say(&r, "%.1f MiB of host memory beyond the tensors, the limit is %.1f: is a matrix of scores stored?",
            (double)x->host_bytes / 1048576, (double)host_bytes / 1048576);
    for (int rank = 0; rank < worker_count(&run) && !r.used && on_cpu_backend(); rank++) {
        const worker_run *part = worker_part(&run, rank);
        if (part->peak <= all_resident(part)) continue;
        say_rank(&r, &run, rank);
        say(&r, "the peak resident memory is %.1f MiB, but the limit is %.1f: is a matrix of scores stored?",
            (double)part->peak / 1048576, (double)all_resident(part) / 1048576);
    }
    if (!r.used && (run.c.page || run.c.ranks > 1)) judge_workspace(&r, &run);
    conclude(&r, &run);
}

// ------------------------ skipped tiles

// One block of NaN; returns how many queries or keys are far enough from it to be judged. If none are, it runs nothing.
static size_t skips_once(const wb_case *c, int count, void (*excuse)(const worker_run *, bool *))
{
    worker_run run = {.problem = problem(), .c = *c};
    size_t judged = 0;
    bool *excused = malloc((size_t)count);
    if (!excused) abort();
    excuse(&run, excused);
    for (int i = 0; i < count; i++) judged += !excused[i];
    free(excused);
    if (judged == 0) return 0;
    run_and_end(*c, kind_for(c), NULL);
    return judged;
}

bool has_skips(wb_case c, int block)
{
    const bool back = wb_is_backward(problem());
    size_t queries = 0, keys = 0;
    c = complete(c);
    const int Nq = c.shape.q_len, Nk = c.shape.kv_len;
    for (c.nan_from = 0; c.nan_from < Nk; c.nan_from += block) {
        const int count = block < Nk - c.nan_from ? block : Nk - c.nan_from;
        c.nan_keys = count, c.nan_queries = 0;
        queries += skips_once(&c, Nq, expect_excused);
        c.nan_keys = 0, c.nan_queries = count;
        if (back) keys += skips_once(&c, Nk, expect_excused_keys);
    }
    return queries > 0 && (keys > 0 || !back);
}

void check_skips(wb_case c, int block)
{
    cr_assert(has_skips(c, block), "harness: check_skips: the case is too short: every query and key is so close to a "
                                   "block of NaN that it may depend on it");
}

// Ends a test that asks for what the execution layer alone sees, on a GPU.
static void need_cpu_backend(const char *what)
{
    if (on_cpu_backend()) return;
    harness_end();
    cr_skip_test("a GPU cannot measure %s: use BACKEND=cpu", what);
}

static wb_case with_heads(wb_case c)
{
    c.shape.batch = 2, c.shape.q_heads = 4, c.shape.kv_heads = problem()->grouped ? 2 : 4;
    return c;
}

void check_reads(wb_case c)
{
    need_cpu_backend("which block reads which keys");
    c.watched = 1;
    check_case(c);
    if (!is_first()) return;
    c = with_heads(c);
    c.shape.q_len = (c.shape.q_len + 1) / 2, c.shape.kv_len = (c.shape.kv_len + 1) / 2;
    check_case(c);
}

void check_triangle(wb_case c)
{
    enum { ROWS = 64, KEYS = 128 };
    need_cpu_backend("the number of multiplications");
    report r = {.used = 0};
    worker_run run = right(&c);
    const wb_asked asked = worker_exchange(&run)->asked;
    if ((double)asked.products > products_of(&c, ROWS, KEYS))
        say(&r,
            "the kernel did %.4g multiplications, but %.4g suffice if groups of %d rows skip tiles of %d hidden keys",
            (double)asked.products, products_of(&c, ROWS, KEYS), ROWS, KEYS);
    else if (asked.of_last > 2 * asked.of_first)
        say(&r, "the last block multiplies %.1f times as much as the first: start with the rows that see most keys",
            (double)asked.of_last / (double)asked.of_first);
    conclude(&r, &run);
}

void check_fetches(wb_case c)
{
    need_cpu_backend("bank conflicts");
    report r = {.used = 0};
    worker_run run = right(&c);
    const wb_asked asked = worker_exchange(&run)->asked;
    if (!asked.fetches)
        say(&r, "no fragment was fetched by ldmatrix_x4 or ldmatrix_x4_trans");
    else if (asked.passes > asked.fetches)
        say(&r,
            "ldmatrix fetched eight rows %llu times and needed %llu passes: bank conflicts. The worst, %d passes for "
            "eight rows, at line %d: the rows of lanes %d and %d lie in the same four banks",
            (unsigned long long)asked.fetches, (unsigned long long)asked.passes, asked.worst, asked.worst_line,
            asked.worst_lanes[0], asked.worst_lanes[1]);
    conclude(&r, &run);
}

uint64_t multiplied_in(wb_case c)
{
    worker_run run = right(&c);
    const uint64_t multiplied = worker_exchange(&run)->asked.multiplied;
    worker_end(&run);
    return multiplied;
}

void check_ranks(wb_case c)
{
    report r = {.used = 0};
    if (is_first()) {
        wb_case more = with_heads(c);
        check_ranks(more);
        more.ranks = 3;
        if (may_have_ranks(3)) check_ranks(more);
    }
    c.overlapped = 1;  // so that it is asked again of the case that is printed
    may_not_wait = true;
    worker_run run = right(&c);
    if (judge_sent(&r, &run)) judge_overlap(&r, &run);
    conclude(&r, &run);
}

// On a GPU each rank has one of its own, and NCCL.
bool may_have_ranks(int ranks)
{
    static bool said;
    if (on_cpu_backend() || ranks == 1) return true;
    const char *path = getenv("WB_NCCL");
    int count, capability;
    gpus(&count, &capability);
    const bool nccl = dlopen(path ? path : "libnccl.so.2", RTLD_LAZY), may = nccl && ranks <= count;
    if (!may && !said && (said = true))
        fprintf(stderr,
                nccl ? "tests with %d or more ranks were not run: each rank needs a GPU, but this machine has %d\n"
                     : "tests with %d or more ranks were not run: NCCL (libnccl.so.2) was not found\n",
                ranks, count);
    return may;
}

void check_beyond_int(wb_case c)
{
    if (on_cpu_backend() || !getenv("LARGE")) return;  // it takes most of a minute, and on the CPU layer many
    c = complete(c);
    wb_tensor tensors[WB_MAX_TENSORS];
    double wanted = 0;  // of host memory: two copies, inputs as floats, what each output should be and how exactly
    for (int k = wb_case_tensors(problem(), &c, tensors) - 1; k >= 0; k--)
        wanted += 3.0 * (double)tensors[k].bytes + (tensors[k].output ? 16 : 4) * (double)tensors[k].count;
    const double there = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (wanted > 0.9 * there) {
        fprintf(stderr, "the test of 2^31 elements was not run: it needs %.0f GB of memory, but only %.0f are free\n",
                wanted / 1e9, there / 1e9);
        return;
    }
    setenv("WB_TIMEOUT", "300", 1);
    expect_budget = 1e8;
    check_case_alone(c);
}

void check_overlap(wb_case c)
{
    need_cpu_backend("which products overlap the softmax");
    c.overlapped = 1;
    check_case(c);
    c.shape.q_len = 64;
    if (is_first()) check_case(with_heads(c));
}

// ------------------------ one case

void check_given_case(void)
{
    wb_case c, small[16];
    if (!given_case()) return;
    if (strcmp(given_case(), "small") == 0) {
        session_exact = true;
        const int count = wb_small_cases(problem(), small, 16);
        for (int i = 0; i < count; i++) small[i].seed = run_seed(), check_case_alone(small[i]);
        return;
    }
    report r = {.used = 0};
    worker_kind kind = WORKER_ALONE;
    // A mistake in what was typed is no failure of the function.
    char *const all = strdup(given_case()), *text = all;
    for (char *end; text; text = end) {
        end = strchr(text, BEHIND);
        if (end) *end++ = 0;
        if (wb_case_parse(problem(), text, &c) != WB_OK) cr_skip_test("CASE: %s", wb_last_message());
        if (!strstr(text, "seed=")) c.seed = run_seed();
        if (end) kind = WORKER_SHARED, run_unjudged(c);
    }
    free(all);
    if (c.ranks && !may_have_ranks(c.ranks)) cr_skip_test("this machine cannot run %d ranks", c.ranks);
    worker_run run;
    if (!wb_case_is_valid(problem(), &c)) {
        char why[256];
        snprintf(why, sizeof why, "%s", wb_last_message());
        expect_start(&run, problem(), &c, WORKER_ALONE);
        const bool unsupported = worker_exchange(&run)->status == WB_UNSUPPORTED;
        if (judge(&r, &run, &(refusal){unsupported ? WB_UNSUPPORTED : WB_BAD_ARGUMENT, ""})) {
            worker_end(&run);
            cr_skip_test("CASE: this case is invalid, and the function refuses it as it should: %s", why);
        }
    } else if (c.ranks && c.overlapped) {
        check_ranks(c);
        return;
    } else {
        run_judged(&run, &c, kind, NULL);
    }
    conclude(&r, &run);
}

// With CASE only given_case runs, without it everything else.
ReportHook(PRE_ALL)(struct criterion_test_set *set)
{
    worker_count_together();
    if (on_cpu_backend()) session_keep(getenv("WB_WORKER"));  // a context of CUDA is of one process
    FOREACH_SET(struct criterion_suite_set * suite, set->suites)
    {
        FOREACH_SET(struct criterion_test * test, suite->tests)
        {
            const bool is_given = strcmp(test->name, "given_case") == 0;
            if (is_given != (given_case() != NULL)) test->data->disabled = true;
        }
    }
}
