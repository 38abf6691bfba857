// SPDX-License-Identifier: MIT
// workbook.h - the public interface: the functions of the workbook, one a problem, C99, callable from any language.
//
// Shapes are row-major and contiguous, written [slowest, ..., fastest]. Symbols, as in the papers:
//   Q [B, Hq, Nq, D]    K, V [B, Hkv, Nk, D]    O [B, Hq, Nq, D]    L [B, Hq, Nq]
// O = softmax(scale * Q K^T) V and L = log(sum(exp(scale * Q K^T))), the natural logarithm of each row's denominator,
// over the keys that a query sees. A row that sees no key has O = 0 and L = -infinity.
// FlashAttention-2: Dao 2023, arXiv:2307.08691, algorithms 1 (forward) and 2 (backward).
#ifndef WORKBOOK_H
#define WORKBOOK_H

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__) || defined(__CUDACPU__)
#include <cuda_runtime.h>
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
#else
typedef struct bf16 {  // the upper half of a float: 1 sign, 8 exponent, 7 fraction bits
    uint16_t bits;
} bf16;
#endif

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)  // what a function may call; the rest of the machinery is hidden from it

// ------------------------ status

typedef enum wb_status {
    WB_OK = 0,
    WB_NOT_IMPLEMENTED = 1,  // the function is not there yet
    WB_BAD_ARGUMENT = 2,     // no kernel could do this: null pointer, size below 1, NaN scale, ...
    WB_UNSUPPORTED = 3,      // a valid question that this function does not answer: head_dim 48, a mask in 03, ...
    WB_OUT_OF_MEMORY = 4,
    WB_DEVICE_ERROR = 5  // the CUDA runtime refused something
} wb_status;

// "bad argument" and so on; never null.
const char *wb_status_text(wb_status status);

// What was wrong in this thread's last call that did not return WB_OK, in one sentence; "" if there was none.
const char *wb_last_message(void);

// ------------------------ shape

typedef struct attention_shape {
    int batch;     // B, from 1 to 65535
    int q_heads;   // Hq, from 1 to 65535
    int kv_heads;  // Hkv; divides q_heads; equal to q_heads unless a problem groups heads (from 05 on)
    int q_len;     // Nq >= 1, a multiple of nothing
    int kv_len;    // Nk >= 1; equal to q_len wherever there is a causal mask
    int head_dim;  // D: 16, 32, 64 or 128
    float scale;   // finite and positive; usually 1 / sqrt(D)
    int causal;    // query i sees key j only if j <= i. Either in 01, 10, 16 to 18; 0 in 03, 15, 19; 1 in all others
    int window;    // W >= 1: ... and only if j > i - W, or j < sinks. Read by 06, 07, 09, 11 and 12
    int sinks;     // >= 0: the first `sinks` keys stay visible outside the window. Read by 07 and 09
} attention_shape;

// ------------------------ problems
// Every function that returns a status checks its arguments first: on an error it returns the status, leaves a sentence
// in wb_last_message(), and writes nothing. Outputs come first and must not overlap inputs. workspace: device memory of
// as many bytes as NAME_workspace says, which is 0 for a bad shape; aligned to 256 bytes, of any contents.

// 01: on the CPU, in float32. All pointers are host memory.
wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape);

// Functions with a stream take device pointers and a CUDA stream (NULL: the default stream) and return when the work is
// queued, not when it is done. Tensors of bf16, int8 and e4m3 that attention reads and writes are aligned to 16 bytes;
// L, delta, sink logits and their gradients, lengths, tables, lists and all of 02 to their elements, unless said below.
typedef struct CUstream_st *wb_stream;  // the same type as cudaStream_t

// 02: y[i] = sum over j of x[i, j] * w[j].  x [rows, cols], w [cols], y [rows]; y is float32, like every row statistic
// here.
wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream);

