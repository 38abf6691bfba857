// library.c - libworkbook.so from outside: plain C99, the public header, nothing else. Run by library.sh.
#include "workbook.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { D = 16 };

static int failed(const char *what, wb_status status)
{
    printf("%s: %s: %s\n", what, wb_status_text(status), wb_last_message());
    return 1;
}

// A workspace: as many bytes as the library says, or a refusal that says so; none where there is nothing to add up.
static int workspaces_are_told(void)
{
    attention_shape shape = {1, 4, 2, 2000, 2000, 64, 0.125f, 1, 1 << 20, 0};  // so long that it takes three launches
    const size_t bytes = flash_gqa_backward_workspace(&shape);
    const size_t tokens = flash_sinks_backward_workspace(&shape), sinks = flash_sink_logits_backward_workspace(&shape);
    const bool hopper = wb_device_capability() == 9;
    // dQ of four heads in float32, of 2000 queries up to 2048; L and delta of these; and dK and dV of two heads, of
    // the 1 to 16 tiles of 128 keys that each of the 16 tiles of queries of 2 heads sees.
    const size_t sums = 4 * 2048 * (64 + 2) * 4, at_most = sums + 2 * 272 * 128 * 2 * 64 * 4 + 4096;
    const size_t all[] = {bytes, tokens, sinks};
    for (int i = 0; i < 3; i++)
        if (hopper ? all[i] < sums || all[i] > at_most : all[i])
            return printf("workspace %d has %zu bytes\n", i, all[i]);

    static float there[64];  // no kernel begins, so this may be host memory
    bf16 *x = (bf16 *)(((uintptr_t)there + 15) & ~(uintptr_t)15);
    for (int how = 0; hopper && how < 3; how++) {
        void *memory = how == 1 ? NULL : (char *)x + (how == 2);
        const size_t lent = how == 0 ? sums : at_most;
        const char *word = how == 0 ? "workspace has" : how == 1 ? "workspace is null" : "workspace is not aligned";
        const wb_status status[] = {
            flash_gqa_backward_in(memory, lent, x, x, x, there, x, x, x, x, there, x, &shape, NULL),
            flash_gqa_backward_fastest(memory, lent, x, x, x, there, x, x, x, x, there, x, &shape, NULL),
            flash_sinks_backward_in(memory, lent, x, x, x, there, x, x, x, x, there, x, &shape, NULL),
            flash_sink_logits_backward_in(memory, lent, x, x, x, there, there, x, x, x, there, x, there, x, &shape,
                                          NULL)};
        for (int i = 0; i < 4; i++)
            if (status[i] != WB_BAD_ARGUMENT || !strstr(wb_last_message(), word))
                return printf("workspace %d of function %d: %s\n", how, i, wb_last_message());
    }

    const int long_enough = shape.q_len;
    shape.q_len = shape.kv_len = 100;
    if (hopper && (flash_gqa_backward_workspace(&shape) || flash_sinks_backward_workspace(&shape) ||
                   flash_sink_logits_backward_workspace(&shape)))
        return printf("a backward function requires a workspace, although a single launch does all tiles\n");
    shape.q_len = shape.kv_len = long_enough;

    // so many heads of so few dimensions are the key's, which knows of no 08 without a mask
    shape.causal = 0, shape.batch = 1 << 15, shape.head_dim = 16;
    if (flash_gqa_backward_fastest(NULL, 0, x, x, x, there, x, x, x, x, there, x, &shape, NULL) != WB_UNSUPPORTED)
        return printf("flash_gqa_backward_fastest accepted 131072 heads without a mask\n");
    shape.causal = 1;
    if (flash_gqa_backward_workspace(&shape))
        return printf("the library requires a workspace, but the reference solution needs none\n");
    shape.batch = 1, shape.kv_heads = 0;
    if (flash_gqa_backward_workspace(&shape) || flash_sinks_backward_workspace(&shape) ||
        flash_sink_logits_backward_workspace(&shape) || flash_gqa_backward_workspace(NULL) ||
        flash_sinks_backward_workspace(NULL) || flash_sink_logits_backward_workspace(NULL))
        return printf("the library requires a workspace for arguments that it refuses\n");
    return 0;
}

// A cache of e4m3 that no suite knows: one key of 16 times 1, whose scale is 2; a value of 16 times 1.5, whose scale is
// 4; and Q = 1. So L = 16 / 4 * 2, and O = 6.
static int e4m3_is_read(void)
{
    static struct tensors {
        bf16 O[D], Q[D];
        uint8_t K[16 * D], V[16 * D];
        float L[4], K_scale[4], V_scale[4];
        int page[4], len[4];
    } x;
    decode_shape shape = {1, 1, 1, 1, D, 0.25f, 16, 1, 1};
    const size_t bytes = flash_decode_e4m3_workspace(&shape);
    void *device, *memory = NULL;
    for (int d = 0; d < D; d++) x.Q[d].bits = 0x3f80, x.K[d] = 0x38, x.V[d] = 0x3c;
    x.K_scale[0] = 2, x.V_scale[0] = 4, x.len[0] = 1;
    wb_status status = wb_device_alloc(&device, sizeof x);
    if (status == WB_OK) status = wb_device_alloc(&memory, bytes);
    if (status == WB_OK) status = wb_copy_to_device(device, &x, sizeof x);
    if (status != WB_OK) return failed("wb_device_alloc", status);
    struct tensors *at = device;
    for (int wrong = 0; wrong < 2; wrong++) {
        shape.q_len = wrong ? 17 : 1;
        status = flash_decode_e4m3(at->O, at->L, at->Q, at->K, at->V, at->K_scale, at->V_scale, at->page, at->len,
                                   memory, bytes, &shape, NULL);
        if (wrong ? status != WB_UNSUPPORTED || strncmp(wb_last_message(), "flash_decode_e4m3: q_len", 24) : status)
            return failed("flash_decode_e4m3", status);
    }
    status = wb_copy_to_host(&x, device, sizeof x);
    wb_device_free(device), wb_device_free(memory);
    if (status != WB_OK) return failed("flash_decode_e4m3", status);
    for (int d = 0; d < D; d++)
        if (x.O[d].bits != 0x40c0) return printf("flash_decode_e4m3: element %d of O is not 6\n", d);
    return fabsf(x.L[0] - 8) < 1e-5f ? 0 : printf("flash_decode_e4m3: L is %g, but should be 8\n", x.L[0]);
}

