// attention_device.c - problems 07 and 09 on a GPU: 07.so and 09.so, loaded as the bench loads them, on the arrays
// where they lie. They share a process with the training, so that what ends them ends it: train.sh says how.
#include "attention.h"
#include "judge/session.h"
#include "ranks.h"

#include <dlfcn.h>

static __typeof__(flash_sinks) *forward_07;
static __typeof__(flash_sinks_backward) *backward_09;
static __typeof__(flash_ring) *forward_17;
static __typeof__(flash_ring_backward) *backward_18;
static __typeof__(flash_ring_workspace) *room_of_17, *room_of_18;
static char failure[512];

const char *kernel_failure(void) { return failure; }
const char *kernel_not_finite(void) { return ""; }  // the loss says it: nobody looks at arrays on the way

// A clock runs from a call until the device has been waited for (from_array): it ends a training whose kernels hang.
static void start_clock(void) { answer_within(session_timeout()); }
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
static float *delta_of(const heads *x)
{
    static float *delta;  // [B, Hq, T] of the largest
    static size_t room;
    const size_t rows = (size_t)x->pieces.B * x->shape.q_heads * (x->pieces.T + x->pieces.room);
    if (rows > room) delta = new_array(rows * sizeof *delta), room = rows;
    return delta;
}
static void backward(const heads *x)
{
    start_clock();
    see("09", backward_09(x->dQ, x->dK, x->dV, delta_of(x), x->Q, x->K, x->V, x->O, x->L, x->dO, &x->shape, NULL));
}

static void *workspace(size_t bytes)
{
    static void *memory;  // of the largest
    static size_t room;
    if (bytes > room) memory = new_array(bytes), room = bytes;
    return memory;
}
static void ring_forward(const heads *x)
{
    const wb_ring ring = ranks_ring();
    const size_t bytes = room_of_17(&x->shape, &ring);
    start_clock();
    see("17", forward_17(x->O, x->L, x->Q, x->K, x->V, workspace(bytes), bytes, &x->shape, &ring, NULL));
}
static void ring_backward(const heads *x)
{
    const wb_ring ring = ranks_ring();
    const size_t bytes = room_of_18(&x->shape, &ring);
    start_clock();
    see("18", backward_18(x->dQ, x->dK, x->dV, delta_of(x), x->Q, x->K, x->V, x->O, x->L, x->dO, workspace(bytes),
                          bytes, &x->shape, &ring, NULL));
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
const attention *kernel_ring(const char *forward_path, const char *backward_path)
{
    static const attention kernels = {"ring", ring_forward, ring_backward};
    forward_17 = (__typeof__(forward_17))symbol(forward_path, "flash_ring");
    room_of_17 = (__typeof__(room_of_17))symbol(forward_path, "flash_ring_workspace");
    backward_18 = (__typeof__(backward_18))symbol(backward_path, "flash_ring_backward");
    room_of_18 = (__typeof__(room_of_18))symbol(backward_path, "flash_ring_backward_workspace");
    return &kernels;
}
