// mistake: uses the exponentials of the maxima instead of those of the log-sum-exps as weights of the partial outputs
// Tiled attention on the CPU: FlashAttention-2, algorithm 1 (Dao 2023, arXiv:2307.08691), in float32.
//
// One task is one tile of 128 queries of one head. It walks over the tiles of 128 keys; of the score matrix only the tile in
// hand exists. The two products of a tile are OpenBLAS's, the softmax between them is yours.
#include "workbook.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define LOG2_E 1.44269504f
#define LN_2   0.693147181f

enum { BR = 128, BC = 128 };  // queries in a query tile, keys in a key tile

static inline int min_int(int a, int b) { return a < b ? a : b; }

// ------------------------------------------------------------------------------- each tile of keys a softmax of its own, then merge

enum { CHUNK = 96 };  // keys of a partial result

// What some of the keys say about one query: their softmax average of V, and how much they weigh together.
typedef struct partial {
    float out[128];
    float max, lse;  // natural
} partial;

static float dot(const float *a, const float *b, int D)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int d = 0; d < D; d++) sum += a[d] * b[d];
    return sum;
}

// The attention of one query to n keys, n >= 1.
static void attend_chunk(partial *p, const float *q, const float *K, const float *V, int n, int D, float scale)
{
    float s[CHUNK], sum = 0;
    p->max = -INFINITY;
    for (int j = 0; j < n; j++) {
        s[j] = scale * dot(q, K + (size_t)j * D, D);
        p->max = fmaxf(p->max, s[j]);
    }
    for (int j = 0; j < n; j++) sum += s[j] = expf(s[j] - p->max);
    memset(p->out, 0, sizeof p->out);
    for (int j = 0; j < n; j++) {
        const float weight = s[j] / sum;
        for (int d = 0; d < D; d++) p->out[d] += weight * V[(size_t)j * D + d];
    }
    p->lse = p->max + logf(sum);
}

static void merge(partial *all, const partial *more, int D)
{
    const float top = fmaxf(all->lse, more->lse);
    const float lse = top + logf(expf(all->lse - top) + expf(more->lse - top));
    const float max = fmaxf(all->max, more->max);
    const float a = expf(all->max - max), b = expf(more->max - max);
    for (int d = 0; d < D; d++) all->out[d] = (a * all->out[d] + b * more->out[d]) / (a + b);
    all->max = max;
    all->lse = lse;
}

static void query_tile(float *O, float *L, const float *Q, const float *K, const float *V, int i0,
                       const attention_shape *shape)
{
    const int D = shape->head_dim, rows = min_int(BR, shape->q_len - i0);
    for (int i = 0; i < rows; i++) {
        const int keys = shape->causal ? i0 + i + 1 : shape->kv_len;
        partial all, more;
        attend_chunk(&all, Q + (size_t)i * D, K, V, min_int(CHUNK, keys), D, shape->scale);
        for (int j0 = CHUNK; j0 < keys; j0 += CHUNK) {
            attend_chunk(&more, Q + (size_t)i * D, K + (size_t)j0 * D, V + (size_t)j0 * D, min_int(CHUNK, keys - j0), D,
                         shape->scale);
            merge(&all, &more, D);
        }
        memcpy(O + (size_t)i * D, all.out, D * sizeof *O);
        L[i] = all.lse;
    }
}

// --------------------------------------------------------------------------------------------------------- given: the threads

typedef struct job {
    float *O, *L;
    const float *Q, *K, *V;
    const attention_shape *shape;
    size_t tiles, tasks;  // query tiles of a head, of all heads
    atomic_size_t next;   // the first task that no thread has taken
} job;

// Takes one task after another until none is left.
static void *take_tasks(void *argument)
{
    job *const w = argument;
    const size_t Nq = w->shape->q_len, Nk = w->shape->kv_len, D = w->shape->head_dim;
    for (size_t task; (task = atomic_fetch_add(&w->next, 1)) < w->tasks;) {
        const size_t head = task / w->tiles;                 // b * Hq + h
        const size_t tile = w->tiles - 1 - task % w->tiles;  // the longest walk of a causal head comes first
        const size_t row = head * Nq + tile * BR, key = head * Nk;
        query_tile(w->O + row * D, w->L + row, w->Q + row * D, w->K + key * D, w->V + key * D, (int)(tile * BR),
                   w->shape);
    }
    return NULL;
}

// Starts thread number `index`, on a CPU that none before it has: left alone, Linux may leave it waiting behind the thread that
// started it, on the same CPU, for 10 ms, as long as all of the work takes.
static bool start_thread(pthread_t *thread, int index, job *w)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
#ifdef __linux__
    cpu_set_t allowed, own;
    int cpu = sched_getcpu();
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int found = 0; found < index; found += CPU_ISSET(cpu, &allowed) != 0) cpu = (cpu + 1) % CPU_SETSIZE;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    pthread_attr_setaffinity_np(&attributes, sizeof own, &own);
#endif
    const bool started = pthread_create(thread, &attributes, take_tasks, w) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;

    job w = {.O = O, .L = L, .Q = Q, .K = K, .V = V, .shape = shape};
    w.tiles = (size_t)(shape->q_len - 1) / BR + 1;
    w.tasks = w.tiles * shape->batch * shape->q_heads;

    // As many threads as OpenBLAS would use, this one included; OpenBLAS itself uses one in each. Its setting is global: do not
    // call this function from two threads at once. Plain threads, not OpenMP, whose threads would spin for a while after the
    // loop, on cores that the caller's next product needs.
    enum { MAX_THREADS = 256 };
    pthread_t threads[MAX_THREADS];
    const int blas_threads = openblas_get_num_threads(), wanted = min_int(blas_threads, MAX_THREADS);
    int started = 1;
    openblas_set_num_threads(1);
    while (started < wanted && (size_t)started < w.tasks && start_thread(&threads[started], started, &w)) started++;
    take_tasks(&w);
    while (started > 1) pthread_join(threads[--started], NULL);
    openblas_set_num_threads(blas_threads);
    return WB_OK;
}