// 03: forward without a mask. Nq and Nk may differ.
wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream);
// 04: causal.
wb_status flash_causal(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream);
// 05: causal with grouped-query heads: query head h reads key head h / (Hq / Hkv).
wb_status flash_gqa(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                    wb_stream stream);
// 06: 05 with a sliding window of W keys, the query's own included.
wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream);
// 07: 06 with attention sinks (StreamingLLM: Xiao et al. 2023, arXiv:2309.17453).
wb_status flash_sinks(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                      wb_stream stream);

// 08: backward of 05. From Q, K, V, O, L and the gradient dO to dQ [B, Hq, Nq, D], dK and dV [B, Hkv, Nk, D], and
// delta [B, Hq, Nq] = rowsum(dO * O), which is an output as well as the only work space.
wb_status flash_gqa_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                             wb_stream stream);
// 09: backward of 07.
wb_status flash_sinks_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                               const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                               wb_stream stream);

// 10: forward with or without the causal mask, grouped-query heads, D 64 or 128, for GPUs of sm_90 (H100, H200) and the
// CPU layer. Elsewhere WB_UNSUPPORTED.
wb_status flash_hopper(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream);
// The same with wider heads: D 256; or D 192, where V and O have 128 columns, as DeepSeek's latent attention has them
// (arXiv:2405.04434): V [B, Hkv, Nk, 128], O [B, Hq, Nq, 128]. Causal with Nq up to Nk, too: the last query stands at
// the last key. No problem: the library alone has it.
wb_status flash_wide(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                     wb_stream stream);

// 11: 06 with a sink logit a head, as gpt-oss has it (OpenAI 2025, arXiv:2508.10925): s = sink_logits[h], float32 [Hq],
// any finite value or -infinity, is in every row's denominator and adds nothing to O:
//   P[i, j] = exp(S[i, j]) / (exp(s) + sum over visible k of exp(S[i, k]))      L[i] = log(exp(s) + that sum)
// S = scale * Q K^T; s is not scaled. With s = -infinity there is no sink, and these are 06's results. A window of
// q_len or more is none: those of 05. shape->sinks is not read.
wb_status flash_sink_logits(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
                            const attention_shape *shape, wb_stream stream);
// 12: backward of 11, from its O and L. As 09's, and dsinks [Hq], float32, the gradient of sink_logits:
//   dsinks[h] = - sum over batches and rows i of exp(sink_logits[h] - L[i]) delta[i]
wb_status flash_sink_logits_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q,
                                     const bf16 *K, const bf16 *V, const float *sink_logits, const bf16 *O,
                                     const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream);

// 13: attention of the newest Nq tokens of each sequence, whose keys and values lie in pages.
typedef struct decode_shape {
    int batch;      // B, from 1 to 65535: sequences
    int q_heads;    // Hq, from 1 to 65535
    int kv_heads;   // Hkv; divides q_heads
    int q_len;      // Nq, from 1 to 16: new tokens of each sequence
    int head_dim;   // D: 16, 32, 64 or 128
    float scale;    // finite and positive; usually 1 / sqrt(D)
    int page_size;  // keys in a page: a power of two from 16 to 256
    int pages;      // of K and of V
    int max_pages;  // columns of page_table
} decode_shape;

// Q and O [B, Hq, Nq, D]; K and V [pages, page_size, Hkv, D]; L [B, Hq, Nq]; page_table int32 [B, max_pages] and kv_len
// int32 [B], both in device memory. Sequence b has kv_len[b] keys, the new tokens' included, from 0 to max_pages *
// page_size. Its key j is row j % page_size of page page_table[b, j / page_size]; entries of the table beyond its keys
// are never read, nor are rows of its last page. Query i stands at key kv_len[b] - Nq + i and sees the keys up to that
// one. A row that sees none has O = 0 and L = -infinity. A page that is not one of `pages`, or a kv_len beyond that
// range, is undefined on a GPU; the CPU layer ends with a sentence.
wb_status flash_decode(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table,
                       const int *kv_len, void *workspace, size_t workspace_bytes, const decode_shape *shape,
                       wb_stream stream);
// On the current device: bounded by its multiprocessors, whatever the lengths.
size_t flash_decode_workspace(const decode_shape *shape);

