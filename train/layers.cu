// layers.cu - see layers.h. On a GPU: products by cuBLAS in bf16 with float32 sums, the rest in kernels that read and
// write memory once. On the CPU layer, where their test runs without a GPU, products are loops. All sums have a fixed
// order, so a run that is resumed gives the same bits here, too. Everything is in the default stream.
#include "layers.h"

#include <algorithm>
#include <math.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#ifndef __CUDACPU__
#include <cublas_v2.h>
#endif

enum { THREADS = 256, WARPS = THREADS / 32 };

#define MUST(call) \
    do { \
        const cudaError_t error_ = (call); \
        if (error_ != cudaSuccess) FAIL("%s:%d: %s: %s", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
    } while (0)
static void launched(void) { MUST(cudaGetLastError()); }
static unsigned blocks(size_t n, size_t each) { return (unsigned)((n + each - 1) / each); }
__device__ static size_t thread_index() { return (size_t)blockIdx.x * THREADS + threadIdx.x; }
__device__ static float warp_sum(float x)
{
    for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}
__device__ static float warp_max(float x)
{
    for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}

// EACH neighbours that a thread reads or writes at once.
template <class type, int EACH> struct alignas(EACH * sizeof(type)) pack {
    type x[EACH];
};
template <int EACH, class type> __device__ static pack<type, EACH> read(const type *x)
{
    return *reinterpret_cast<const pack<type, EACH> *>(x);
}
template <class type, int EACH> __device__ static void write(type *y, const pack<type, EACH> &x)
{
    *reinterpret_cast<pack<type, EACH> *>(y) = x;
}

// ------------------------ arrays

static size_t all_bytes;
size_t array_bytes(void) { return all_bytes; }
void *new_array(size_t bytes)
{
    void *array;
    all_bytes += bytes;
    MUST(cudaMalloc(&array, bytes ? bytes : 1));
    MUST(cudaMemset(array, 0, bytes));
    return array;
}
void to_array(void *array, const void *host, size_t bytes)
{
    MUST(cudaMemcpy(array, host, bytes, cudaMemcpyHostToDevice));
}
void answer_within(double seconds)
{
    static timer_t own;
    static bool made;
    const itimerspec end = {{0, 0}, {(time_t)ceil(seconds), 0}};
    if (!made && seconds > 0) made = timer_create(CLOCK_THREAD_CPUTIME_ID, NULL, &own) == 0;
    if (made) timer_settime(own, 0, &end, NULL);
    alarm(30 * (unsigned)ceil(seconds));
}
void from_array(void *host, const void *array, size_t bytes)
{
    MUST(cudaMemcpy(host, array, bytes, cudaMemcpyDeviceToHost));
    answer_within(0);  // all that was queued has ended, kernels of 07 and 09 too (attention_device.c)
}
void acts_to_array(act *array, const real *host, size_t n)
{
    std::vector<act> acts(n);
    for (size_t i = 0; i < n; i++) acts[i] = __float2bfloat16(host[i]);
    to_array(array, acts.data(), n * sizeof(act));
}
void acts_from_array(real *host, const act *array, size_t n)
{
    std::vector<act> acts(n);
    from_array(acts.data(), array, n * sizeof(act));
    for (size_t i = 0; i < n; i++) host[i] = __bfloat162float(acts[i]);
}
void clear(real *x, size_t n) { MUST(cudaMemsetAsync(x, 0, n * sizeof *x)); }

__global__ void narrow_kernel(act *y, const real *x, size_t n)
{
    const size_t i = thread_index();
    if (i < n) y[i] = __float2bfloat16(x[i]);
}
void narrow(act *y, const real *x, size_t n)
{
    narrow_kernel<<<blocks(n, THREADS), THREADS>>>(y, x, n);
    launched();
}

// ------------------------ embedding

__global__ void embed_kernel(real *x, const act *table, const unsigned char *text, size_t n, int width)
{
    const size_t i = thread_index();
    if (i < n * width) x[i] = __bfloat162float(table[text[i / width] * (size_t)width + i % width]);
}
void embed(real *x, const act *table, const unsigned char *text, int n, int width)
{
    embed_kernel<<<blocks((size_t)n * width, THREADS), THREADS>>>(x, table, text, n, width);
    launched();
}
// A block owns a byte and 32 columns, and adds up the rows where that byte stands: each warp a part of them, in their
// order.
__global__ void embed_backward_kernel(real *dtable, const real *dx, const unsigned char *text, int n, int width)
{
    __shared__ float of_warp_smem[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = blockIdx.y * 32 + lane, byte = blockIdx.x;
    const int rows = (n + WARPS - 1) / WARPS, last = min(n, (warp + 1) * rows);
    float sum = 0;
    for (int i = warp * rows; i < last; i += 32) {
        unsigned here = __ballot_sync(0xffffffffu, i + lane < last && text[min(i + lane, n - 1)] == byte);
        for (; here; here &= here - 1)
            if (c < width) sum += dx[(size_t)(i + __ffs(here) - 1) * width + c];
    }
    of_warp_smem[warp][lane] = sum;
    __syncthreads();  // all warps have written
    if (warp > 0 || c >= width) return;
    for (int k = 1; k < WARPS; k++) sum += of_warp_smem[k][lane];
    dtable[(size_t)byte * width + c] += sum;
}
void embed_backward(real *dtable, const real *dx, const unsigned char *text, int n, int width)
{
    embed_backward_kernel<<<dim3(256, blocks(width, 32)), THREADS>>>(dtable, dx, text, n, width);
    launched();
}

// ------------------------ products

// c [m, n] = keep * c + a b, of bf16, or of float32 where it says so. ta: a lies as [k, m]; tb: b lies as [n, k].
#ifdef __CUDACPU__
__global__ void product_kernel(bool ta, bool tb, size_t m, size_t n, size_t k, const act *a, const act *b, float keep,
                               void *c, bool floats)
{
    const size_t at = thread_index(), i = at / n, j = at % n;
    if (i >= m) return;
    float sum = 0;
    for (size_t l = 0; l < k; l++)
        sum += __bfloat162float(a[ta ? l * m + i : i * k + l]) * __bfloat162float(b[tb ? j * k + l : l * n + j]);
    if (floats)
        ((float *)c)[at] = keep == 0 ? sum : keep * ((float *)c)[at] + sum;
    else
        ((act *)c)[at] = __float2bfloat16(sum);
}
static void product(bool ta, bool tb, int m, int n, int k, const act *a, const act *b, float keep, void *c, bool floats)
{
    product_kernel<<<blocks((size_t)m * n, THREADS), THREADS>>>(ta, tb, m, n, k, a, b, keep, c, floats);
    launched();
}
#else
// For cuBLAS a matrix that lies row by row is its own transpose: it computes c^T = b^T a^T.
static void product(bool ta, bool tb, int m, int n, int k, const act *a, const act *b, float keep, void *c, bool floats)
{
    static cublasHandle_t handle;
    const float one = 1;
    cublasStatus_t status = handle ? CUBLAS_STATUS_SUCCESS : cublasCreate(&handle);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasGemmEx(handle, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b,
                              CUDA_R_16BF, tb ? k : n, a, CUDA_R_16BF, ta ? m : k, &keep, c,
                              floats ? CUDA_R_32F : CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) FAIL("cuBLAS: %s", cublasGetStatusString(status));
}
#endif
void linear(act *y, const act *x, const act *w, int n, int out, int in)
{
    product(false, true, n, out, in, x, w, 0, y, false);
}
void linear_add(real *y, const real *base, const act *x, const act *w, int n, int out, int in)
{
    if (base) MUST(cudaMemcpyAsync(y, base, (size_t)n * out * sizeof *y, cudaMemcpyDeviceToDevice));
    product(false, true, n, out, in, x, w, base ? 1 : 0, y, true);
}
void linear_backward(act *dx, real *dw, const act *dy, const act *x, const act *w, int n, int out, int in)
{
    product(false, false, n, in, out, dy, w, 0, dx, false);  // dx = dy w
    product(true, false, out, in, n, dy, x, 1, dw, true);    // dw += dy^T x
}

// ------------------------ norm

// A warp owns a row.
template <int EACH> __global__ void rmsnorm_kernel(act *y, real *r, const real *x, const real *g, int n, int width)
{
    const int row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    x += (size_t)row * width, y += (size_t)row * width;
    float sum = 0;
    for (int c = EACH * lane; c < width; c += EACH * 32) {
        const auto v = read<EACH>(x + c);
        for (int k = 0; k < EACH; k++) sum += v.x[k] * v.x[k];
    }
    const float inverse = 1 / sqrtf(warp_sum(sum) / width + 1e-5f);
    for (int c = EACH * lane; c < width; c += EACH * 32) {
        const auto v = read<EACH>(x + c), gain = read<EACH>(g + c);
        pack<act, EACH> out;
        for (int k = 0; k < EACH; k++) out.x[k] = __float2bfloat16(gain.x[k] * v.x[k] * inverse);
        write(y + c, out);
    }
    if (lane == 0) r[row] = inverse;
}
void rmsnorm(act *y, real *r, const real *x, const real *g, int n, int width)
{
    const auto kernel = width % 4 ? rmsnorm_kernel<1> : rmsnorm_kernel<4>;
    kernel<<<blocks(n, WARPS), THREADS>>>(y, r, x, g, n, width);
    launched();
}
template <int EACH> __global__ void rmsnorm_dx_kernel(real *dx, act *dx_act, const act *dy, const real *x,
                                                      const real *r, const real *g, int n, int width)
{
    const int row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    x += (size_t)row * width, dx += (size_t)row * width, dx_act += (size_t)row * width, dy += (size_t)row * width;
    float dot = 0;
    for (int c = EACH * lane; c < width; c += EACH * 32) {
        const auto v = read<EACH>(x + c), gain = read<EACH>(g + c);
        const auto d = read<EACH>(dy + c);
        for (int k = 0; k < EACH; k++) dot += __bfloat162float(d.x[k]) * gain.x[k] * v.x[k];
    }
    const float inverse = r[row], pull = warp_sum(dot) * inverse * inverse / width;
    for (int c = EACH * lane; c < width; c += EACH * 32) {
        const auto v = read<EACH>(x + c), gain = read<EACH>(g + c);
        const auto d = read<EACH>(dy + c);
        auto out = read<EACH>(dx + c);
        pack<act, EACH> rounded;
        for (int k = 0; k < EACH; k++) {
            out.x[k] += inverse * (__bfloat162float(d.x[k]) * gain.x[k] - v.x[k] * pull);
            rounded.x[k] = __float2bfloat16(out.x[k]);
        }
        write(dx + c, out);
        write(dx_act + c, rounded);
    }
}
// dg is a sum over all rows: PARTS blocks share them, 32 columns each, and a second kernel adds up what they found.
enum { PARTS = 64 };
__global__ void rmsnorm_dg_kernel(real *parts, const act *dy, const real *x, const real *r, int n, int width)
{
    __shared__ float of_warp_smem[WARPS][32];
    const int c = blockIdx.x * 32 + threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = 0;
    for (int row = blockIdx.y * WARPS + warp; c < width && row < n; row += PARTS * WARPS)
        sum += __bfloat162float(dy[(size_t)row * width + c]) * x[(size_t)row * width + c] * r[row];
    of_warp_smem[warp][threadIdx.x % 32] = sum;
    __syncthreads();  // all warps have written
    if (warp > 0 || c >= width) return;
    for (int k = 1; k < WARPS; k++) sum += of_warp_smem[k][threadIdx.x];
    parts[(size_t)blockIdx.y * width + c] = sum;
}
__global__ void add_parts_kernel(real *dg, const real *parts, size_t width)
{
    const size_t c = thread_index();
    if (c >= width) return;
    float sum = 0;
    for (int k = 0; k < PARTS; k++) sum += parts[k * width + c];
    dg[c] += sum;
}
void rmsnorm_backward(real *dx, act *dx_act, real *dg, const act *dy, const real *x, const real *r, const real *g,
                      int n, int width)
{
    static real *parts;  // [PARTS, width] of the widest
    static int room;
    if (width > room) parts = (real *)new_array(PARTS * (size_t)width * sizeof *parts), room = width;
    const auto kernel = width % 4 ? rmsnorm_dx_kernel<1> : rmsnorm_dx_kernel<4>;
    kernel<<<blocks(n, WARPS), THREADS>>>(dx, dx_act, dy, x, r, g, n, width);
    launched();
    rmsnorm_dg_kernel<<<dim3(blocks(width, 32), PARTS), THREADS>>>(parts, dy, x, r, n, width);
    launched();
    add_parts_kernel<<<blocks(width, THREADS), THREADS>>>(dg, parts, width);
    launched();
}

// ------------------------ heads

// Cosine and sine [end, D / 2] of RoPE before the position `end`, made on the host in double.
static const float2 *angles(int end, int D)
{
    static float2 *table;
    static int made_for, made_until;
    if (made_for == D && made_until >= end) return table;
    MUST(cudaFree(table));
    std::vector<float2> host(end * (size_t)(D / 2));
    for (int d = 0; d < D / 2; d++) {
        const double turn = pow(10000, -2.0 * d / D);
        for (int t = 0; t < end; t++)
            host[t * (size_t)(D / 2) + d] = make_float2((float)cos(t * turn), (float)sin(t * turn));
    }
    table = (float2 *)new_array(host.size() * sizeof *table), made_for = D, made_until = end;
    to_array(table, host.data(), host.size() * sizeof *table);
    return table;
}
// A thread owns eight neighbouring pairs; no half of a head has fewer. heads [B, H, T + room, D], rows [B * T, stride].
template <bool TO_HEADS> __global__ void heads_kernel(act *y, const act *x, const float2 *angles, int stride,
                                                      unsigned threads, pieces p, unsigned H, unsigned D, int turn)
{
    const unsigned at = blockIdx.x * THREADS + threadIdx.x, half = D / 2, in_head = half / 8, rows = p.T + p.room;
    if (at >= threads) return;
    const unsigned d = at % in_head * 8, h = at / in_head % H, i = at / in_head / H % rows, b = at / in_head / H / rows;
    const int begin = p.position[b >= (unsigned)p.B / 2], t = (int)i - (begin > 0 ? p.room : 0);
    const size_t head = ((size_t)(b * H + h) * rows + i) * D + d, row = ((size_t)b * p.T + t) * stride + h * D + d;
    if (t < 0 || t >= p.T) {
        if (TO_HEADS) write(y + head, pack<act, 8>{}), write(y + head + half, pack<act, 8>{});
        return;
    }
    const size_t to = TO_HEADS ? head : row, from = TO_HEADS ? row : head;
    const auto a_pack = read<8>(x + from), c_pack = read<8>(x + from + half);
    pack<act, 8> left = a_pack, right = c_pack;
    if (turn)
        for (int k = 0; k < 8; k++) {
            const float2 angle = angles[(size_t)(begin + t) * half + d + k];
            const float a = __bfloat162float(a_pack.x[k]), c = __bfloat162float(c_pack.x[k]), sine = turn * angle.y;
            left.x[k] = __float2bfloat16(a * angle.x - c * sine);
            right.x[k] = __float2bfloat16(a * sine + c * angle.x);
        }
    write(y + to, left);
    write(y + to + half, right);
}
template <bool TO_HEADS>
static void move_heads(act *y, const act *x, int stride, const pieces *p, int H, int D, int turn)
{
    const size_t threads = (size_t)p->B * (p->T + p->room) * H * (D / 16);
    if (threads > 0xffffffff) FAIL("heads of %d tokens exceed the threads of a launch", p->B * p->T);
    const float2 *const table = angles(std::max(p->position[0], p->position[1]) + p->T, D);
    heads_kernel<TO_HEADS>
        <<<blocks(threads, THREADS), THREADS>>>(y, x, table, stride, (unsigned)threads, *p, H, D, turn);
    launched();
}
void to_heads(act *heads, const act *rows, int stride, const pieces *p, int H, int D, int turn)
{
    move_heads<true>(heads, rows, stride, p, H, D, turn);
}
void from_heads(act *rows, const act *heads, int stride, const pieces *p, int H, int D, int turn)
{
    move_heads<false>(rows, heads, stride, p, H, D, turn);
}

// A thread owns eight neighbours of a run.
__global__ void copy_runs_kernel(act *y, size_t y_apart, const act *x, size_t x_apart, size_t n, size_t all)
{
    const size_t at = 8 * thread_index();
    if (at < all) write(y + at / n * y_apart + at % n, read<8>(x + at / n * x_apart + at % n));
}
__global__ void add_runs_kernel(act *y, size_t y_apart, const act *x, size_t step, int many, size_t n, size_t all)
{
    const size_t at = 8 * thread_index(), to = at / n * y_apart + at % n;
    if (at >= all) return;
    auto rounded = read<8>(y + to);
    pack<float, 8> sum;
    for (int k = 0; k < 8; k++) sum.x[k] = __bfloat162float(rounded.x[k]);
    for (int part = 0; part < many; part++) {
        const auto more = read<8>(x + part * step + at);
        for (int k = 0; k < 8; k++) sum.x[k] += __bfloat162float(more.x[k]);
    }
    for (int k = 0; k < 8; k++) rounded.x[k] = __float2bfloat16(sum.x[k]);
    write(y + to, rounded);
}
void copy_runs(act *y, size_t y_apart, const act *x, size_t x_apart, size_t n, int count)
{
    const size_t all = n * count;
    if (all == 0) return;
    copy_runs_kernel<<<blocks(all / 8, THREADS), THREADS>>>(y, y_apart, x, x_apart, n, all);
    launched();
}
void add_runs(act *y, size_t y_apart, const act *x, size_t step, int many, size_t n, int count)
{
    const size_t all = n * count;
    if (all == 0) return;
    add_runs_kernel<<<blocks(all / 8, THREADS), THREADS>>>(y, y_apart, x, step, many, n, all);
    launched();
}

// ------------------------ swiglu

// A row of blocks owns a token.
template <int EACH> __global__ void swiglu_kernel(act *a, const act *gu, int hidden)
{
    const int c = (blockIdx.y * THREADS + threadIdx.x) * EACH;
    if (c >= hidden) return;
    const size_t left = (size_t)blockIdx.x * 2 * hidden + c;
    const auto gate = read<EACH>(gu + left), up = read<EACH>(gu + left + hidden);
    pack<act, EACH> out;
    for (int k = 0; k < EACH; k++) {
        const float x = __bfloat162float(gate.x[k]);
        out.x[k] = __float2bfloat16(x / (1 + __expf(-x)) * __bfloat162float(up.x[k]));
    }
    write(a + (size_t)blockIdx.x * hidden + c, out);
}
void swiglu(act *a, const act *gu, int n, int hidden)
{
    const int each = hidden % 8 ? 1 : 8;
    const auto kernel = each == 8 ? swiglu_kernel<8> : swiglu_kernel<1>;
    kernel<<<dim3(n, blocks(hidden / each, THREADS)), THREADS>>>(a, gu, hidden);
    launched();
}
template <int EACH> __global__ void swiglu_backward_kernel(act *dgu, const act *da, const act *gu, int hidden)
{
    const int c = (blockIdx.y * THREADS + threadIdx.x) * EACH;
    if (c >= hidden) return;
    const size_t left = (size_t)blockIdx.x * 2 * hidden + c;
    const auto gate = read<EACH>(gu + left), up = read<EACH>(gu + left + hidden);
    const auto d = read<EACH>(da + (size_t)blockIdx.x * hidden + c);
    pack<act, EACH> dgate, dup;
    for (int k = 0; k < EACH; k++) {
        const float x = __bfloat162float(gate.x[k]), dx = __bfloat162float(d.x[k]), s = 1 / (1 + __expf(-x));
        dgate.x[k] = __float2bfloat16(dx * __bfloat162float(up.x[k]) * s * (1 + x * (1 - s)));
        dup.x[k] = __float2bfloat16(dx * x * s);
    }
    write(dgu + left, dgate);
    write(dgu + left + hidden, dup);
}
void swiglu_backward(act *dgu, const act *da, const act *gu, int n, int hidden)
{
    const int each = hidden % 8 ? 1 : 8;
    const auto kernel = each == 8 ? swiglu_backward_kernel<8> : swiglu_backward_kernel<1>;
    kernel<<<dim3(n, blocks(hidden / each, THREADS)), THREADS>>>(dgu, da, gu, hidden);
    launched();
}

// ------------------------ loss and update

// A warp owns a row; losses [n].
__global__ void cross_entropy_kernel(act *dlogits, real *losses, const real *logits, const unsigned char *target, int n,
                                     int width)
{
    const int row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    logits += (size_t)row * width, dlogits += (size_t)row * width;
    float max = -INFINITY, sum = 0;
    for (int c = lane; c < width; c += 32) max = fmaxf(max, logits[c]);
    max = warp_max(max);
    for (int c = lane; c < width; c += 32) sum += __expf(logits[c] - max);
    sum = warp_sum(sum);
    const int hit = target[row];
    for (int c = lane; c < width; c += 32)
        dlogits[c] = __float2bfloat16((__expf(logits[c] - max) / sum - (c == hit)) / n);
    if (lane == 0) losses[row] = logf(sum) - (logits[hit] - max);
}
__global__ void mean_kernel(double *mean, const real *x, int n)
{
    __shared__ double of_thread_smem[THREADS];
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) sum += x[i];
    of_thread_smem[threadIdx.x] = sum;
    __syncthreads();  // all threads have written
    if (threadIdx.x > 0) return;
    for (int k = 1; k < THREADS; k++) sum += of_thread_smem[k];
    *mean = sum / n;
}
double cross_entropy(act *dlogits, const real *logits, const unsigned char *target, int n, int width)
{
    static real *losses;
    static double *mean;
    static int room;
    if (n > room) losses = (real *)new_array(n * sizeof *losses), room = n;
    if (!mean) mean = (double *)new_array(sizeof *mean);
    cross_entropy_kernel<<<blocks(n, WARPS), THREADS>>>(dlogits, losses, logits, target, n, width);
    launched();
    mean_kernel<<<1, THREADS>>>(mean, losses, n);
    launched();
    double loss;
    from_array(&loss, mean, sizeof loss);  // waits for all that was queued, and reports its errors
    return loss;
}

__global__ void adamw_kernel(real *p, act *w, const real *dp, real *m, real *v, size_t count, float m_whole,
                             float v_whole, float rate, float decay)
{
    const size_t i = thread_index();
    if (i >= count) return;
    const float d = dp[i], m_new = 0.9f * m[i] + 0.1f * d, v_new = 0.99f * v[i] + 0.01f * d * d;
    const float p_new = p[i] - rate * (m_new / m_whole / (sqrtf(v_new / v_whole) + 1e-8f) + decay * p[i]);
    m[i] = m_new, v[i] = v_new, p[i] = p_new;
    w[i] = __float2bfloat16(p_new);
}
void adamw(real *p, act *w, const real *dp, real *m, real *v, size_t count, int step, real rate, real decay)
{
    adamw_kernel<<<blocks(count, THREADS), THREADS>>>(p, w, dp, m, v, count, (float)(1 - pow(0.9, step)),
                                                      (float)(1 - pow(0.99, step)), rate, decay);
    launched();
}
