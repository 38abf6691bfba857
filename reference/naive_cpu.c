// naive_cpu.c - one head after another: S = Q K^T in memory, softmax over its rows, O = P V.
#include "naive.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// e^x for x <= 0, vectorisable, relative error below 3e-7. The baseline gets as good an exponential as the reference
// solution, so that the two differ in what they keep in memory and in nothing else.
static inline float exp_fast(float x)
{
    const float shifter = 0x1.8p23f;
    const float clamped = x < -87 ? -87 : x;
    const float shifted = clamped * 1.44269504f + shifter;
    const float n = shifted - shifter;
    const float f = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two pieces
    float y = 1.3888889e-3f;
    y = 8.3333333e-3f + f * y;
    y = 4.1666667e-2f + f * y;
    y = 1.6666667e-1f + f * y;
    y = 0.5f + f * y;
    y = 1 + f * y;
    y = 1 + f * y;
    uint32_t exponent, bits;
    memcpy(&exponent, &shifted, sizeof exponent);
    memcpy(&bits, &y, sizeof bits);
    bits += exponent << 23;
    memcpy(&y, &bits, sizeof y);
    return x < -87 ? 0 : y;
}

// Softmax of the first `visible` of n scores; the others get weight 0. Returns the logsumexp.
static float softmax_row(float *row, size_t visible, size_t n)
{
    enum { LANES = 16 };
    float max[LANES];
    for (int k = 0; k < LANES; k++) max[k] = row[0];
    size_t j = 0;
    for (; j + LANES <= visible; j += LANES)
#pragma omp simd
        for (int k = 0; k < LANES; k++) max[k] = row[j + k] > max[k] ? row[j + k] : max[k];
    for (; j < visible; j++) max[0] = row[j] > max[0] ? row[j] : max[0];
    for (int k = 1; k < LANES; k++) max[0] = max[k] > max[0] ? max[k] : max[0];

    const float m = max[0];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < visible; i++) sum += row[i] = exp_fast(row[i] - m);
    const float inverse = 1 / sum;
    for (size_t i = 0; i < visible; i++) row[i] *= inverse;
    memset(row + visible, 0, (n - visible) * sizeof *row);
    return m + logf(sum);
}

typedef struct job {
    float *S, *L;  // of one head
    int rows, cols, causal;
    atomic_int next;  // the first row that nobody has taken
} job;

static void *take_rows(void *argument)
{
    enum { ROWS = 16 };
    job *const w = argument;
    for (int i0; (i0 = atomic_fetch_add(&w->next, ROWS)) < w->rows;)
        for (int i = i0; i < i0 + ROWS && i < w->rows; i++)
            w->L[i] = softmax_row(w->S + (size_t)i * w->cols, w->causal ? i + 1 : w->cols, w->cols);
    return NULL;
}

// Softmax of one head's score matrix by all threads. Plain threads, not OpenMP: those spin for a while after each loop,
// on the cores that OpenBLAS wants next, which doubles the time of the whole baseline on two cores.
static void softmax(float *S, float *L, int rows, int cols, int causal)
{
    enum { MAX_THREADS = 256 };
    pthread_t threads[MAX_THREADS];
    job w = {.S = S, .L = L, .rows = rows, .cols = cols, .causal = causal};
    int started = 0;
    while (started < openblas_get_num_threads() - 1 && started < MAX_THREADS &&
           pthread_create(&threads[started], NULL, take_rows, &w) == 0)
        started++;
    take_rows(&w);
    while (started > 0) pthread_join(threads[--started], NULL);
}

wb_status naive_cpu(float *O, float *L, const float *Q, const float *K, const float *V, const attention_shape *shape)
{
    const wb_status status = wb_check_forward("tiled_attention", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;

    const int Nq = shape->q_len, Nk = shape->kv_len, D = shape->head_dim;
    const size_t heads = (size_t)shape->batch * shape->q_heads;
    float *S = malloc((size_t)Nq * Nk * sizeof *S);
    if (!S) return wb_fail(WB_OUT_OF_MEMORY, "naive_cpu: no memory for %zu scores", (size_t)Nq * Nk);

    for (size_t head = 0; head < heads; head++) {
        const size_t q = head * Nq * D, k = head * Nk * D;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, Nq, Nk, D, shape->scale, Q + q, D, K + k, D, 0, S, Nk);
        softmax(S, L + head * Nq, Nq, Nk, shape->causal);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Nq, D, Nk, 1, S, Nk, V + k, D, 0, O + q, D);
    }
    free(S);
    return WB_OK;
}
