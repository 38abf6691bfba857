// quantise_fp8.cu - the inputs of 16 on the device: each number is read once, as bfloat16, and written once. To the
// bit what wb_quantise_fp8 and wb_quantise_fp8_values make of the same floats (tests/quantise_fp8.cu).
#include "e4m3.cuh"

namespace
{
constexpr int PIECE = 64;  // rows that a block has: of Q, each with its exponent, or a tile of K or V, which has one

struct tensor_of_16 {
    const bf16 *x;  // [heads, N, D]
    uint8_t *q;
    int8_t *exponent;
    int N, pieces;     // of a head
    long long blocks;  // of all heads; 0 where this tensor is not wanted
};

TILE_FN void unpack(float x[8], const uint4 &eight)
{
    const uint32_t two[4] = {eight.x, eight.y, eight.z, eight.w};
    TILE_UNROLL
    for (int i = 0; i < 4; i++) {
        x[2 * i] = __int_as_float((int)(two[i] << 16));
        x[2 * i + 1] = __int_as_float((int)(two[i] & 0xffff0000u));
    }
}

// The least e with largest <= 448 * 2^e, and -118 at least: 448 is 0.875 * 2^9.
TILE_FN int exponent_for(float largest)
{
    const int bits = __float_as_int(largest);
    return max((bits >> 23) - 126 - 9 + ((bits & 0x7fffff) > 0x600000), -118);
}

template <int Lanes> TILE_FN float largest_of_lanes(float x)
{
    TILE_UNROLL
    for (int h = 1; h < Lanes; h *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, h));
    return x;
}

template <int Threads> TILE_FN float largest_of_block(float x)
{
    __shared__ float of_warp[Threads / 32];
    x = largest_of_lanes<32>(x);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads();
    TILE_UNROLL
    for (int w = 0; w < Threads / 32; w++) x = fmaxf(x, of_warp[w]);
    return x;
}

// wb_hadamard: 16 numbers of a row of D, which D / 16 lanes have together. Additions in its order: between neighbours
// first.
template <int D> TILE_FN void hadamard(float y[16])
{
    const int lane = threadIdx.x % (D / 16);
    TILE_UNROLL
    for (int i = 0; i < 16; i++)
        if ((16 * lane + i) * 0x9e3779b1u >> 31) y[i] = -y[i];
    TILE_UNROLL
    for (int h = 1; h < 16; h *= 2) {
        TILE_UNROLL
        for (int i = 0; i < 16; i++) {
            if (i & h) continue;
            const float a = y[i], b = y[i + h];
            y[i] = a + b, y[i + h] = a - b;
        }
    }
    TILE_UNROLL
    for (int h = 1; h < D / 16; h *= 2) {
        TILE_UNROLL
        for (int i = 0; i < 16; i++) {
            const float other = __shfl_xor_sync(~0u, y[i], h);
            y[i] = lane & h ? other - y[i] : y[i] + other;
        }
    }
}

// Rows of Q, an exponent each, or a tile of K. A thread has 16 numbers of two rows.
template <int D, bool HADAMARD> TILE_FN void quantise_rows(const tensor_of_16 &t, int head, int piece, bool of_Q)
{
    constexpr int lanes = D / 16, rows = PIECE / 2;
    const int lane = threadIdx.x % lanes;
    float y[2][16], largest[2] = {};
    TILE_UNROLL
    for (int k = 0; k < 2; k++) {
        const int row = piece * PIECE + k * rows + threadIdx.x / lanes;
        uint4 x[2] = {};
        if (row < t.N) {
            const uint4 *from = reinterpret_cast<const uint4 *>(t.x + ((size_t)head * t.N + row) * D + 16 * lane);
            x[0] = from[0], x[1] = from[1];
        }
        unpack(y[k], x[0]), unpack(y[k] + 8, x[1]);
    }
    TILE_UNROLL
    for (int k = 0; k < 2; k++) {
        if (HADAMARD) hadamard<D>(y[k]);
        TILE_UNROLL
        for (int i = 0; i < 16; i++) largest[k] = fmaxf(largest[k], fabsf(y[k][i]));
    }
    const float of_tile = of_Q ? 0 : largest_of_block<2 * D>(fmaxf(largest[0], largest[1]));
    TILE_UNROLL
    for (int k = 0; k < 2; k++) {
        const int row = piece * PIECE + k * rows + threadIdx.x / lanes;
        // H H^T is D times the identity: as if Q had been divided by D.
        const int spread = HADAMARD && of_Q ? (D == 64 ? 6 : D == 128 ? 7 : 8) : 0;
        const int e = max(exponent_for(of_Q ? largest_of_lanes<lanes>(largest[k]) : of_tile) - spread, -118);
        const float unit = power_of_two(-e - spread);
        if (row >= t.N) continue;
        uint32_t out[4];
        TILE_UNROLL
        for (int i = 0; i < 4; i++) {
            const float *of = &y[k][4 * i];
            out[i] = e4m3_machine::pack(of[0] * unit, of[1] * unit, of[2] * unit, of[3] * unit);
        }
        *reinterpret_cast<uint4 *>(t.q + ((size_t)head * t.N + row) * D + 16 * lane) =
            make_uint4(out[0], out[1], out[2], out[3]);
        if (of_Q ? lane == 0 : threadIdx.x + k == 0)
            t.exponent[of_Q ? (size_t)head * t.N + row : (size_t)head * t.pieces + piece] = (int8_t)e;
    }
}

