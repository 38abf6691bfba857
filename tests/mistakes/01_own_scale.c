// mistake: uses 1 / sqrt(D) instead of the scale that it is given
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
static inline float max_float(float a, float b) { return a > b ? a : b; }

// The largest of n numbers: sixteen running maxima side by side, then halved four times.
static inline float row_max(const float *row, int n)
{
    float max[16];
    for (int k = 0; k < 16; k++) max[k] = -INFINITY;
    int j = 0;
    for (; j + 16 <= n; j += 16)
#pragma omp simd
        for (int k = 0; k < 16; k++) max[k] = max_float(max[k], row[j + k]);
    for (; j < n; j++) max[0] = max_float(max[0], row[j]);
    for (int half = 8; half > 0; half /= 2)
        for (int k = 0; k < half; k++) max[k] = max_float(max[k], max[k + half]);
    return max[0];
}

// --------------------------------------------------------------- two passes: log-sum-exp of each row first, then its weights times V

static void query_tile(float *O, float *L, const float *Q, const float *K, const float *V, int i0,
                       const attention_shape *shape)
{
    const int D = shape->head_dim, rows = min_int(BR, shape->q_len - i0);
    const float scale = 1.0f / sqrtf((float)D);
    const int end = shape->causal ? i0 + rows : shape->kv_len;
    _Alignas(64) float S[BR * BC];
    float m[BR], l[BR];
    for (int i = 0; i < rows; i++) m[i] = -INFINITY, l[i] = 0;
    for (size_t x = 0; x < (size_t)rows * D; x++) O[x] = 0;

    for (int pass = 1; pass <= 2; pass++) {
        for (int j0 = 0; j0 < end; j0 += BC) {
            const int cols = min_int(BC, end - j0);
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, D, scale, Q, D, K + (size_t)j0 * D, D, 0,
                        S, BC);
            for (int i = 0; i < rows; i++) {
                float *s = S + i * BC;
                const int seen = shape->causal ? min_int(cols, i0 + i - j0 + 1) : cols;
                if (pass == 1) {
                    if (seen <= 0) continue;
                    const float old = m[i];
                    m[i] = fmaxf(old, row_max(s, seen));
                    l[i] *= expf(old - m[i]);
                    for (int j = 0; j < seen; j++) l[i] += expf(s[j] - m[i]);
                } else {
                    for (int j = 0; j < cols; j++) s[j] = j < seen ? expf(s[j] - m[i]) / l[i] : 0;
                }
            }
            if (pass == 2)
                cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, D, cols, 1, S, BC, V + (size_t)j0 * D, D,
                            1, O, D);
        }
    }
    for (int i = 0; i < rows; i++) L[i] = m[i] + logf(l[i]);
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
