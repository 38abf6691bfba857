// library_wide.c - flash_wide in drawn shapes, beside sums in double, and what it refuses. Run by library.sh.
#include "dice.h"
#include "workbook.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { O, L, Q, K, V, TENSORS };
typedef struct tensor {
    size_t rows, cols, bytes;
    float *x;  // an input's numbers
    void *host, *device;
} tensor;

static bool is_right(attention_shape s)
{
    const size_t queries = (size_t)(s.batch * s.q_heads * s.q_len), keys = (size_t)(s.batch * s.kv_heads * s.kv_len),
                 D = (size_t)s.head_dim, DV = D == 192 ? 128 : D;
    tensor t[TENSORS] = {{queries, DV, 2, 0, 0, 0},
                         {queries, 1, 4, 0, 0, 0},
                         {queries, D, 2, 0, 0, 0},
                         {keys, D, 2, 0, 0, 0},
                         {keys, DV, 2, 0, 0, 0}};
    double *S = malloc(sizeof *S * (size_t)s.kv_len), far = 0, size = 0, far_L = 0;
    wb_status status = WB_OK;
    for (int k = 0; k < TENSORS && status == WB_OK; k++) {
        const size_t count = t[k].rows * t[k].cols;
        t[k].x = calloc(count, sizeof(float)), t[k].host = calloc(count, t[k].bytes);
        for (size_t i = 0; k >= Q && i < count; i++) {  // numbers that bf16 has
            t[k].x[i] = (float)(below(256) - 128) / 64;
            memcpy((char *)t[k].host + 2 * i, (char *)&t[k].x[i] + 2, 2);
        }
        status = wb_device_alloc(&t[k].device, count * t[k].bytes);
        if (status == WB_OK) status = wb_copy_to_device(t[k].device, t[k].host, count * t[k].bytes);
    }
    if (status == WB_OK) status = flash_wide(t[O].device, t[L].device, t[Q].device, t[K].device, t[V].device, &s, NULL);
    if (status == WB_OK) status = wb_device_synchronize();
    for (int k = O; k <= L && status == WB_OK; k++)
        status = wb_copy_to_host(t[k].host, t[k].device, t[k].rows * t[k].cols * t[k].bytes);
    for (size_t row = 0; row < queries && status == WB_OK; row++) {
        const size_t i = row % (size_t)s.q_len, head = row / (size_t)s.q_len, group = (size_t)(s.q_heads / s.kv_heads);
        const size_t key = head / group * (size_t)s.kv_len,
                     seen = (size_t)s.kv_len - (s.causal ? (size_t)s.q_len - 1 - i : 0);
        double most = -INFINITY, l = 0;
        for (size_t j = 0; j < seen; j++) {
            S[j] = 0;
            for (size_t d = 0; d < D; d++) S[j] += (double)t[Q].x[row * D + d] * t[K].x[(key + j) * D + d];
            most = fmax(most, S[j] *= s.scale);
        }
        for (size_t j = 0; j < seen; j++) l += S[j] = exp(S[j] - most);
        far_L = fmax(far_L, fabs(((float *)t[L].host)[row] - most - log(l)));
        for (size_t d = 0; d < DV; d++) {
            double want = 0;
            float got = 0;
            for (size_t j = 0; j < seen; j++) want += S[j] / l * t[V].x[(key + j) * DV + d];
            memcpy((char *)&got + 2, (char *)t[O].host + 2 * (row * DV + d), 2);
            far += (got - want) * (got - want), size += want * want;
        }
    }
    for (int k = 0; k < TENSORS; k++) wb_device_free(t[k].device), free(t[k].host), free(t[k].x);
    free(S);
    const bool right = status == WB_OK && far <= size * 0x1p-14 && far_L <= 1e-3;  // P and O are rounded to 2^-9
    if (!right)
        printf("B%d %d/%d N%d %d D%d causal %d: O off by %g, L by %g; %s\n", s.batch, s.q_heads, s.kv_heads, s.q_len,
               s.kv_len, s.head_dim, s.causal, sqrt(far / size), far_L, status == WB_OK ? "" : wb_last_message());
    return right;
}

static bool refuses(attention_shape s, const char *words)
{
    static double there[2];  // no kernel begins, so this may be host memory
    void *x = (void *)(((uintptr_t)there + 15) & ~(uintptr_t)15);
    const bool said =
        flash_wide(x, x, x, x, x, &s, NULL) != WB_OK && strncmp(wb_last_message(), words, strlen(words)) == 0;
    return said || !printf("not \"%s\", but \"%s\"\n", words, wb_last_message());
}

int main(void)
{
    dice_state = getenv("WB_SEED") ? (uint64_t)atoi(getenv("WB_SEED")) : 1;
    bool right =
        refuses((attention_shape){1, 2, 2, 9, 9, 48, 1, 0, 0, 0}, "flash_wide: head_dim = 48 is not supported, use") &&
        refuses((attention_shape){1, 3, 2, 9, 9, 256, 1, 0, 0, 0}, "flash_wide: q_heads = 3") &&
        refuses((attention_shape){1, 2, 2, 9, 0, 192, 1, 1, 0, 0}, "flash_wide: kv_len = 0") &&
        refuses((attention_shape){1, 2, 2, 9, 8, 192, 1, 1, 0, 0}, "flash_wide: causal needs q_len <= kv_len");
    for (int n = 0; wb_device_capability() == 9 && n < 16 && right; n++) {
        const int heads = 1 + below(2), D = n % 2 ? 256 : 192, causal = below(2), Nq = 1 + below(n < 8 ? 70 : 300);
        const int Nk = causal ? Nq + (below(2) ? 0 : below(150)) : 1 + below(300);
        right = is_right((attention_shape){1 + below(2), heads * (1 + below(3)), heads, Nq, Nk, D,
                                           (float)(1 / sqrt(D)) * (float)(1 + below(3)), causal, 0, 0});
    }
    return !right;
}