// A tile of V, transposed. A thread has 8 columns of the four keys whose bytes are one word there; in shared memory a
// row's words lie where lanes that write at once meet other banks, or the same two at most.
template <int D> TILE_FN void quantise_values(const tensor_of_16 &t, int head, int tile)
{
    __shared__ __align__(16) uint32_t turned[D][PIECE / 4];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int chunk = warp / 2 * 4 + lane % 4, word = warp % 2 * 8 + lane / 4, swap = chunk % 2 * 8;
    float y[4][8], largest = 0;
    uint4 x[4] = {};
    TILE_UNROLL
    for (int j = 0; j < 4; j++) {
        const int key = tile * PIECE + word / 4 * 16 + word % 4 * 2 + j / 2 * 8 + j % 2;
        if (key < t.N) x[j] = *reinterpret_cast<const uint4 *>(t.x + ((size_t)head * t.N + key) * D + 8 * chunk);
    }
    TILE_UNROLL
    for (int j = 0; j < 4; j++) {
        unpack(y[j], x[j]);
        TILE_UNROLL
        for (int i = 0; i < 8; i++) largest = fmaxf(largest, fabsf(y[j][i]));
    }
    const int e = exponent_for(largest_of_block<2 * D>(largest));
    const float unit = power_of_two(-e);
    TILE_UNROLL
    for (int i = 0; i < 8; i++)
        turned[8 * chunk + i][word ^ swap] =
            e4m3_machine::pack(y[0][i] * unit, y[1][i] * unit, y[2][i] * unit, y[3][i] * unit);
    __syncthreads();
    const size_t at = (size_t)head * t.pieces + tile;
    uint4 *to = reinterpret_cast<uint4 *>(t.q + at * D * PIECE);
    TILE_UNROLL
    for (int k = 0; k < 2; k++) {
        const int i = 2 * D * k + threadIdx.x, d = i / 4;
        to[i] = *reinterpret_cast<const uint4 *>(&turned[d][i % 4 * 4 ^ d / 8 % 2 * 8]);
    }
    if (threadIdx.x == 0) t.exponent[at] = (int8_t)e;
}

template <int D, bool HADAMARD>
__global__ __launch_bounds__(2 * D) void quantise_kernel(tensor_of_16 Q, tensor_of_16 K, tensor_of_16 V)
{
    long long block = blockIdx.x;
    if (block < Q.blocks) {
        quantise_rows<D, HADAMARD>(Q, (int)(block / Q.pieces), (int)(block % Q.pieces), true);
        return;
    }
    block -= Q.blocks;
    if (block < K.blocks)
        quantise_rows<D, HADAMARD>(K, (int)(block / K.pieces), (int)(block % K.pieces), false);
    else
        quantise_values<D>(V, (int)((block - K.blocks) / V.pieces), (int)((block - K.blocks) % V.pieces));
}

wb_status describe_input(tensor_of_16 &t, const char *name, const bf16 *x, uint8_t *q, int8_t *exponent, int heads,
                         int N)
{
    if (!x != !q || !x != !exponent)
        return wb_fail(WB_BAD_ARGUMENT, "wb_quantise_fp8_inputs: some of %s, %s8 and %s_exponent are null, but not all",
                       name, name, name);
    if (((uintptr_t)x | (uintptr_t)q) % 16)
        return wb_fail(WB_BAD_ARGUMENT, "wb_quantise_fp8_inputs: %s or %s8 is not aligned to 16 bytes", name, name);
    const int pieces = (N - 1) / PIECE + 1;
    t = {x, q, exponent, N, pieces, x ? (long long)heads * pieces : 0};
    return WB_OK;
}
}  // namespace

wb_status wb_quantise_fp8_inputs(uint8_t *Q8, uint8_t *K8, uint8_t *V8, int8_t *Q_exponent, int8_t *K_exponent,
                                 int8_t *V_exponent, const bf16 *Q, const bf16 *K, const bf16 *V, int hadamard,
                                 const attention_shape *shape, wb_stream stream)
{
    wb_status status = wb_check_shape("flash_fp8", shape);
    if (status != WB_OK) return status;
    const int q_heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads;
    tensor_of_16 of_Q, of_K, of_V;
    status = describe_input(of_Q, "Q", Q, Q8, Q_exponent, q_heads, shape->q_len);
    if (status == WB_OK) status = describe_input(of_K, "K", K, K8, K_exponent, kv_heads, shape->kv_len);
    if (status == WB_OK) status = describe_input(of_V, "V", V, V8, V_exponent, kv_heads, shape->kv_len);
    if (status == WB_OK) status = check_hopper("wb_quantise_fp8_inputs");
    const long long blocks = status == WB_OK ? of_Q.blocks + of_K.blocks + of_V.blocks : 0;
    if (status != WB_OK || blocks == 0) return status;
    if (blocks > INT_MAX)
        return wb_fail(WB_UNSUPPORTED, "wb_quantise_fp8_inputs: more than %d pieces of %d rows", INT_MAX, PIECE);
    auto kernel = hadamard ? quantise_kernel<128, true> : quantise_kernel<128, false>;
    if (shape->head_dim == 64) kernel = hadamard ? quantise_kernel<64, true> : quantise_kernel<64, false>;
    if (shape->head_dim == 256) kernel = hadamard ? quantise_kernel<256, true> : quantise_kernel<256, false>;
    kernel<<<(unsigned)blocks, 2 * shape->head_dim, 0, stream>>>(of_Q, of_K, of_V);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
