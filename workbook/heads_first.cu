// heads_first.cu - tensors with tokens before heads, and whatever lies between, become what the functions read: all of
// a call in one launch. A block has some tokens of a head; a thread moves 16 bytes at a time, neighbours side by side.
#include "tile.cuh"

namespace
{
constexpr int THREADS = 256, PIECES = 4, MOST = 4;  // pieces that a thread has, tensors of a launch

struct tensor {
    const uint4 *from;
    uint4 *to;                     // [batch, heads, tokens, per_token]
    long long batch, token, head;  // strides of `from`, in pieces of 16 bytes
    int heads, tokens, blocks_a_head;
    long long blocks;  // of this tensor and all before it
};

struct tensors {
    tensor of[MOST];
};

__global__ __launch_bounds__(THREADS) void heads_first_kernel(tensors all, int per_token)
{
    const unsigned block = blockIdx.x;
    int n = 0;
    while (block >= all.of[n].blocks) n++;
    const tensor &t = all.of[n];
    const unsigned mine = block - (unsigned)(n ? all.of[n - 1].blocks : 0);
    const unsigned head = mine / t.blocks_a_head, begin = mine % t.blocks_a_head * THREADS * PIECES;
    const uint4 *from = t.from + head / t.heads * t.batch + head % t.heads * t.head;
    const unsigned end = (unsigned)t.tokens * per_token;
    uint4 *to = t.to + (size_t)head * end, piece[PIECES];
    TILE_UNROLL
    for (int k = 0; k < PIECES; k++) {
        const unsigned at = begin + k * THREADS + threadIdx.x;
        if (at < end) piece[k] = from[at / per_token * t.token + at % per_token];
    }
    TILE_UNROLL
    for (int k = 0; k < PIECES; k++) {
        const unsigned at = begin + k * THREADS + threadIdx.x;
        if (at < end) to[at] = piece[k];
    }
}
}  // namespace

wb_status wb_heads_first(const wb_tokens *x, int count, int head_dim, wb_stream stream)
{
    const char *const us = "wb_heads_first";
    tensors all = {};
    long long blocks = 0;
    if (!x || count < 1 || count > MOST)
        return wb_fail(WB_BAD_ARGUMENT, "%s: %d tensors, must be 1 to %d", us, x ? count : 0, MOST);
    if (head_dim < 8 || head_dim % 8) return wb_fail(WB_UNSUPPORTED, "%s: head_dim = %d", us, head_dim);
    const int per_token = head_dim / 8;
    for (int n = 0; n < count; n++) {
        const wb_tokens &t = x[n];
        if (!t.to || !t.from) return wb_fail(WB_BAD_ARGUMENT, "%s: tensor %d is null", us, n);
        if (t.batch < 1 || t.tokens < 1 || t.heads < 1)
            return wb_fail(WB_BAD_ARGUMENT, "%s: tensor %d has %d x %d x %d rows", us, n, t.batch, t.tokens, t.heads);
        if (((uintptr_t)t.to | (uintptr_t)t.from) % 16 || t.stride_b % 8 || t.stride_n % 8 || t.stride_h % 8)
            return wb_fail(WB_UNSUPPORTED, "%s: rows of tensor %d are not aligned to 16 bytes", us, n);
        const long long pieces = (long long)t.tokens * per_token;
        const long long blocks_a_head = (pieces - 1) / (THREADS * PIECES) + 1;
        blocks += blocks_a_head * t.batch * t.heads;
        if (pieces > INT_MAX - THREADS * PIECES || blocks > INT_MAX)
            return wb_fail(WB_UNSUPPORTED, "%s: tensor %d is too large", us, n);
        all.of[n] = {reinterpret_cast<const uint4 *>(t.from),
                     reinterpret_cast<uint4 *>(t.to),
                     t.stride_b / 8,
                     t.stride_n / 8,
                     t.stride_h / 8,
                     t.heads,
                     t.tokens,
                     (int)blocks_a_head,
                     blocks};
    }
    heads_first_kernel<<<(unsigned)blocks, THREADS, 0, stream>>>(all, per_token);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
