// case.h - one case: a problem's shape and the recipe of its inputs. Test, worker and bench make the same bytes of it.
//
// A case is written as text, the way a failing test prints it and a worker takes it:
//   B=1,Hq=2,Nq=256,D=64,seed=7,input=late_max            attention; Hkv = Hq, Nk = Nq, scale = 1/sqrt(D) unless given
//   B=1,Hq=4,Hkv=2,Nq=99,D=64,W=9,seed=7,logits=80        ... with a sink logit of 80 in every head; see wb_logits
//   B=2,Hq=4,Hkv=2,Nq=300,D=64,seed=7,mask=tree/20         ... under a mask as data: named_mask.h has tree, and its 20
//   B=1,Hq=2,Nq=300,D=64,causal=1,levels=1,seed=7           flash_fp8: the floats of the same case of 10, quantised
//   rows=512,cols=1001,seed=7                              weighted_row_sum
//   B=3,Hq=8,Hkv=2,Nq=1,Nk=300,D=64,page=16,lens=mixed     flash_decode: Nk is the longest sequence; see wb_lens
//   B=1,Hq=4,Hkv=2,Nq=203,D=64,causal=1,ranks=4             flash_ring, over 4 ranks
#pragma once

#include "case/named_mask.h"
#include "problems.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__BEGIN_DECLS

typedef enum wb_input {
#define WB_INPUT(name, ...) WB_##name,
#include "case/inputs.inc"
    WB_INPUTS  // how many there are
} wb_input;

// What the sink logits are, where a problem has them. In text: normal, mixed, or a number, -inf among them.
typedef enum wb_logits {
    WB_LOGITS_NORMAL,  // 2 and a normal deviate of 2, another in every head
    WB_LOGITS_MIXED,   // heads take turns: 3, -infinity, 0, 80, -80, -1
    WB_LOGITS_GIVEN    // sink_logit in every head
} wb_logits;

// How many keys the sequences of flash_decode have; the first has Nk but in a Zipf or an empty batch.
typedef enum wb_lens {
    WB_LENS_SAME,   // Nk each
    WB_LENS_MIXED,  // 0 to Nk, each as likely
    WB_LENS_ZIPF,   // 1 to Nk, n with a probability of about 1 / n: Nk to the power of a number between 0 and 1
    WB_LENS_EDGES,  // Nk, 0, 1, then around the ends of pages and tiles, Nk at most
    WB_LENS_EMPTY,  // 0 each
    WB_LENS         // how many there are
} wb_lens;

typedef struct wb_case {
    attention_shape shape;  // of flash_decode too: kv_len is the longest there
    int rows, cols;         // of weighted_row_sum
    uint64_t seed;
    wb_input input;
    wb_logits logits;
    float sink_logit;
    char null[16];      // "K": the function is given a null pointer for K
    wb_mask_name mask;  // of flash_block_mask, and the fields of its struct
    int mask_size, masks, q_tile, kv_tile;
    int page;              // of flash_decode: keys in a page; 16 unless given
    wb_lens lens;          // ... how long the sequences are
    int pages, max_pages;  // ... of the cache, and columns of the page table; 0: as many as it takes, and a few more
    // ... 1: the first page is none of the cache's; 2: the first length is more than the table holds; 3: it is -1. Of
    // flash_ring 1: it is told that there are no ranks; 2: that it is rank -1; 3: that it is one more than the last
    int stray;
    int short_workspace;  // ... 1: it is told of 16 bytes of workspace fewer than it wants
    int levels;           // of flash_fp8
    int ranks;            // of flash_ring: how many take part; 1 unless given
    int part;             // ... 0: tensors are the whole sequence's; r + 1: what rank r has of them
#define WB_CONDITION(name, ...) int name;
#include "case/conditions.inc"
} wb_case;

typedef enum wb_type { WB_FLOAT32, WB_BFLOAT16, WB_INT32, WB_INT8, WB_E4M3 } wb_type;

enum { WB_MAX_TENSORS = 14, WB_CASE_TEXT = 2048, WB_MOST_RANKS = 12 };

typedef struct wb_tensor {
    const char *name;  // as in workbook.h
    bool output;
    wb_type type;
    size_t dim[4];  // leading dimensions are 1 where there are fewer
    size_t count;   // of elements
    size_t bytes;
} wb_tensor;

// Scratch memory. How much a function wants, its companion says: for flash_decode flash_decode_workspace.
typedef struct wb_workspace {
    void *at;
    size_t bytes;
} wb_workspace;

