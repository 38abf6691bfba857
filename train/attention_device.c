// attention_device.c - problems 07 and 09 on a GPU: 07.so and 09.so, loaded as the bench loads them, on the arrays where they lie. They share
// a process with the training, so that what ends them ends it: train.sh says how.
#include "attention.h"
#include "judge/session.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

static __typeof__(flash_sinks) *forward_07;
static __typeof__(flash_sinks_backward) *backward_09;
static char failure[512];

const char *kernel_failure(void) { return failure; }
const char *kernel_not_finite(void) { return ""; }  // the loss says it: nobody looks at arrays on the way

// A clock runs from a call until the device has been waited for (from_array): it ends a training whose kernels hang.
static void start_clock(void) { alarm((unsigned)ceil(session_timeout())); }
static void see(const char *name, wb_status status)
{
    if (status != WB_OK && !*failure)
        snprintf(failure, sizeof failure, "%s: %s: %s", name, wb_status_text(status), wb_last_message());
}
static void forward(const heads *x)
{
    start_clock();
    see("07", forward_07(x->O, x->L, x->Q, x->K, x->V, &x->shape, NULL));
}
static void backward(const heads *x)
{
    static float *delta;  // [B, Hq, T] of the largest
    static size_t room;
    const size_t rows = (size_t)x->shape.batch * x->shape.q_heads * x->shape.q_len;
    if (rows > room) delta = new_array(rows * sizeof *delta), room = rows;
    start_clock();
    see("09", backward_09(x->dQ, x->dK, x->dV, delta, x->Q, x->K, x->V, x->O, x->L, x->dO, &x->shape, NULL));
}

static void *symbol(const char *file, const char *name)
{
    void *const library = dlopen(file, RTLD_NOW), *const function = library ? dlsym(library, name) : NULL;
    if (!function) FAIL("there is no kernel: %s", dlerror());
    return function;
}
const attention *kernel_attention(const char *forward_path, const char *backward_path)
{
    static const attention kernels = {"kernels", forward, backward};
    forward_07 = (__typeof__(forward_07))symbol(forward_path, "flash_sinks");
    backward_09 = (__typeof__(backward_09))symbol(backward_path, "flash_sinks_backward");
    return &kernels;
}