// 14: 13 with K and V in int8 [pages, page_size, Hkv, D], and a scale for each row of D of them, K_scale and V_scale
// float32 [pages, Hkv, page_size]: those of a page and head lie side by side, and like K and V they are aligned to
// 16 bytes. Element d of a row is its scale times K[.., d]; wb_quantise_row makes both from floats. Scales are finite.
// Everything else is as in 13: what lies behind a sequence's keys, its scales too, is never used.
wb_status flash_decode_int8(bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V, const float *K_scale,
                            const float *V_scale, const int *page_table, const int *kv_len, void *workspace,
                            size_t workspace_bytes, const decode_shape *shape, wb_stream stream);
size_t flash_decode_int8_workspace(const decode_shape *shape);
// The same with K and V in e4m3 (see 16) and one scale for each sequence and key head: K_scale and V_scale float32 [B,
// Hkv], as FlashAttention-3 has its descale. No problem: the library alone has it. NaN in K or V counts as 480.
wb_status flash_decode_e4m3(bf16 *O, float *L, const bf16 *Q, const uint8_t *K, const uint8_t *V, const float *K_scale,
                            const float *V_scale, const int *page_table, const int *kv_len, void *workspace,
                            size_t workspace_bytes, const decode_shape *shape, wb_stream stream);
size_t flash_decode_e4m3_workspace(const decode_shape *shape);

// A mask as data, for 15: which tiles of the score matrix hold something visible, and which of their pairs are. The
// keys are cut into tiles of kv_tile, the queries into q_tiles tiles of q_tile. Tile r = mask * (q_tiles + 1) + t of
// the queries sees, in any order and each once,
//   the tiles whole[whole_start[r] ... whole_start[r + 1] - 1] of the keys, each of which each of its queries sees;
//   the tiles part[part_start[r] ... part_start[r + 1] - 1]: it sees what their bits say;
// and no other. Bit j % 32 of bits[p, i, j / 32] tells whether query i of the tile sees key j of part[p]. Bits of keys
// that do not exist are 0, and a tile with such keys is no whole one. FlexAttention calls such lists a BlockMask (Dong
// et al. 2024, arXiv:2412.05496).
typedef struct block_mask {
    int q_tile;              // 64 or 128. 64 skips more where little is visible; 128 reads K and V half as often
    int kv_tile;             // 64
    int masks;               // 1: all sequences have the same; or batch: each has its own
    const int *whole_start;  // [masks, q_tiles + 1], q_tiles = ceil(Nq / q_tile): mask by mask
    const int *whole;        // [whole_start of the end]; room for one if that is 0, for no pointer is null
    const int *part_start;   // [masks, q_tiles + 1]
    const int *part;         // [part_start of the end], likewise
    const uint32_t *bits;    // [the same, q_tile, kv_tile / 32]; aligned to 16 bytes
} block_mask;

// 15: forward under a block mask, with grouped-query heads. Nq and Nk may differ. The struct is in host memory and read
// before the function returns, its arrays are in device memory. causal is 0; window and sinks are not read. A row that
// sees no key has O = 0, L = -infinity. That starts rise and tiles exist is the caller's to see to: the host cannot
// look into the arrays. With other lists the results are wrong, and memory may be read that belongs to none of these
// tensors; the check build finds that (make sanitize-15).
wb_status flash_block_mask(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
                           const attention_shape *shape, wb_stream stream);