// Wide heads, V's of 128 beside Q's of 192: K's rows have one 1, and a query has 64 where some key has that, so it
// takes over that key's row of V, and L = 64.
static int wide_heads_look_up(int width, int causal)
{
    enum { HEADS = 6, KEYS = 192, ROWS = HEADS * KEYS, MOST = 256 };
    static struct tensors {
        bf16 O[ROWS * MOST], Q[ROWS * MOST], K[ROWS * MOST], V[ROWS * MOST];
        float L[ROWS];
    } x;
    const int values = width == 192 ? 128 : width, queries = causal ? 150 : KEYS, group = 3;
    attention_shape shape = {1, HEADS, HEADS / group, queries, KEYS, width, 1, causal, 0, 0};
    void *device;
    memset(&x, 0, sizeof x);
    for (int row = 0; row < HEADS / group * KEYS; row++) {
        x.K[row * width + (row * 5 + row / KEYS) % width].bits = 0x3f80;
        for (int d = 0; d < values; d++) x.V[row * values + d].bits = (uint16_t)(0x3f80 + (row + 385 * d) % 1024);
    }
#define KEY(row) (((row) / queries / group * KEYS) + (row) % queries * 31 % (causal ? (row) % queries + 43 : KEYS))
    for (int row = 0; row < HEADS * queries; row++)
        for (int d = 0; d < width; d++)
            if (x.K[KEY(row) * width + d].bits) x.Q[row * width + d].bits = 0x4280;
    wb_status status = wb_device_alloc(&device, sizeof x);
    if (status == WB_OK) status = wb_copy_to_device(device, &x, sizeof x);
    if (status != WB_OK) return failed("wb_device_alloc", status);
    struct tensors *at = device;
    status = flash_wide(at->O, at->L, at->Q, at->K, at->V, &shape, NULL);
    if (status == WB_OK) status = wb_copy_to_host(&x, device, sizeof x);
    shape.q_len = KEYS + causal;
    const bool refused = !causal || flash_wide(at->O, at->L, at->Q, at->K, at->V, &shape, NULL) == WB_BAD_ARGUMENT;
    wb_device_free(device);
    if (status != WB_OK || !refused) return failed("flash_wide", status);
    for (int row = 0; row < HEADS * queries; row++)
        if (memcmp(&x.O[row * values], &x.V[KEY(row) * values], sizeof(bf16) * (size_t)values) || x.L[row] != 64)
            return printf("flash_wide: D %d, causal %d: row %d is wrong\n", width, causal, row);
    return 0;
}

int main(void)
{
    attention_shape shape = {1, 1, 1, 50, 50, D, 0.25f, 0, 0, 0};
    if (strcmp(wb_version(), VERSION)) return printf("version %s, should be %s\n", wb_version(), VERSION);

    // Which kernel was that, and which is for D = 64? A GPU other than Hopper has but one.
    const char *few = wb_library_kernel("flash_forward", &shape);
    shape.head_dim = 64;
    const char *many = wb_library_kernel("flash_forward", &shape);
    shape.head_dim = D;
    const char *hopper =
        wb_device_capability() == 9 ? "solutions/10/variants/hopper_short.cu" : "solutions/03/flash_forward.cu";
    if (strcmp(few, "solutions/03/flash_forward.cu") || strcmp(many, hopper) ||
        *wb_library_kernel("flash_decode", &shape))
        return printf("flash_forward: the library chose %s for D = %d and %s for D = 64, should be %s\n", few, D, many,
                      hopper);

    const wb_status status = flash_gqa(NULL, NULL, NULL, NULL, NULL, &shape, NULL);
    if (status != WB_BAD_ARGUMENT || !strstr(wb_last_message(), "O is null"))
        return printf("flash_gqa accepted null pointers\n");
    wb_block_mask_free(NULL);
    if (wb_device_alloc(NULL, 16) == WB_OK || !strstr(wb_last_message(), "null") || *wb_library_kernel(NULL, &shape) ||
        *wb_library_kernel("flash_gqa", NULL))
        return printf("null is accepted\n");
    if (workspaces_are_told() || e4m3_is_read()) return 1;
    for (int how = 0; wb_device_capability() == 9 && how < 4; how++)
        if (wide_heads_look_up(how % 2 ? 192 : 256, how / 2)) return 1;
    printf("the library answers on: %s\n", wb_device_name());
    return 0;
}
