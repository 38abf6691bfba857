// naive_gpu.cu - attention in three steps, each over the whole of memory: S = scale Q K^T, P = softmax(S), O = P V.
//
// The two products are cuBLAS's (bf16 in, float32 accumulation, tensor cores), the softmax is one kernel with a block a
// row. The query heads that share a key head lie one after another, so they are the rows of one product and no K or V
// is repeated: Q [B, Hq, Nq, D] is read as [B * Hkv, Hq / Hkv * Nq, D].
#include "naive.h"
#include "problems.h"

#include <limits.h>
#include <math.h>

#ifndef __CUDACPU__
#include "cublas_call.h"
#endif

#ifdef __CUDACPU__
enum { THREADS = 32 };  // which wait for one another in turn
#else
enum { THREADS = 256 };
#endif
enum { WARPS = THREADS / 32 };

// A row of S has `pitch` floats, Nk rounded up: cuBLAS is at its best on rows that start at multiples of 16 bytes. Row
// r of P, in bf16, starts where row r of S starts, so it has a pitch of 2 * pitch elements.
static size_t pitch_of(int Nk) { return ((size_t)Nk + 7) / 8 * 8; }

extern "C" size_t naive_gpu_score_bytes(const attention_shape *shape)
{
    return (size_t)shape->batch * shape->q_heads * shape->q_len * pitch_of(shape->kv_len) * sizeof(float);
}

// ------------------------ softmax

struct mask {
    int causal, window, sinks;
    const unsigned char *visible;  // [masks, Nq, Nk] where a mask is data, else null
    int masks, Nq, Nk;

    __device__ void turn_to(size_t batch)  // its mask
    {
        if (visible && masks > 1) visible += batch * Nq * Nk;
    }
    __device__ bool hides(int i, int j) const
    {
        if (visible) return !visible[(size_t)i * Nk + j];
        if (!causal) return false;
        return j > i || (window > 0 && j <= i - window && j >= sinks);
    }
};

// The largest or the sum of one value a thread, for every thread of the block.
template <bool MAX> __device__ float over_block(float value, float *of_warp_smem)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = MAX ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) of_warp_smem[threadIdx.x / 32] = value;
    __syncthreads();  // all warps have written
    value = of_warp_smem[0];
    for (int warp = 1; warp < WARPS; warp++)
        value = MAX ? fmaxf(value, of_warp_smem[warp]) : value + of_warp_smem[warp];
    __syncthreads();  // all threads have read: the array may be written again
    return value;
}

// Block r turns row r of S into row r of P, in its place, and writes L[r]. sink_logits may be null: none.
__global__ void __launch_bounds__(THREADS) naive_softmax_kernel(float *S,                  // [rows, pitch]
                                                                float *L,                  // [rows]
                                                                const float *sink_logits,  // [Hq]
                                                                size_t pitch, int Hq, int Nq, int Nk, mask hidden)
{
    __shared__ float of_warp_smem[WARPS];
    const size_t row = blockIdx.x;
    const int i = (int)(row % Nq);
    const float sink = sink_logits ? sink_logits[row / Nq % Hq] : -INFINITY;
    hidden.turn_to(row / Nq / Hq);
    float *s = S + row * pitch;
    bf16 *p = reinterpret_cast<bf16 *>(s);

    float m = -INFINITY;
    for (int j = threadIdx.x; j < Nk; j += THREADS)
        if (!hidden.hides(i, j)) m = fmaxf(m, s[j]);
    m = fmaxf(over_block<true>(m, of_warp_smem), sink);

    float l = 0;
    for (int j = threadIdx.x; j < Nk; j += THREADS)
        if (!hidden.hides(i, j)) l += expf(s[j] - m);
    l = over_block<false>(l, of_warp_smem);
    if (sink > -INFINITY) l += expf(sink - m);

    const float inverse = l > 0 ? 1 / l : 0;
    for (int start = 0; start < Nk; start += THREADS) {
        const int j = start + threadIdx.x;
        const float weight = j < Nk && !hidden.hides(i, j) ? expf(s[j] - m) * inverse : 0;
        __syncthreads();  // the weights written now lie over scores up to this step's: all of those have been read
        if (j < Nk) p[j] = __float2bfloat16(weight);
    }
    if (threadIdx.x == 0) L[row] = m + logf(l);
}