// 16: 10 with Q, K and V in eight bits. An e4m3 is a byte: 1 sign, 4 exponent (bias 7) and 3 fraction bits; the largest
// is 448, there is no infinity, 0x7f and 0xff are NaN. Keys come in tiles of 64, tiles = ceil(Nk / 64), and what a byte
// stands for is a power of two times as much:
//   Q [B, Hq, Nq, D]           Q_exponent [B, Hq, Nq]      one a row: element d of a row is 2^exponent Q[.., d]
//   K [B, Hkv, Nk, D]          K_exponent [B, Hkv, tiles]  one a tile of keys
//   V [B, Hkv, tiles, D, 64]   V_exponent [B, Hkv, tiles]  one a tile, which is transposed: row d has element d of its
//                              64 keys, of each 16 in the order 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15; 0 for no key
// Exponents are from -118 to 119, logits are numbers that float32 has; wb_quantise_fp8 makes all of it from floats. The
// weights meet V in e4m3, too. levels: how O is added up. The tensor cores' sums of e4m3 products keep some 14 bits.
// 1: O is one such sum over all keys. 2: it becomes a sum in float32 every 1536 keys or sooner.
// D 64, 128 or 256, causal or not, grouped-query heads, where 10 runs. V's exponents in one head, those of tiles of
// zeros as well, lie within 120 of each other: a weight under one that is further below would be lost from L.
wb_status flash_fp8(bf16 *O, float *L, const uint8_t *Q, const uint8_t *K, const uint8_t *V, const int8_t *Q_exponent,
                    const int8_t *K_exponent, const int8_t *V_exponent, int levels, const attention_shape *shape,
                    wb_stream stream);

// 17: 10 over a sequence that lies on several GPUs, called by a process each: rank 0 to ranks - 1.
#ifndef NCCL_H_  // NVIDIA's has it as well
typedef struct ncclComm *ncclComm_t;
#endif
typedef struct wb_ring {
    ncclComm_t comm;  // all ranks; NCCL's. Null is fine where ranks is 1
    int rank, ranks;  // in it, from 0, and how many: at least 1
    wb_stream wire;   // for messages; not the stream of the call
} wb_ring;

// `shape` is the whole sequence's, and q_len = kv_len = N. Its rows are cut into 2 * ranks chunks in order: each has N
// / (2 * ranks) rows, and the first N % (2 * ranks) one more. Rank r has the chunks r and 2 * ranks - 1 - r, in that
// order ("zigzag"), each with all its heads: c rows are
//   Q, O [B, Hq, c, D]     K, V [B, Hkv, c, D]     L [B, Hq, c]     and the second chunk lies right behind the first
// The masks are those of the whole sequence. A chunk may be empty. All ranks call it with the same shape, and it
// returns when the work is queued. What it queues on `wire` begins after what is on `stream` before, and is over when
// what is on `stream` is.
wb_status flash_ring(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, void *workspace,
                     size_t workspace_bytes, const attention_shape *shape, const wb_ring *ring, wb_stream stream);
// The same on each rank: about 4 rows of K and 3 of O for each of the rank's.
size_t flash_ring_workspace(const attention_shape *shape, const wb_ring *ring);

// What 17 calls for a pair of chunks: attention as 10 has it, Nq and Nk may differ where causal is 0, on any GPU. In
// the library it is the fastest of its functions; a worker has a simple one of its own (attention.cu), so that 17 needs
// no other problem solved.
wb_status wb_attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                       wb_stream stream);

// Adds the gradients of a pair of chunks to dQ [B, Hq, Nq, D], dK, dV [B, Hkv, Nk, D], all float32, row-major, aligned
// to 16 bytes. L [B, Hq, Nq], the natural log, and delta [B, Hq, Nq] are those of whole rows, over all keys of the
// sequence, not of this pair alone. causal 1: Nq = Nk, the diagonal. causal 0: every query sees every key, and Nq
// and Nk are any. D 64 or 128; a worker has a simple one, as of wb_attention.
wb_status wb_attention_backward(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                const bf16 *dO, const float *L, const float *delta, const attention_shape *shape,
                                wb_stream stream);

// The same, with other last bits of dQ in each run where that is faster.
wb_status wb_attention_backward_fastest(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                        const bf16 *dO, const float *L, const float *delta,
                                        const attention_shape *shape, wb_stream stream);

// 18: the gradients of 17, as 08 has them, from its O and L: of loss = sum(dO * O). Rows lie as there, each chunk with
// all its heads:
//   dQ, Q, O, dO [B, Hq, c, D]     dK, dV, K, V [B, Hkv, c, D]     L, delta [B, Hq, c], delta = rowsum(dO * O)
// K and V travel as in 17; dK and dV go with them, in float32, and come home. Streams and ranks are as there.
wb_status flash_ring_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                              const bf16 *O, const float *L, const bf16 *dO, void *workspace, size_t workspace_bytes,
                              const attention_shape *shape, const wb_ring *ring, wb_stream stream);
