// by_hand.c - what a worker does itself where no test started it: O and L of a backward, ranks, and what came out.
#include "worker/run.h"

#include "rank.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *data_of(const wb_run *run, int k) { return zone_data(run->shared, &run->zones[k]); }

// One row of an output, eight numbers a line. Zeros at its end, as those that pad a worked example, are not printed.
static void print_row(const char *name, const float *row, size_t width, bool all)
{
    enum { IN_A_LINE = 8 };
    size_t end = width;
    while (end > 1 && row[end - 1] == 0) end--;
    if (end + 2 > width) end = width;  // there are hardly any
    for (size_t i = 0; i < end && (all || i < IN_A_LINE); i++) {
        if (i % IN_A_LINE == 0) printf("%s  %-12s", i ? "\n" : "", i ? "" : name);
        printf(" %10.6f", row[i]);
    }
    printf("%s\n", all && end < width ? "  then 0" : !all && width > IN_A_LINE ? " ..." : "");
}

// For a run by hand: each output by its rows, all of a small one, as a lesson's tables have them.
static void print_outputs(const wb_run *run)
{
    enum { SMALL = 768, FIRST_ROWS = 4 };
    for (int k = 0; k < run->count; k++) {
        const wb_tensor *t = &run->tensors[k];
        const size_t width = t->dim[3], rows = t->count / width;
        const bool all = t->count <= SMALL;
        // y and dsinks are vectors; L and delta have a number a row of Q, and one dimension less.
        const bool vector = strcmp(t->name, "y") == 0 || strcmp(t->name, "dsinks") == 0;
        const int first = vector ? 3 : strcmp(t->name, "L") == 0 || strcmp(t->name, "delta") == 0;
        const char *data = data_of(run, k);
        float *row = t->output ? malloc(width * sizeof *row) : NULL;
        size_t bad = 0;
        double sum = 0;
        if (!row) continue;
        for (size_t r = 0; r < rows; r++) {
            for (size_t i = 0; i < width; i++) {
                row[i] = (float)wb_get(t->type, data, r * width + i);
                if (isfinite(row[i]))
                    sum += fabsf(row[i]);
                else
                    bad++;
            }
            char name[64];
            int n = snprintf(name, sizeof name, "%s", t->name);
            for (int i = first; i < 3; i++)
                n += snprintf(name + n, sizeof name - (size_t)n, "[%zu]",
                              r / (i < 1 ? t->dim[1] : 1) / (i < 2 ? t->dim[2] : 1) % t->dim[i]);
            if (all || r < FIRST_ROWS) print_row(name, row, width, all);
        }
        printf("  %-12s mean |.| %.6f, NaN or infinite %zu of %zu%s\n", t->name, sum / (double)t->count, bad, t->count,
               all                 ? ""
               : rows > FIRST_ROWS ? ", the first rows above"
                                   : ", the first columns above");
        free(row);
    }
}

// O and L of a backward, computed from Q, K and V. A test brings those of its oracle instead.
static void fill_forward(const wb_run *run)
{
    const wb_problem *const problem = run->problem;
    const attention_shape *s = &run->c.shape;
    const wb_tensor *tensors = run->tensors;
    const size_t D = (size_t)s->head_dim, N = (size_t)s->q_len;
    const int Q = wb_tensor_named(tensors, run->count, "Q"), K = Q + 1, V = Q + 2;
    const int O = wb_tensor_named(tensors, run->count, "O"), L = O + 1;
    const int sinks = wb_tensor_named(tensors, run->count, "sink_logits");
    char *at[WB_MAX_TENSORS];
    for (int k = 0; k < run->count; k++) at[k] = data_of(run, k);
    if (s->batch < 1 || s->kv_heads < 1 || s->q_heads % s->kv_heads || s->kv_len != s->q_len || D > WB_MAX_HEAD_DIM)
        return;
    for (size_t row = 0; row < tensors[L].count; row++) {
        const size_t i = row % N, kv_row = row / N / (size_t)(s->q_heads / s->kv_heads) * N;
        const double sink =
            sinks < 0 ? -INFINITY : wb_get(tensors[sinks].type, at[sinks], row / N % (size_t)s->q_heads);
        double o[WB_MAX_HEAD_DIM] = {0}, sum = sink > -INFINITY, m = sink;
        for (size_t j = 0; j < (s->causal ? i + 1 : N); j++) {
            const bool in_window = !problem->window || i - j < (size_t)s->window;
            if (!in_window && !(problem->sinks && (int)j < s->sinks)) continue;
            double S = 0;
            for (size_t d = 0; d < D; d++)
                S += wb_get(tensors[Q].type, at[Q], row * D + d) * wb_get(tensors[K].type, at[K], (kv_row + j) * D + d);
            const double m_new = fmax(m, s->scale * S), alpha = exp(m - m_new), P = exp(s->scale * S - m_new);
            m = m_new, sum = alpha * sum + P;
            for (size_t d = 0; d < D; d++)
                o[d] = alpha * o[d] + P * wb_get(tensors[V].type, at[V], (kv_row + j) * D + d);
        }
        for (size_t d = 0; d < D; d++) ((uint16_t *)at[O])[row * D + d] = wb_to_bf16((float)(o[d] / sum));
        ((float *)at[L])[row] = (float)(m + log(sum));
    }
}