// Block (t, b) writes out tile t of the queries of mask b: a byte a pair.
__global__ void __launch_bounds__(THREADS) naive_mask_kernel(unsigned char *visible, block_mask mask, int Nq, int Nk)
{
    const int list = blockIdx.y * (gridDim.x + 1) + blockIdx.x, row0 = blockIdx.x * mask.q_tile;
    const int rows = min(mask.q_tile, Nq - row0), pairs = mask.q_tile * mask.kv_tile;
    visible += ((size_t)blockIdx.y * Nq + row0) * Nk;
    for (size_t at = threadIdx.x; at < (size_t)rows * Nk; at += THREADS) visible[at] = 0;
    __syncthreads();  // tiles that are seen write over that
    for (int part = 0; part < 2; part++) {
        const int *tiles = part ? mask.part : mask.whole, *start = (part ? mask.part_start : mask.whole_start) + list;
        for (int n = start[0]; n < start[1]; n++)
            for (int at = threadIdx.x; at < pairs; at += THREADS) {
                const int i = at / mask.kv_tile, k = at % mask.kv_tile, j = tiles[n] * mask.kv_tile + k;
                if (i >= rows || j >= Nk) continue;
                const uint32_t *bits = mask.bits + ((size_t)n * mask.q_tile + i) * (mask.kv_tile / 32);
                visible[(size_t)i * Nk + j] = part ? bits[k / 32] >> k % 32 & 1 : 1;
            }
    }
}

// Block r of a backward turns row r of S into row r of P, row r of dP into row r of dS, each in its place, and writes
// delta[r].
__global__ void __launch_bounds__(THREADS) naive_gradient_kernel(float *S,        // [rows, pitch]
                                                                 float *dP,       // [rows, pitch]
                                                                 float *delta,    // [rows]
                                                                 const bf16 *O,   // [rows, D]
                                                                 const float *L,  // [rows]
                                                                 const bf16 *dO,  // [rows, D]
                                                                 size_t pitch, int Nq, int Nk, int D, mask hidden)
{
    __shared__ float of_warp_smem[WARPS];
    const size_t row = blockIdx.x;
    const int i = (int)(row % Nq);
    float *s = S + row * pitch, *dp = dP + row * pitch;
    bf16 *p = reinterpret_cast<bf16 *>(s), *ds = reinterpret_cast<bf16 *>(dp);

    float sum = 0;
    for (int d = threadIdx.x; d < D; d += THREADS)
        sum += __bfloat162float(O[row * D + d]) * __bfloat162float(dO[row * D + d]);
    sum = over_block<false>(sum, of_warp_smem);
    for (int start = 0; start < Nk; start += THREADS) {
        const int j = start + threadIdx.x;
        const bool visible = j < Nk && !hidden.hides(i, j);
        const float weight = visible ? expf(s[j] - L[row]) : 0, slope = visible ? weight * (dp[j] - sum) : 0;
        __syncthreads();  // what is written now lies over numbers up to this step's: all of those have been read
        if (j < Nk) {
            p[j] = __float2bfloat16(weight);
            ds[j] = __float2bfloat16(slope);
        }
    }
    if (threadIdx.x == 0) delta[row] = sum;
}

// Block h sums exp(s - L) delta over the rows of head h in all batches, and writes dsinks[h].
__global__ void __launch_bounds__(THREADS) naive_sink_gradient_kernel(float *dsinks,             // [Hq]
                                                                      const float *sink_logits,  // [Hq]
                                                                      const float *L,            // [B, Hq, Nq]
                                                                      const float *delta,        // [B, Hq, Nq]
                                                                      int B, int Hq, int Nq)
{
    __shared__ float of_warp_smem[WARPS];
    const int h = blockIdx.x;
    const float sink = sink_logits[h];
    float sum = 0;
    for (int b = 0; b < B; b++)
        for (int i = threadIdx.x; i < Nq; i += THREADS) {
            const size_t row = ((size_t)b * Hq + h) * Nq + i;
            sum += expf(sink - L[row]) * delta[row];
        }
    sum = over_block<false>(sum, of_warp_smem);
    if (threadIdx.x == 0) dsinks[h] = -sum;
}

// ------------------------ products
// For `count` matrices, M = Hq / Hkv * Nq: S [M, Nk] = scale Q [M, D] K [Nk, D]^T, then O [M, D] = scale P [M, Nk] V
// [Nk, D]; for a backward also dV [Nk, D] = scale P [M, Nk]^T dO [M, D]. That last sum is over all query heads of a
// group. The latter two are sums: C [rows, D] = scale times P, or its transpose, times B [terms, D].

#ifdef __CUDACPU__

extern "C" const char *naive_gpu_products(void) { return "plain loop"; }