// The same on each rank: about 16 rows of K and 2 of Q for each of the rank's.
size_t flash_ring_backward_workspace(const attention_shape *shape, const wb_ring *ring);

// ------------------------ making a mask
// Whether query i of mask b sees key j: not 0 if it does. `of` is the caller's.
typedef int wb_sees(const void *of, int b, int i, int j);

// Makes the lists of a mask in host memory; asks for each pair, and once more where a tile is seen in part. The caller
// copies them to the device and gives them back to wb_block_mask_free. WB_BAD_ARGUMENT: a size below 1, a kv_tile that
// is no multiple of 32; WB_OUT_OF_MEMORY. q_tile and kv_tile may be others than 15 takes.
wb_status wb_block_mask_build(block_mask *mask, int q_tile, int kv_tile, int masks, int q_len, int kv_len,
                              wb_sees *sees, const void *of);
// The same from a matrix of bytes, visible [masks, Nq, Nk]: 0 is hidden. For callers whose language has no pointers to
// functions.
wb_status wb_block_mask_from_matrix(block_mask *mask, int q_tile, int kv_tile, int masks, int q_len, int kv_len,
                                    const unsigned char *visible);
void wb_block_mask_free(block_mask *mask);  // of host memory; afterwards all pointers are null

// ------------------------ lengths and pages from a stranger
// Makes of page_table and kv_len, whatever they hold, what flash_decode can follow: len_out[b] is kv_len[b] + new_keys,
// row b of table_out is row b of the table, or, where rows is not null, row rows[b] of `table_rows`. In range are
// kv_len from 0 to max_pages * page_size - new_keys, the pages that `shape` has, and all entries beyond a sequence's
// keys. What is not is brought into range, and one such value is told: *found, in memory that the host and the device
// both reach (pinned), becomes value << 32 | sequence << 16 | which, and stays as it is where all is right. page_size
// may be any here.
typedef enum wb_bad_index {
    WB_BAD_LENGTH = 1,
    WB_BAD_ROW = 2,
    WB_BAD_PAGE = 3  // and its column, 65535 at most together
} wb_bad_index;
wb_status wb_check_indices(int *table_out, int *len_out, const int *page_table, const int *kv_len, uint64_t *found,
                           const int *rows, int table_rows, int new_keys, const decode_shape *shape, wb_stream stream);

// ------------------------ making a cache of 14
// The quantiser: from a row x [count] of finite floats to q [count], in host memory; returns the row's scale, so that
// scale * q[d] is about x[d].
//   a = the largest |x[d]|     scale = a / 127     q[d] = nearbyint(x[d] / scale), from -127 to 127, ties to even
// in float32. Where a / 127 is 0 or denormal, scale and all q are 0.
float wb_quantise_row(int8_t *q, const float *x, int count);

// ------------------------ making the inputs of 16
// The quantiser, in host memory: from x [rows, D], finite floats below 2^127, a row of Q or the keys of a tile of K, to
// e4m3 q [rows, D]. Returns the exponent e, so that 2^e q is about x: the least integer, -118 at least, for which no
// |x| is above 448 * 2^e.
//   q = x * 2^-e rounded to e4m3, nearest, ties to even, -0 for what is negative and rounds to 0
int wb_quantise_fp8(uint8_t *q, const float *x, int rows, int D);
// The same from x [keys, D], the keys of a tile of V, 1 to 64 of them, to q [D, 64], as 16 wants them.
int wb_quantise_fp8_values(uint8_t *q, const float *x, int keys, int D);
// The same on the device, in one launch, for flash_fp8 of this shape: from bf16 Q [B, Hq, Nq, D], K and V [B, Hkv, Nk,
// D] to its inputs. What belongs to Q, K or V may be null, all three: that one is left as it is, as keys are that have
// been quantised before. Finite numbers below 2^120; with D = 256 and hadamard below 2^119.
// hadamard: not 0: rows of Q and K go through wb_hadamard before, and those of Q are divided by D: the same scores.
// WB_BAD_ARGUMENT: pointers that are null alone, or are not aligned to 16 bytes; WB_UNSUPPORTED: as flash_fp8 says.
wb_status wb_quantise_fp8_inputs(uint8_t *Q8, uint8_t *K8, uint8_t *V8, int8_t *Q_exponent, int8_t *K_exponent,
                                 int8_t *V_exponent, const bf16 *Q, const bf16 *K, const bf16 *V, int hadamard,
                                 const attention_shape *shape, wb_stream stream);
