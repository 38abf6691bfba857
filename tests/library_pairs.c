// library_pairs.c - what the library has for pairs of chunks, each of its kernels by its own name
// (libworkbook_all.so): shapes that are drawn, and one for each way in which the work is shared out. Run by
// library.sh.
#include "pairs.h"
#include "predict.h"

adds_pair flash_gqa_backward_add_hopper, flash_gqa_backward_add_hopper_same_bits;

// In the place of the library's: of 80 multiprocessors a block has many works in smaller shapes.
wb_device wb_this_device(void) { return (wb_device){wb_device_capability(), 80, 1980, 4814, NULL}; }

// In bf16 a number is right to 2^-8 of itself; P and dS are rounded to that.
static const double rounding = 1.0 / 64;

// Lengths of all kinds: short, around tiles, longer.
static int pair_length(int longest)
{
    const unsigned kind = pair_number() % 4;
    const int length = kind == 0   ? 1 + (int)(pair_number() % 8)
                       : kind == 1 ? 64 * (1 + (int)(pair_number() % 4)) + (int)(pair_number() % 3) - 1
                                   : 1 + (int)(pair_number() % (unsigned)longest);
    return length < longest ? length : longest;
}

// So many shapes, drawn: heads in groups, D 64 and 128, under the diagonal and without a mask.
static bool pairs_are_right(adds_pair *add, unsigned seed, int shapes, int longest, double rounding)
{
    dice_state = seed;
    for (int n = 0; n < shapes; n++) {
        const int batch = 1 + (int)(pair_number() % 2), kv_heads = 1 + (int)(pair_number() % 3),
                  group = 1 + (int)(pair_number() % 4), D = n % 2 ? 128 : 64, causal = n / 2 % 2;
        attention_shape shape = {
            batch, group * kv_heads, kv_heads, pair_length(longest), pair_length(longest), D, 0.1f, causal, 0, 0};
        if (causal) shape.kv_len = shape.q_len;
        if (!pair_is_right(add, shape, rounding)) return printf("of seed %u, shape %d\n", seed, n), false;
    }
    return true;
}

static bool is_right(const char *name, adds_pair *add, unsigned seed, int drawn, bool shares)
{
    static const attention_shape shapes[] = {
        // B, Hq, Hkv, Nq, Nk, D, scale, causal
        {1, 1, 1, 1, 700, 64, 0.1f, 0, 0, 0},   {1, 8, 1, 600, 1, 128, 0.1f, 0, 0, 0},  // parts that lie apart
        {45, 13, 1, 60, 5, 128, 0.1f, 0, 0, 0},                                         // parts in turns
        {244, 1, 1, 20, 33, 64, 0.1f, 0, 0, 0},                                         // many works a block
        {89, 10, 1, 60, 5, 128, 0.1f, 0, 0, 0},                                         // and in turns
    };
    bool right = pairs_are_right(add, seed, drawn, 300, rounding);
    for (size_t n = 0; shares && n < sizeof shapes / sizeof *shapes && right; n++)
        right = pair_is_right(add, shapes[n], rounding);
    if (!right) printf("FAIL  %s\n", name);
    return right;
}

int main(void)
{
    const unsigned seed = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1;
    bool right = is_right("wb_attention_backward", wb_attention_backward, seed, 4, false);
    if (wb_device_capability() == 9) {
        right &= is_right("flash_gqa_backward_add_hopper", flash_gqa_backward_add_hopper, seed + 1, 16, true);
        right &= is_right("flash_gqa_backward_add_hopper_same_bits", flash_gqa_backward_add_hopper_same_bits, seed + 2,
                          16, true);
    }
    return !right;
}
