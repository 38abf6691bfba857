// library.c - libworkbook.so from outside: plain C99, the public header, nothing else. Run by library.sh.
#include "workbook.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 50, D = 16, ELEMENTS = N * D };

static int failed(const char *what, wb_status status)
{
    printf("%s: %s: %s\n", what, wb_status_text(status), wb_last_message());
    return 1;
}

int main(void)
{
    // V = 1, so O = 1 whatever the scores are; with Q = 0 every weight is 1 / N and L = log(N).
    static float Q[ELEMENTS], V[ELEMENTS], O[ELEMENTS], L[N];
    static bf16 zero[ELEMENTS], one[ELEMENTS], out[ELEMENTS];
    attention_shape shape = {1, 1, 1, N, N, D, 0.25f, 0, 0, 0};
    for (int i = 0; i < ELEMENTS; i++) V[i] = 1, one[i].bits = 0x3f80;
    wb_status status = tiled_attention(O, L, Q, Q, V, &shape);
    if (status != WB_OK) return failed("tiled_attention", status);
    for (int i = 0; i < N; i++)
        if (!(fabsf(O[i * D] - 1) < 1e-6f && fabsf(L[i] - logf(N)) < 1e-5f))
            return printf("tiled_attention: row %d is wrong\n", i);

    void *device[4];  // O, L, Q = K, V
    const size_t bytes[4] = {sizeof out, sizeof L, sizeof zero, sizeof one};
    const void *host[4] = {out, L, zero, one};
    for (int k = 0; k < 4; k++) {
        if ((status = wb_device_alloc(&device[k], bytes[k])) != WB_OK) return failed("wb_device_alloc", status);
        if ((status = wb_copy_to_device(device[k], host[k], bytes[k])) != WB_OK)
            return failed("wb_copy_to_device", status);
    }
    memset(L, 0, sizeof L);
    status = flash_forward(device[0], device[1], device[2], device[2], device[3], &shape, NULL);
    if (status == WB_OK) status = wb_device_synchronize();
    if (status == WB_OK) status = wb_copy_to_host(out, device[0], sizeof out);
    if (status == WB_OK) status = wb_copy_to_host(L, device[1], sizeof L);
    if (status != WB_OK) return failed("flash_forward", status);
    for (int i = 0; i < ELEMENTS; i++)
        if (out[i].bits != 0x3f80) return printf("flash_forward: element %d of O is not 1\n", i);
    for (int i = 0; i < N; i++)
        if (!(fabsf(L[i] - logf(N)) < 1e-5f)) return printf("flash_forward: L[%d] is wrong\n", i);
    for (int k = 0; k < 4; k++)
        if ((status = wb_device_free(device[k])) != WB_OK) return failed("wb_device_free", status);

    status = flash_gqa(NULL, NULL, NULL, NULL, NULL, &shape, NULL);
    if (status != WB_BAD_ARGUMENT || !strstr(wb_last_message(), "O is null"))
        return printf("flash_gqa took null pointers\n");
    printf("the library answers on: %s\n", wb_device_name());
    return 0;
}
