// attention_device.c - problems 07 and 09 on a GPU: 07.so and 09.so, loaded as the bench loads them, on the arrays where they lie.
#include "attention.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef wb_status forward_function(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                   const attention_shape *, wb_stream);
typedef wb_status backward_function(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,
                                    const bf16 *V, const bf16 *O, const float *L, const bf16 *dO,
                                    const attention_shape *, wb_stream);
static forward_function *forward_07;
static backward_function *backward_09;
static char failure[512];

const char *kernel_failure(void) { return failure; }
const char *kernel_not_finite(void) { return ""; }  // the loss says it: nobody looks at arrays on the way

static void see(const char *name, wb_status status)
{
    if (status != WB_OK && !*failure)
        snprintf(failure, sizeof failure, "%s: %s: %s", name, wb_status_text(status), wb_last_message());
}
static void forward(act *O, real *L, const act *Q, const act *K, const act *V, const attention_shape *shape)
{
    see("07", forward_07(O, L, Q, K, V, shape, NULL));
}
static void backward(act *dQ, act *dK, act *dV, const act *Q, const act *K, const act *V, const act *O, const real *L,
                     const act *dO, const attention_shape *shape)
{
    static float *delta;  // [B, Hq, T] of the largest
    static size_t room;
    const size_t rows = (size_t)shape->batch * shape->q_heads * shape->q_len;
    if (rows > room) delta = new_array(rows * sizeof *delta), room = rows;
    see("09", backward_09(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, NULL));
}

static void *symbol(const char *file, const char *name)
{
    void *const library = dlopen(file, RTLD_NOW), *const function = library ? dlsym(library, name) : NULL;
    if (!function) fprintf(stderr, "train: there is no kernel: %s\n", dlerror()), exit(2);
    return function;
}
const attention *kernel_attention(const char *forward_path, const char *backward_path)
{
    static const attention kernels = {"kernels", forward, backward};
    forward_07 = (forward_function *)symbol(forward_path, "flash_sinks");
    backward_09 = (backward_function *)symbol(backward_path, "flash_sinks_backward");
    return &kernels;
}