// In host memory: x [D] times a Hadamard matrix, D a power of two, after every element has got a sign of its place,
// always the same. It spreads what is large in one element over all. In float32, neighbours first; the entries are 1
// and -1: the row gets sqrt(D) times as long.
void wb_hadamard(float *x, int D);

// ------------------------ the order of a tensor
// A tensor whose element (b, token, h, d) is from[b * stride_b + token * stride_n + h * stride_h + d], in device
// memory, and where it goes.
typedef struct wb_tokens {
    bf16 *to;  // [batch, heads, tokens, D], contiguous
    const bf16 *from;
    int batch, tokens, heads;
    int64_t stride_b, stride_n, stride_h;
} wb_tokens;

// Copies `count` of them, 1 to 4, in one launch. WB_BAD_ARGUMENT: null, a size below 1; WB_UNSUPPORTED: head_dim or a
// stride that is no multiple of 8, an address that is none of 16 bytes, 2^31 pieces of 16 bytes in a head.
wb_status wb_heads_first(const wb_tokens *tensors, int count, int head_dim, wb_stream stream);

// ------------------------ what was found over some of the keys
// `part` [heads, rows, D], which becomes part of the rows of `to` [heads, n, D] from `first` on; in device memory.
typedef struct wb_share {
    void *to;         // bf16, or float32:
    int to_is_float;  // 0 or 1
    const bf16 *part;
    const bf16 *more;   // [heads, rows, D], or null: is added as well
    float *L;           // [heads, n], or null: each row of both weighs as much as its denominator; becomes that of both
    const float *logs;  // [heads, rows], of part, where L is
    int heads, n, first, rows, head_dim;
} wb_share;

// to = w to + (1 - w) part with w = sigmoid(L - logs), L = log(exp L + exp logs); without L to += part + more. In
// float32, rounded to what `to` is. WB_BAD_ARGUMENT: null, rows that are not there, `more` beside L; WB_UNSUPPORTED:
// another head_dim than 16, 32, 64 and 128, an address that is none of 16 bytes, 2^31 rows.
wb_status wb_add_share(const wb_share *share, wb_stream stream);

// ------------------------ scores that are more than scale * q k
// Query i sees the keys first[i] ... last[i], those that exist, and of the keys up to last[i] the first `sinks`. With
// x = scale * q k its score is softcap * tanh(x / softcap), or x where softcap is 0, less slopes[b, h, i] * |j - at[i]|
// (ALiBi).
typedef struct wb_scores {
    const int *first, *last;  // [Nq], in device memory like the others; of all sequences and heads
    const int *at;            // [Nq], or null where slopes is
    const float *slopes;      // [B, Hq, Nq], or null: none
    float softcap;            // >= 0
    int sinks;                // >= 0
} wb_scores;

// Forward and backward on any GPU, grouped-query heads, Nq and Nk may differ. causal is 0; window and sinks of the
// shape are not read. A row that sees nothing has O = 0, L = -infinity. dL [B, Hq, Nq]: the gradient of L, or null;
// delta is rowsum(dO * O) - dL, in float32. L and delta may be of more keys than are seen here: then the gradients are
// a part. The same bits each time.
wb_status wb_scored(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const wb_scores *scores,
                    const attention_shape *shape, wb_stream stream);
wb_status wb_scored_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const float *dL, const wb_scores *scores,
                             const attention_shape *shape, wb_stream stream);

