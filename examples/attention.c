// SPDX-License-Identifier: MIT
// attention.c - causal attention with grouped heads by libworkbook, beside the same written out. C11 and C++.
//   cc attention.c $(pkg-config --cflags --libs workbook) -lm
#include <workbook.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, KV_HEADS = 2, N = 200, D = 64, ROWS = HEADS * N, QS = ROWS * D, KS = KV_HEADS * N * D };

static bf16 Q[QS], K[KS], V[KS], O[QS];

static float to_float(bf16 x)
{
    union {
        uint32_t bits;
        float value;
    } u = {(uint32_t)x.bits << 16};
    return u.value;
}

static void check(wb_status status)
{
    if (status == WB_OK) return;
    fprintf(stderr, "%s: %s\n", wb_status_text(status), wb_last_message());
    exit(1);
}

static void *to_device(const void *host, size_t bytes)
{
    void *device;
    check(wb_device_alloc(&device, bytes));
    check(wb_copy_to_device(device, host, bytes));
    return device;
}

static void draw(bf16 *x, int count)  // from -2 to 2
{
    for (int i = 0; i < count; i++) x[i].bits = (uint16_t)((rand() & 1) << 15 | (0x3e00 + rand() % 0x200));
}

int main(void)
{
    draw(Q, QS), draw(K, KS), draw(V, KS);
    attention_shape shape = {1, HEADS, KV_HEADS, N, N, D, 0.125f, 1, 0, 0};
    bf16 *of_Q = (bf16 *)to_device(Q, sizeof Q), *of_K = (bf16 *)to_device(K, sizeof K);
    bf16 *of_V = (bf16 *)to_device(V, sizeof V), *of_O = (bf16 *)to_device(O, sizeof O);
    float *of_L;  // of each row the logarithm of the softmax's denominator, for a backward pass
    check(wb_device_alloc((void **)&of_L, ROWS * sizeof *of_L));
    check(flash_gqa(of_O, of_L, of_Q, of_K, of_V, &shape, NULL));
    check(wb_device_synchronize());
    check(wb_copy_to_host(O, of_O, sizeof O));

    double worst = 0;
    for (int row = 0; row < ROWS; row++) {
        const int i = row % N, kv = row / N * KV_HEADS / HEADS * N;
        double sum = 0, want[D] = {0};
        for (int j = 0; j <= i; j++) {
            double s = 0;
            for (int d = 0; d < D; d++) s += (double)to_float(Q[row * D + d]) * to_float(K[(kv + j) * D + d]);
            const double p = exp(s * shape.scale);
            sum += p;
            for (int d = 0; d < D; d++) want[d] += p * to_float(V[(kv + j) * D + d]);
        }
        for (int d = 0; d < D; d++) worst = fmax(worst, fabs(want[d] / sum - to_float(O[row * D + d])));
    }
    printf("libworkbook %s on %s: off by %.4f at most\n", wb_version(), wb_device_name(), worst);
    return !(worst < 0.02);
}