// Completes what was left 0 (heads, lengths, scale) by the defaults named above. Text that gives a value keeps it.
wb_case wb_case_defaults(const wb_problem *problem, wb_case c);

// From and to text; of several cases with colons between them the last. The message of WB_BAD_ARGUMENT names a word or
// a field. A function may still have to refuse the case: wb_case_is_valid tells, and wb_last_message() why.
wb_status wb_case_parse(const wb_problem *problem, const char *text, wb_case *c);

// The same of a text for several problems: what this one does not have is dropped, and a head dimension that it does
// not support becomes its smallest.
wb_status wb_case_fit(const wb_problem *problem, const char *text, wb_case *c);
bool wb_case_is_valid(const wb_problem *problem, const wb_case *c);
void wb_case_print(const wb_problem *problem, const wb_case *c, char text[WB_CASE_TEXT]);

// The tensors in the order of arguments; how many. Sizes below 1 count as 1: a bad shape has buffers, too.
int wb_case_tensors(const wb_problem *problem, const wb_case *c, wb_tensor tensors[WB_MAX_TENSORS]);

// Of how many bytes its address is a multiple: of an element of an array, 16 of what is read in tiles.
size_t wb_tensor_alignment(const wb_tensor *t);

// Which of these tensors has this name; -1: none.
int wb_tensor_named(const wb_tensor tensors[], int count, const char *name);

// Fills an input tensor, rounded to its type. O and L of a backward are not made here: the test brings its oracle's.
void wb_case_fill(const wb_problem *problem, const wb_case *c, const wb_tensor *tensor, void *data);

// Whether suites try this input wherever they try every input: it makes sense of any problem.
bool wb_input_is_everywhere(wb_input input);

// As in the text of a case: "late_max", "same" and so on.
const char *wb_lens_name(wb_lens lens);

// Calls `function`, which has the problem's signature, with these pointers in the order of wb_case_tensors, and, behind
// those of flash_decode and flash_ring, a pointer to its wb_workspace; behind that of flash_ring, one to its wb_ring.
typedef void (*wb_function)(void);
wb_status wb_call(const wb_problem *problem, wb_function function, const wb_case *c, void *const pointers[],
                  wb_stream stream);

// Pairs that the mask leaves in a head, of flash_decode the mean. FLOPs: 4 B Hq D pairs, of a backward 2.5 times that.
double wb_case_visible_pairs(const wb_problem *problem, const wb_case *c);

// Of one element of this type: its bytes, and what CUDA C calls it: float, bfloat16, int, int8_t, uint8_t.
size_t wb_type_bytes(wb_type type);
const char *wb_type_name(wb_type type);

// Element i of an array of this type, and the same set to `value`, rounded to nearest even.
double wb_get(wb_type type, const void *array, size_t i);
void wb_get_all(wb_type type, const void *array, size_t count, double *values);
void wb_put(wb_type type, void *array, size_t i, double value);

// The mask of a case of flash_block_mask, and its lists in host memory, until that of another is asked for.
typedef struct wb_case_mask {
    wb_named_mask named;
    block_mask lists;
} wb_case_mask;
const wb_case_mask *wb_case_mask_of(const wb_case *c);

// wb_block_mask_build; loose: every third tile that is not seen in part is listed among those that are (WB_MASK_LOOSE),
// and the first list of those that are seen whole begins far behind the first of `whole`.
wb_status wb_block_mask_list(block_mask *mask, int q_tile, int kv_tile, int masks, int q_len, int kv_len, wb_sees *sees,
                             const void *of, int loose);

// Whether query i of sequence b sees key j in it.
bool wb_case_sees(const wb_case *c, int b, int i, int j);

float wb_from_bf16(uint16_t bits);
uint16_t wb_to_bf16(float value);  // round to nearest even, NaN stays NaN
float wb_from_e4m3(uint8_t bits);
uint8_t wb_to_e4m3(float value);  // the same; what is beyond 448 becomes 448

// Of flash_fp8: keys of a tile, tiles of a head, and where key `key` of a tile stands in a row of V.
enum { WB_FP8_KEYS = 64 };
static inline int wb_fp8_tiles(int kv_len) { return kv_len < 1 ? 1 : (kv_len - 1) / WB_FP8_KEYS + 1; }
int wb_fp8_place(int key);
// What the bytes of heads of Q, K or V (`of`) stand for, as x [heads, N, D].
void wb_dequantise_fp8(float *x, char of, const uint8_t *q, const int8_t *exponent, size_t heads, size_t N, size_t D);

