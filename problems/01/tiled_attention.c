// Tiled attention on the CPU: FlashAttention-2, algorithm 1 (Dao 2023, arXiv:2307.08691), in float32.
//
// One task is one tile of 128 queries of one head. It iterates over tiles of 128 keys; only one tile of the score
// matrix exists at a time. OpenBLAS computes the two products of a tile, and you write the softmax between them.
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

// ---------------------------------------------------------------- given: words for a row of a tile
// Written so that the compiler does 8 or 16 elements at once, without -ffast-math: that would assume infinity away.

// 2^x for x <= 127, with a relative error below 1.2e-7 (2^-23), and 0 for x < -126, where floats stop being normal.
// x = n + f with n an integer and |f| <= 1/2: 2^f is a polynomial, 2^n is added to its exponent.
static inline float exp2_fast(float x)
{
    const float shifter = 0x1.8p23f;  // so large that the sum has no fraction: its low bits are n
    const float shifted = x + shifter;
    const float f = x - (shifted - shifter);
    float y = 1.3406644e-3f + f * 1.5594678e-4f;
    y = 9.6176930e-3f + f * y;
    y = 5.5503105e-2f + f * y;
    y = 2.4022653e-1f + f * y;
    y = 6.9314721e-1f + f * y;
    y = 1 + f * y;
    uint32_t n, bits;
    memcpy(&n, &shifted, sizeof n);
    memcpy(&bits, &y, sizeof bits);
    bits += n << 23;
    memcpy(&y, &bits, sizeof y);
    return x < -126 ? 0 : y;  // -infinity too, whatever became of it above
}

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

// row = 2^(row - shift); returns the sum.
static inline float row_exp2(float *row, int n, float shift)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++) sum += row[j] = exp2_fast(row[j] - shift);
    return sum;
}

// row = factor * row.
static inline void row_scale(float *row, int n, float factor)
{
    for (int j = 0; j < n; j++) row[j] *= factor;
}

// ----------------------------------------------------------------------- yours: the online softmax

// Hides from query i0 + i every key j0 + j that comes after it.
static void mask_tile(
    float *S,  // [rows, BC], scores in the first cols columns
    int rows, int cols, int i0, int j0)
{
    //{ mask
    // TODO(01) mask: the score of each hidden pair becomes one that exp2 turns into 0.  (about 3 lines)
    (void)S, (void)rows, (void)cols, (void)i0, (void)j0;
    //}
}

// Takes one more tile of scores into a tile of queries: brings l and O to the new maximum, and turns S into the weights
// P = 2^(S - m). Scores and m are in base 2. The caller adds P V to O afterwards.
static void online_softmax(
    float *S,  // [rows, BC], scores in the first cols columns; P afterwards
    float *O,  // [rows, D], the sum of P V so far, not divided by l
    float *m,  // [rows], the largest score so far; -FLT_MAX before the first tile
    float *l,  // [rows], the sum of the weights so far; 0 before the first tile
    int rows, int cols, int D)
{
    float m_new[BR];       // [rows], the largest score, this tile's included
    float correction[BR];  // [rows], from the old maximum to the new one
    //{ max
    // TODO(01) max: the largest score that each query has seen, this tile's included.  (about 1 line)
    (void)S, (void)cols, (void)m_new, (void)row_max;
    //}
    //{ rescale
    // TODO(01) rescale: what was accumulated under the old maximum, now under the new one.  (about 6 lines)
    (void)O, (void)m, (void)D, (void)correction, (void)row_scale;
    //}
    //{ accumulate
    // TODO(01) accumulate: scores become weights, and l gains their sums.  (about 1 line)
    (void)l, (void)rows, (void)row_exp2;
    //}
}

// After the last tile. A row that has seen no key has O = 0 and L = -infinity.
static void finalize(
    float *O,        // [rows, D], divided by l
    float *L,        // [rows], the natural logarithm of the sum of exp(score)
    const float *m,  // [rows]
    const float *l,  // [rows]
    int rows, int D)
{
    for (int i = 0; i < rows; i++) {
        //{ finalize
        // TODO(01) finalize: O and L from what was accumulated; L is a natural logarithm.  (about 2 lines)
        (void)O, (void)L, (void)m, (void)l, (void)D;
        //}
    }
}

// One tile of queries, from query i0 on, against all keys that it sees.
static void query_tile(
    float *O,        // [rows, D], the accumulator too
    float *L,        // [rows]
    const float *Q,  // [rows, D]
    const float *K,  // [Nk, D]
    const float *V,  // [Nk, D]
    int i0, const attention_shape *shape)
{
    const int Nk = shape->kv_len, D = shape->head_dim, rows = min_int(BR, shape->q_len - i0);
    _Alignas(64) float S[BR * BC];  // 64 KiB of this thread's stack: all the memory that a task needs
    float m[BR], l[BR];
    for (int i = 0; i < rows; i++)
        m[i] = -FLT_MAX, l[i] = 0;  // not -infinity: if all keys were hidden, m - m would be NaN
    memset(O, 0, (size_t)rows * D * sizeof *O);

    int key_end = Nk;  // the first key that no query of this tile sees
    //{ bound
    // TODO(01) bound: under a causal mask this tile of queries does not see all keys.  (about 1 line)
    //}
    for (int j0 = 0; j0 < key_end; j0 += BC) {
        const int cols = min_int(BC, key_end - j0);
        const float *K_tile = K + (size_t)j0 * D, *V_tile = V + (size_t)j0 * D;
        // S = scale log2(e) Q K^T, hence exp(score) = 2^S.
        cblas_sgemm(
            CblasRowMajor, CblasNoTrans, CblasTrans, rows, cols, D, shape->scale * LOG2_E, Q, D, K_tile, D, 0, S, BC);
        if (shape->causal && j0 + cols > i0 + 1) mask_tile(S, rows, cols, i0, j0);
        online_softmax(S, O, m, l, rows, cols, D);
        // O = O + P V
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, D, cols, 1, S, BC, V_tile, D, 1, O, D);
    }
    finalize(O, L, m, l, rows, D);
}

// ------------------------------------------------------------------------------ given: the threads

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
        query_tile(
            w->O + row * D, w->L + row, w->Q + row * D, w->K + key * D, w->V + key * D, (int)(tile * BR), w->shape);
    }
    return NULL;
}

// Starts thread number `index`, on a CPU that none before it has: left alone, Linux may leave it waiting behind the
// thread that started it, on the same CPU, for 10 ms, as long as all of the work takes.
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

wb_status
tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V, const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;

    job w = {.O = O, .L = L, .Q = Q, .K = K, .V = V, .shape = shape};
    w.tiles = (size_t)(shape->q_len - 1) / BR + 1;
    w.tasks = w.tiles * shape->batch * shape->q_heads;

    // As many threads as OpenBLAS would use, this one included; OpenBLAS itself uses one in each. Its setting is
    // global: do not call this function from two threads at once. Plain threads, not OpenMP, whose threads would spin
    // for a while after the loop, on cores that the caller's next product needs.
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