// 19: attention without a mask, as 03 has it.
wb_status flash_fragments(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                          wb_stream stream);

// ------------------------ the one shared validator
// For the first line of each function. `problem` is the function's name; what it supports is looked up in one table.

wb_status wb_check_row_sum(const char *problem, const void *y, const void *x, const void *w, int rows, int cols);
wb_status wb_check_forward(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                           const void *V, const attention_shape *shape);
wb_status wb_check_backward(const char *problem, const void *dQ, const void *dK, const void *dV, const void *delta,
                            const void *Q, const void *K, const void *V, const void *O, const void *L, const void *dO,
                            const attention_shape *shape);
wb_status wb_check_sink_forward(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                                const void *V, const void *sink_logits, const attention_shape *shape);
wb_status wb_check_sink_backward(const char *problem, const void *dQ, const void *dK, const void *dV,
                                 const void *dsinks, const void *delta, const void *Q, const void *K, const void *V,
                                 const void *sink_logits, const void *O, const void *L, const void *dO,
                                 const attention_shape *shape);
// `needed`: the bytes that the workspace should have.
wb_status wb_check_decode_shape(const char *problem, const decode_shape *shape);
wb_status wb_check_decode(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                          const void *V, const void *page_table, const void *kv_len, const void *workspace,
                          size_t workspace_bytes, size_t needed, const decode_shape *shape);
wb_status wb_check_decode_int8(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                               const void *V, const void *K_scale, const void *V_scale, const void *page_table,
                               const void *kv_len, const void *workspace, size_t workspace_bytes, size_t needed,
                               const decode_shape *shape);

wb_status wb_check_block_mask(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                              const void *V, const block_mask *mask, const attention_shape *shape);

wb_status wb_check_fp8(const char *problem, const void *O, const void *L, const void *Q, const void *K, const void *V,
                       const void *Q_exponent, const void *K_exponent, const void *V_exponent, int levels,
                       const attention_shape *shape);

wb_status wb_check_ring_shape(const char *problem, const attention_shape *shape, const wb_ring *ring);
wb_status wb_check_ring(const char *problem, const void *O, const void *L, const void *Q, const void *K, const void *V,
                        const void *workspace, size_t workspace_bytes, size_t needed, const attention_shape *shape,
                        const wb_ring *ring);

wb_status wb_check_ring_backward(const char *problem, const void *dQ, const void *dK, const void *dV, const void *delta,
                                 const void *Q, const void *K, const void *V, const void *O, const void *L,
                                 const void *dO, const void *workspace, size_t workspace_bytes, size_t needed,
                                 const attention_shape *shape, const wb_ring *ring);

// wb_attention_backward's: shapes are 10's.
wb_status wb_check_attention_backward(const void *dQ, const void *dK, const void *dV, const void *Q, const void *K,
                                      const void *V, const void *dO, const void *L, const void *delta,
                                      const attention_shape *shape);

// The shape alone; and the workspace of a function that needs so many bytes of one.
wb_status wb_check_shape(const char *problem, const attention_shape *shape);
wb_status wb_check_workspace(const char *problem, const void *workspace, size_t bytes, size_t needed);

// Records a message in the manner of printf for wb_last_message() and returns `status`.
wb_status wb_fail(wb_status status, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 2, 3)))
#endif
    ;

// ------------------------ device memory
// So that a caller in any language needs no CUDA headers. On the cpu backend "device memory" is memory of this machine
// that only kernels may touch.

wb_status wb_device_alloc(void **pointer, size_t bytes);  // 256-byte aligned; contents undefined
wb_status wb_device_free(void *pointer);                  // null is fine
wb_status wb_copy_to_device(void *device, const void *host, size_t bytes);
wb_status wb_copy_to_host(void *host, const void *device, size_t bytes);
wb_status wb_device_synchronize(void);  // waits, and reports what went wrong in any kernel until now
const char *wb_device_name(void);       // "NVIDIA H200", or "CPU execution layer"
// The major compute capability of the current device: 9 on an H200, and on the CPU layer, which plays one; 0: no
// device.
int wb_device_capability(void);

