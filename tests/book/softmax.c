// softmax.c - problem 01's own functions on its worked numbers, a line for each tile and one at the end: what the book's softmax.js must say.
// Compiled with the answer key, and with an edit of it that has a mistake: SOURCE.
#include SOURCE

#include <stdio.h>

wb_status wb_check_forward(const char *name, const void *O, const void *L, const void *Q, const void *K, const void *V,
                           const attention_shape *shape)
{
    (void)name, (void)O, (void)L, (void)Q, (void)K, (void)V, (void)shape;
    return WB_OK;
}

// Everything is printed with m in base e.
static void walk(const char *name, const float *scores, int n, const float *V, int D, int tile)
{
    float S[BC], O[8] = {0}, m = -FLT_MAX, l = 0, L;
    for (int j0 = 0; j0 < n; j0 += tile) {
        const int cols = min_int(tile, n - j0);
        for (int j = 0; j < cols; j++) S[j] = scores[j0 + j] * LOG2_E;
        online_softmax(S, O, &m, &l, 1, cols, D);
        for (int j = 0; j < cols; j++)
            for (int d = 0; d < D; d++) O[d] += S[j] * V[(j0 + j) * D + d];
        printf("%s\t%d\taccumulate\t%d\t%.7g\t%.7g", name, tile, j0, m * LN_2, l);
        for (int d = 0; d < D; d++) printf("\t%.7g", O[d]);
        printf("\n");
    }
    finalize(O, &L, &m, &l, 1, D);
    printf("%s\t%d\tfinalize\t%d\t%.7g\t%.7g", name, tile, n, L, l);
    for (int d = 0; d < D; d++) printf("\t%.7g", O[d]);
    printf("\n");
}

int main(void)
{
    static const float four[] = {2, 5, 1, 4}, unit[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    static const float three[] = {.5f, .8f, .1f}, values[] = {1, 0, 0, 1, .5f, .5f};
    for (int tile = 1; tile <= 4; tile++) walk("four", four, 4, unit, 4, tile);
    for (int tile = 1; tile <= 3; tile++) walk("worked", three, 3, values, 2, tile);
}