__global__ void naive_scores_kernel(float *S, const bf16 *Q, const bf16 *K, size_t pitch, int M, int Nk, int D,
                                    float scale)
{
    const size_t row = blockIdx.x, matrix = row / M;
    for (int j = threadIdx.x; j < Nk; j += blockDim.x) {
        const bf16 *q = Q + row * D, *k = K + (matrix * Nk + j) * D;
        float dot = 0;
        for (int d = 0; d < D; d++) dot += __bfloat162float(q[d]) * __bfloat162float(k[d]);
        S[row * pitch + j] = scale * dot;
    }
}

// Block r: row r of C [.., D] = scale times a sum over k < count of A's element k of that row, times row k of B [count,
// D]. Of A, which is P or its transpose, elements and rows are so many numbers apart. One thread: its inner loop is the
// compiler's to spread over a vector.
__global__ void naive_sum_kernel(bf16 *C, const bf16 *A, const bf16 *B, size_t step, size_t row_step, int rows,
                                 int count, size_t matrix_step, int D, float scale)
{
    const size_t row = blockIdx.x, matrix = row / rows;
    const bf16 *a = A + matrix * matrix_step + row % rows * row_step, *b = B + matrix * count * D;
    float sum[WB_MAX_HEAD_DIM] = {0};
    for (int k = 0; k < count; k++)
        for (int d = 0; d < D; d++) sum[d] += __bfloat162float(a[k * step]) * __bfloat162float(b[(size_t)k * D + d]);
    for (int d = 0; d < D; d++) C[row * D + d] = __float2bfloat16(scale * sum[d]);
}

#else

extern "C" const char *naive_gpu_products(void) { return "cuBLAS"; }

static wb_status cublas_handle(cublasHandle_t *handle, wb_stream stream)
{
    static cublasHandle_t only;
    if (!only) WB_CUBLAS(cublasCreate(&only));
    WB_CUBLAS(cublasSetStream(only, stream));
    *handle = only;
    return WB_OK;
}

#endif

