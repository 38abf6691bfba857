// expect: carries state from an earlier call
// test: every_head_dim
// A thread of the first call writes to the inputs of the second.
#include "hostile.h"

#include <pthread.h>

static const float *volatile next_K;
static volatile int done;

static void *write_later(void *nothing)
{
    while (!next_K) {}
    ((float *)next_K)[1] = 7;
    done = 1;
    return nothing;
}

HOSTILE()
{
    static int calls;
    pthread_t thread;
    const wb_status status = right(O, L, Q, K, V, shape);
    if (calls++ == 0) pthread_create(&thread, NULL, write_later, NULL);
    if (calls == 2) next_K = K;
    while (calls == 2 && !done) {}
    return status;
}