void by_hand_fill(const wb_run *run)
{
    memset(run->shared, WB_NAN_BYTE, run->shared_bytes);
    memset(run->shared, 0, sizeof(wb_exchange));
    for (int k = 0; k < run->count; k++)
        if (!run->tensors[k].output) wb_case_fill(run->problem, &run->c, &run->tensors[k], data_of(run, k));
    if (wb_is_backward(run->problem)) fill_forward(run);
}

void by_hand_print(const wb_run *run, int told)
{
    const wb_exchange *x = (const wb_exchange *)run->shared;
    char text[WB_CASE_TEXT];
    wb_case_print(run->problem, &run->c, text);
    printf("%s on %s\n%s\n", run->problem->name, run->problem->on_host ? "this CPU" : wb_device_name(), text);
    printf("returned: %s%s%s\n", wb_status_text(x->status), x->status == WB_OK ? "" : ": ", x->message);
    if (x->device_status != WB_OK) printf("device: %s\n", x->device_message);
    if (x->status == WB_OK && x->device_status == WB_OK) print_outputs(run);
    if (told >= 0 && x->status != WB_OK) dprintf(told, "%s\t%s", wb_status_text(x->status), x->message);
    if (told >= 0) return;
    printf("memory beyond the tensors: device %.1f KiB, host %.1f KiB\n", (double)x->device_bytes / 1024,
           (double)x->host_bytes / 1024);
    if (x->asked.fetches)
        printf("ldmatrix: %llu fetches of eight rows, %llu passes over the banks\n",
               (unsigned long long)x->asked.fetches, (unsigned long long)x->asked.passes);
    if (x->device_kept) printf("of which device memory not freed: %.1f KiB\n", (double)x->device_kept / 1024);
}

// ------------------------ ranks

typedef struct rank_process {
    pid_t pid;  // 0: it has ended
    wb_run part;
} rank_process;

// Inputs of the whole to a rank, or its outputs home.
static void copy_part(const wb_run *part, const wb_run *whole, bool outputs)
{
    for (int k = 0; k < whole->count; k++)
        if (whole->tensors[k].output == outputs)
            wb_shard_copy(&whole->c, &whole->tensors[k], data_of(whole, k), part->c.part - 1, data_of(part, k),
                          outputs);
}

static int begin_rank(rank_process *rank, const wb_run *whole, int part, int board)
{
    wb_case c = whole->c;
    c.part = part;
    if (!lay_out(&rank->part, whole->problem, &c, whole->exact, -1)) return 3;
    memset(rank->part.shared, WB_NAN_BYTE, rank->part.shared_bytes);
    memset(rank->part.shared, 0, sizeof(wb_exchange));
    copy_part(&rank->part, whole, false);
    fflush(NULL);
    rank->pid = fork();
    if (rank->pid < 0) return perror("fork"), 3;
    if (rank->pid > 0) return 0;
    const int ended = try_run(&rank->part, board);
    fflush(NULL);
    _exit(ended);
}

static void end_rank(const rank_process *rank, const wb_run *whole)
{
    const int r = rank->part.c.part - 1;
    wb_exchange *x = (wb_exchange *)whole->shared;
    const wb_exchange *y = (const wb_exchange *)rank->part.shared;
    const uint64_t sent = r ? x->asked.sent : 0;  // by those before
    if (rank->pid) kill(rank->pid, SIGKILL);
    if (r == 0 || (x->status == WB_OK && x->device_status == WB_OK)) *x = *y;
    x->asked.sent = sent + y->asked.sent;
    copy_part(&rank->part, whole, true);
    printf("rank %d: %d rows; %llu bytes sent, %u of %u kernels overlapped with messages\n", r,
           wb_rank_rows(&whole->c, r), (unsigned long long)y->asked.sent, y->asked.under_messages, y->asked.kernels);
    munmap(rank->part.shared, rank->part.shared_bytes);
}

int by_hand_run_ranks(const wb_run *whole)
{
    static rank_process ranks[WB_MOST_RANKS];
    const int count = whole->c.ranks;
    int status = 0;
    char name[] = "/tmp/workbook-XXXXXX";
    const int board = mkstemp(name);
    if (board < 0 || unlink(name) || ftruncate(board, (off_t)wb_board_room(whole->problem, &whole->c, whole->tensors)))
        return fprintf(stderr, "no memory to share between the ranks: %s\n", strerror(errno)), 3;
    for (int r = 0; r < count; r++)
        if ((status = begin_rank(&ranks[r], whole, r + 1, board))) return status;
    for (int left = count, ended; left && status == 0; left--) {
        const pid_t who = wait(&ended);
        int r = 0;
        while (r < count - 1 && ranks[r].pid != who) r++;
        ranks[r].pid = 0;
        status = WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
        if (status) fprintf(stderr, "rank %d ended with status %d (66: after its report)\n", r, status);
    }
    for (int r = 0; r < count; r++) end_rank(&ranks[r], whole);
    return status;
}