static wb_status scores(float *S, const bf16 *Q, const bf16 *K, size_t pitch, int count, int M, int Nk, int D,
                        float scale, wb_stream stream)
{
#ifdef __CUDACPU__
    naive_scores_kernel<<<(unsigned)((size_t)count * M), 64, 0, stream>>>(S, Q, K, pitch, M, Nk, D, scale);
    WB_CUDA(cudaGetLastError());
#else
    // cuBLAS counts columns first: to it our row-major [M, N] is an [N, M] matrix, so the factors change places.
    cublasHandle_t handle = nullptr;
    const wb_status status = cublas_handle(&handle, stream);
    if (status != WB_OK) return status;
    const float zero = 0;
    WB_CUBLAS(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, Nk, M, D, &scale,          //
                                         K, CUDA_R_16BF, D, (long long)Nk * D,                        //
                                         Q, CUDA_R_16BF, D, (long long)M * D, &zero,                  //
                                         S, CUDA_R_32F, (int)pitch, (long long)M * (long long)pitch,  //
                                         count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
#endif
    return WB_OK;
}

static wb_status sum(bool transposed, bf16 *C, const bf16 *P, const bf16 *B, size_t pitch, int count, int rows,
                     int terms, int D, float scale, wb_stream stream)
{
    const size_t apart = 2 * pitch, M = transposed ? terms : rows;
#ifdef __CUDACPU__
    naive_sum_kernel<<<(unsigned)((size_t)count * rows), 1, 0, stream>>>(
        C, P, B, transposed ? apart : 1, transposed ? 1 : apart, rows, terms, M * apart, D, scale);
    WB_CUDA(cudaGetLastError());
#else
    cublasHandle_t handle = nullptr;
    const wb_status status = cublas_handle(&handle, stream);
    if (status != WB_OK) return status;
    const float zero = 0;
    WB_CUBLAS(cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, D, rows, terms,
                                         &scale, B, CUDA_R_16BF, D, (long long)terms * D,            //
                                         P, CUDA_R_16BF, (int)apart, (long long)(M * apart), &zero,  //
                                         C, CUDA_R_16BF, D, (long long)rows * D,                     //
                                         count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
#endif
    return WB_OK;
}

// ------------------------ attention

static float *work_space;
static size_t work_space_bytes;

extern "C" wb_status naive_gpu_release(void)
{
    float *old = work_space;
    work_space = nullptr;
    work_space_bytes = 0;
    WB_CUDA(cudaDeviceSynchronize());
    WB_CUDA(cudaFree(old));
    return WB_OK;
}

// At least so many bytes of it.
static wb_status need_work_space(size_t bytes)
{
    if (bytes <= work_space_bytes) return WB_OK;
    const wb_status status = naive_gpu_release();
    if (status != WB_OK) return status;
    WB_CUDA(cudaMalloc(reinterpret_cast<void **>(&work_space), bytes));
    work_space_bytes = bytes;
    return WB_OK;
}

// The products of a shape: `count` of M rows, in all `rows`, each of `pitch` floats.
struct sizes {
    size_t rows, pitch;
    int M, count;
};

// Work space for so many score matrices and `more` bytes.
static wb_status prepare(sizes *x, const attention_shape *shape, int matrices, size_t more)
{
    const size_t rows = (size_t)shape->batch * shape->q_heads * shape->q_len, pitch = pitch_of(shape->kv_len);
    if (rows > INT_MAX || 2 * pitch > INT_MAX)
        return wb_fail(WB_UNSUPPORTED, "naive_gpu: %zu rows of %d keys are more than cuBLAS can count", rows,
                       shape->kv_len);
    *x = {rows, pitch, shape->q_heads / shape->kv_heads * shape->q_len, shape->batch * shape->kv_heads};
    return need_work_space(matrices * naive_gpu_score_bytes(shape) + more);
}

// sink_logits may be null: none. given: null where the shape says who is visible.
static wb_status attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
                           const block_mask *given, const attention_shape *shape, wb_stream stream)
{
    const int Nk = shape->kv_len, D = shape->head_dim;
    sizes x = {};
    wb_status status = prepare(&x, shape, 1, given ? (size_t)given->masks * shape->q_len * Nk : 0);
    if (status == WB_OK) status = scores(work_space, Q, K, x.pitch, x.count, x.M, Nk, D, shape->scale, stream);
    if (status != WB_OK) return status;
    mask hidden = {shape->causal, shape->window, shape->sinks, nullptr, 1, shape->q_len, Nk};
    if (given) {
        unsigned char *visible = reinterpret_cast<unsigned char *>(work_space) + naive_gpu_score_bytes(shape);
        const dim3 grid((shape->q_len - 1) / given->q_tile + 1, given->masks);
        naive_mask_kernel<<<grid, THREADS, 0, stream>>>(visible, *given, shape->q_len, Nk);
        WB_CUDA(cudaGetLastError());
        hidden.visible = visible, hidden.masks = given->masks;
    }
    naive_softmax_kernel<<<(unsigned)x.rows, THREADS, 0, stream>>>(work_space, L, sink_logits, x.pitch, shape->q_heads,
                                                                   shape->q_len, Nk, hidden);
    WB_CUDA(cudaGetLastError());
    const bf16 *P = reinterpret_cast<const bf16 *>(work_space);
    return sum(false, O, P, V, x.pitch, x.count, x.M, Nk, D, 1, stream);
}

extern "C" wb_status naive_gpu_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const attention_shape *shape, wb_stream stream)
{
    return attention(O, L, Q, K, V, nullptr, nullptr, shape, stream);
}

extern "C" wb_status naive_gpu_sink_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                              const float *sink_logits, const attention_shape *shape, wb_stream stream)
{
    return attention(O, L, Q, K, V, sink_logits, nullptr, shape, stream);
}

// Thread by thread an element of x [heads, N, D]: what byte and exponent stand for. tile: rows that share an exponent;
// transposed: of V.
__global__ void naive_dequantise_kernel(bf16 *x, const uint8_t *q, const int8_t *exponent, size_t count, int N, int D,
                                        int tile, bool transposed)
{
    const size_t n = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= count) return;
    const size_t row = n / D, of = row / N * ((N - 1) / tile + 1) + row % N / tile;
    const int j = (int)(row % N % tile), place = j / 16 * 16 + j % 8 / 2 * 4 + j % 16 / 8 * 2 + j % 2;
    const int bits = q[transposed ? (of * D + n % D) * tile + place : n], e = bits >> 3 & 15, fraction = bits & 7;
    const float size = ldexpf((float)(e ? 8 + fraction : fraction), (e ? e : 1) - 10 + exponent[of]);
    x[n] = __float2bfloat16(bits & 128 ? -size : size);
}