// ------------------------ what is drawn

// A number for each number: a case draws with this, so that its bits are the same on every machine.
static inline uint64_t mix(uint64_t x)  // the finaliser of SplitMix64: Steele, Lea, Flood 2014
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// ------------------------ the pages of a paged cache, of 13 or 14 (pages.c)
// Those in use are drawn from all of them, so those of a sequence lie anywhere, in any order.

// The shape as the function gets it.
decode_shape wb_decode_shape(const wb_case *c);

// How many keys sequence b has.
int wb_case_keys(const wb_case *c, int b);

// Of K, V or their scales: how many bytes at the end belong to no key, in a case whose cache is cut.
size_t wb_case_cut(const wb_case *c, const wb_tensor *t);

typedef struct wb_pages {
    decode_shape shape;
    int *kv_len;  // [batch]
    int *table;   // [batch, max_pages]; -1: none, and so is an entry for which no page was left
    int *owner;   // [pages]: b * max_pages + column of the first entry that has this page; -1: nobody's
} wb_pages;

// Sizes below 1 count as 1, as in wb_case_tensors.
wb_pages wb_pages_make(const wb_case *c);
void wb_pages_free(wb_pages *p);

// ------------------------ which rows of a sequence lie on which rank, of 17 and 18 (shards.c)
// The rows are cut into 2 * ranks chunks, of which the first N % (2 * ranks) have a row more. Rank r has the chunks r
// and 2 * ranks - 1 - r, one behind the other, each with all its heads (workbook.h).

int wb_chunk_rows(const wb_case *c, int chunk);
int wb_chunk_begin(const wb_case *c, int chunk);                       // its first row
static inline int wb_chunk_of(const wb_case *c, int rank, int second)  // the first that it has, or the second
{
    return second ? 2 * c->ranks - 1 - rank : rank;
}
int wb_chunk_with(const wb_case *c, int row);
static inline int wb_rank_with(const wb_case *c, int chunk)
{
    return chunk < c->ranks ? chunk : 2 * c->ranks - 1 - chunk;
}
int wb_rank_rows(const wb_case *c, int rank);

// Of a whole tensor that of rank c->part - 1: rows, heads and batches in one dimension. It may be empty.
wb_tensor wb_shard_of(const wb_case *c, const wb_tensor *whole);

// Copies the rows of `rank` out of a whole tensor, or, `join`, into it.
void wb_shard_copy(const wb_case *c, const wb_tensor *whole, void *data, int rank, void *shard, bool join);

// Where element i of a rank's tensor is in the whole one.
size_t wb_shard_place(const wb_case *c, const wb_tensor *whole, int rank, size_t i);

// How many bytes ranks need to tell one another what they do, and for four times K and V, twice what they have to send;
// and as many again of their gradients. `whole`: the case's tensors.
size_t wb_board_room(const wb_problem *problem, const wb_case *c, const wb_tensor *whole);

// ------------------------ random cases, and small ones (random_case.c)
// Of a random case whatever the problem's contract leaves open takes a value by the seed, of one of a few classes that
// kernels treat apart (a tile's length and one more, one head and several, a scale of one's own). Of as many cases in a
// row as a dimension has classes each class occurs in one: Latin hypercube sampling (McKay, Beckman, Conover 1979).

enum { WB_RANDOM_CASES = 8 };  // that a suite tries of a seed

// Case n of this seed, n from 0, with at most `most` multiplications: else batches, heads and lengths become fewer.
wb_case wb_random_case(const wb_problem *problem, uint64_t seed, int n, double most);

// Leaves out a condition, simplifies a field, or halves a length; false if this step changes nothing.
enum {
#define WB_CONDITION(name, ...) WB_WITHOUT_##name,
#include "case/conditions.inc"
    WB_SIMPLER_SHAPE,
    WB_SIMPLER = WB_SIMPLER_SHAPE + 11
};
bool wb_simpler_case(const wb_problem *problem, wb_case *c, int step);

// A few cases of each problem for builds that look at every access: every head size and with it every kernel, lengths
// around the ends of tiles, several blocks, one lonely row. Printed one a line, as --case takes them.
int wb_small_cases(const wb_problem *problem, wb_case cases[], int room);
void wb_small_cases_print(const wb_problem *problem);

__END_DECLS
