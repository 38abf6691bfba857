// tile_words.c - calls each kernel of tests/tile_kernels.cu once or twice, and judges nothing: a program for the check build and
// for compute-sanitizer.   tile_words --case products|loads|stores|each|rows|all
#include "../tile_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *numbers(size_t count, size_t size)
{
    unsigned char *p = malloc(count * size);
    if (!p) exit(2);
    for (size_t i = 0; i < count * size; i++) p[i] = (unsigned char)(0x3c + i % 5);  // small positive bf16 and floats
    return p;
}

static void products(void)
{
    static const int sizes[][3] = {{16, 32, 128}, {32, 64, 64}};
    for (int i = 0; i < 2; i++)
        for (int form = TILE_ABt; form <= TILE_AB_OPERAND; form++) {
            const int rows = sizes[i][0], cols = sizes[i][1], depth = sizes[i][2];
            uint16_t *a = numbers((size_t)2 * rows * depth, 2), *b = numbers((size_t)cols * depth, 2);
            float *a_float = numbers((size_t)2 * rows * depth, 4), *c = numbers((size_t)2 * rows * cols, 4);
            tile_product((tile_form)form, rows, cols, depth, a, a_float, b, c);
            free(a), free(b), free(a_float), free(c);
        }
}

static void loads(void)
{
    for (int rows = 64; rows > 0; rows -= 37) {
        uint16_t *src = numbers((size_t)rows * 64, 2), *dst = numbers(64 * 64, 2);
        tile_load(128, 64, 64, src, rows, dst);
        free(src), free(dst);
    }
}

static void stores(void)
{
    for (int rows = 32; rows > 0; rows -= 19) {
        float *tile = numbers(32 * 64, 4), *values = numbers(32, 4), *vec = numbers(32, 4);
        uint16_t *dst = numbers(32 * 64, 2), *smem = numbers(2 * 32 * 64, 2);
        tile_store(32, 64, tile, values, rows, 32, dst, smem, vec);
        free(tile), free(values), free(vec), free(dst), free(smem);
    }
}

static void each(void)
{
    float *row_values = numbers(32, 4), *col_values = numbers(48, 4);
    tile_visit *visits = calloc(32 * 48, sizeof *visits);
    tile_each(32, 48, row_values, 13, col_values, 33, visits);
    free(row_values), free(col_values), free(visits);
}

static void rows(void)
{
    float *tile = numbers(32 * 48, 4), *factors = numbers(32, 4), *out[5], a[16] = {1}, b[16] = {2}, y[8 * 16];
    int above[32];
    for (int i = 0; i < 5; i++) out[i] = numbers(2 * 32 * 48, 4);
    tile_rows(32, 48, tile, factors, out[0], out[1], out[2], out[3], out[4]);
    tile_algebra(a, b, y, above);
    free(tile), free(factors);
    for (int i = 0; i < 5; i++) free(out[i]);
}

int main(int argc, char **argv)
{
    const char *word = argc > 2 ? argv[2] : "all";
    const struct {
        const char *name;
        void (*call)(void);
    } words[] = {{"products", products}, {"loads", loads}, {"stores", stores}, {"each", each}, {"rows", rows}};
    int called = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, "all") == 0 || strcmp(word, words[i].name) == 0) words[i].call(), called++;
    if (!called) fprintf(stderr, "%s: no such case\n", word);
    return called ? 0 : 2;
}