extern "C" wb_status naive_gpu_fp8(bf16 *O, float *L, const uint8_t *Q, const uint8_t *K, const uint8_t *V,
                                   const int8_t *Q_exponent, const int8_t *K_exponent, const int8_t *V_exponent, int,
                                   const attention_shape *shape, wb_stream stream)
{
    const size_t D = shape->head_dim, score_bytes = naive_gpu_score_bytes(shape);
    const size_t queries = (size_t)shape->batch * shape->q_heads * shape->q_len * D;
    const size_t keys = (size_t)shape->batch * shape->kv_heads * shape->kv_len * D;
    const wb_status status = need_work_space(score_bytes + 2 * (queries + 2 * keys));
    if (status != WB_OK) return status;
    bf16 *const plain_Q = reinterpret_cast<bf16 *>(work_space) + score_bytes / 2, *const plain_K = plain_Q + queries;
    bf16 *const plain_V = plain_K + keys;
    const auto dequantise = [&](bf16 *x, const uint8_t *q, const int8_t *exponent, size_t count, int N, int tile) {
        naive_dequantise_kernel<<<(unsigned)((count - 1) / THREADS + 1), THREADS, 0, stream>>>(x, q, exponent, count, N,
                                                                                               (int)D, tile, q == V);
    };
    dequantise(plain_Q, Q, Q_exponent, queries, shape->q_len, 1);
    dequantise(plain_K, K, K_exponent, keys, shape->kv_len, 64);
    dequantise(plain_V, V, V_exponent, keys, shape->kv_len, 64);
    WB_CUDA(cudaGetLastError());
    return attention(O, L, plain_Q, plain_K, plain_V, nullptr, nullptr, shape, stream);
}

extern "C" wb_status naive_gpu_masked_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                                const block_mask *given, const attention_shape *shape, wb_stream stream)
{
    return attention(O, L, Q, K, V, nullptr, given, shape, stream);
}

extern "C" wb_status naive_gpu_attention_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q,
                                                  const bf16 *K, const bf16 *V, const bf16 *O, const float *L,
                                                  const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const int Nk = shape->kv_len, D = shape->head_dim;
    sizes x = {};
    wb_status status = prepare(&x, shape, 2, 0);
    if (status != WB_OK) return status;
    const int M = x.M, count = x.count;
    const size_t pitch = x.pitch;
    float *S = work_space, *dP = S + x.rows * pitch;
    const bf16 *P = reinterpret_cast<const bf16 *>(S), *dS = reinterpret_cast<const bf16 *>(dP);
    const mask hidden = {shape->causal, shape->window, shape->sinks, nullptr, 1, shape->q_len, Nk};

    status = scores(S, Q, K, pitch, count, M, Nk, D, shape->scale, stream);
    if (status == WB_OK) status = scores(dP, dO, V, pitch, count, M, Nk, D, 1, stream);
    if (status != WB_OK) return status;
    naive_gradient_kernel<<<(unsigned)x.rows, THREADS, 0, stream>>>(S, dP, delta, O, L, dO, pitch, shape->q_len, Nk, D,
                                                                    hidden);
    WB_CUDA(cudaGetLastError());
    status = sum(true, dV, P, dO, pitch, count, Nk, M, D, 1, stream);
    if (status == WB_OK) status = sum(true, dK, dS, Q, pitch, count, Nk, M, D, shape->scale, stream);
    if (status == WB_OK) status = sum(false, dQ, dS, K, pitch, count, M, Nk, D, shape->scale, stream);
    return status;
}

// L counts the sink, so that the gradients of Q, K and V are those of a backward without one.
extern "C" wb_status naive_gpu_sink_attention_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta,
                                                       const bf16 *Q, const bf16 *K, const bf16 *V,
                                                       const float *sink_logits, const bf16 *O, const float *L,
                                                       const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = naive_gpu_attention_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    if (status != WB_OK) return status;
    naive_sink_gradient_kernel<<<shape->q_heads, THREADS, 0, stream>>>(dsinks, sink_logits, L, delta, shape->batch,
                                                                       shape->q_heads, shape->q_len);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// ------------------------ row sum

// Thread i walks along row i: neighbouring threads read addresses a whole row apart, so hardly a load is coalesced.
__global__ void __launch_bounds__(THREADS) naive_row_sum_kernel(float *y,       // [rows]
                                                                const bf16 *x,  // [rows, cols]
                                                                const bf16 *w,  // [cols]
                                                                int rows, int cols)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (size_t)rows) return;
    float sum = 0;
    for (int j = 0; j < cols; j++) sum += __bfloat162float(x[i * cols + j]) * __bfloat162float(w[j]);
    y[i] = sum;
}

extern "C" wb_status naive_gpu_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
{
    const unsigned blocks = ((unsigned)rows + THREADS - 1) / THREADS;
    naive_row_sum_kernel<<<blocks, THREADS, 0, stream>>>(y, x, w, rows, cols);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