// ------------------------ the library
// What libworkbook.so, and nothing else, has.

// Which version of the workbook it was made from, "1.0.0".
const char *wb_version(void);

// Of some functions it has more than one kernel (solutions/kernels.h). Which source serves this one, "flash_gqa", for a
// shape that it takes, on the current device; "" for a function that has but its key.
const char *wb_library_kernel(const char *function, const attention_shape *shape);

// 08, 09 and 12 add up dQ in float32 where that is fastest, in a workspace. Where NAME_workspace is 0 it may be null.
//
//   NAME           takes the workspace from the stream's memory pool (cudaMallocAsync) and gives it back in the
//                  stream's order, so calls on several streams may overlap. The pool returns what it has free to the
//                  driver whenever the program waits, unless its release threshold says otherwise: in a loop, bring
//                  your own.
//   NAME_in        in `workspace`, the caller's: in use until the work on the stream is done, so calls that may overlap
//                  need one each. Fewer bytes than needed are WB_BAD_ARGUMENT. The results are NAME's, bit for bit, and
//                  the same in each run.
//   NAME_fastest   likewise, but blocks add to dQ in the order in which they come: other last bits from run to run.
//
// Those of 08 with a workspace take causal = 0 as well, where every query sees every key: on sm_90, else
// WB_UNSUPPORTED. A workspace has about 4 B Hq (D + 2) bytes for each query, and where Hq > Hkv, or keys are sinks, up
// to 8 B Hkv D more for each key, N up to a multiple of 128.
size_t flash_gqa_backward_workspace(const attention_shape *shape);  // enough for both
wb_status flash_gqa_backward_in(void *workspace, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta,
                                const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O, const float *L,
                                const bf16 *dO, const attention_shape *shape, wb_stream stream);
wb_status flash_gqa_backward_fastest(void *workspace, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta,
                                     const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O, const float *L,
                                     const bf16 *dO, const attention_shape *shape, wb_stream stream);
size_t flash_sinks_backward_workspace(const attention_shape *shape);
wb_status flash_sinks_backward_in(void *workspace, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta,
                                  const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O, const float *L,
                                  const bf16 *dO, const attention_shape *shape, wb_stream stream);
size_t flash_sink_logits_backward_workspace(const attention_shape *shape);
wb_status flash_sink_logits_backward_in(void *workspace, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks,
                                        float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                                        const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO,
                                        const attention_shape *shape, wb_stream stream);

// 18 with wb_attention_backward_fastest. Its workspace is flash_ring_backward's.
wb_status flash_ring_backward_fastest(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,
                                      const bf16 *V, const bf16 *O, const float *L, const bf16 *dO, void *workspace,
                                      size_t workspace_bytes, const attention_shape *shape, const wb_ring *ring,
                                      wb_stream stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#if defined(__CUDACC__) || defined(__CUDACPU__)
// Leaves the surrounding function with a status if a call of the CUDA runtime fails: WB_CUDA(cudaMemsetAsync(...)).
// After a launch: WB_CUDA(cudaGetLastError());
#define WB_CUDA(call) \
    do { \
        const cudaError_t wb_error_ = (call); \
        if (wb_error_ != cudaSuccess) \
            return wb_fail(wb_error_ == cudaErrorMemoryAllocation ? WB_OUT_OF_MEMORY : WB_DEVICE_ERROR, \
                           "%s:%d: %s: %s", __FILE__, __LINE__, #call, cudaGetErrorString(wb_error_)); \
    } while (0)
// The same of a call of NCCL, for a file that includes <nccl.h>: WB_NCCL(ncclSend(...)).
#define WB_NCCL(call) \
    do { \
        const ncclResult_t wb_result_ = (call); \
        if (wb_result_ != ncclSuccess) \
            return wb_fail(WB_DEVICE_ERROR, "%s:%d: %s: %s", __FILE__, __LINE__, #call, \
                           ncclGetErrorString(wb_result_)); \
    } while (0)
#endif

#endif
