// library_forms.c - the library's functions that take a workspace, for the suites of those that take none: linked
// into the library's worker with --wrap=NAME, so that what the worker calls NAME is __wrap_NAME, and that is
// NAME_in or NAME_fastest (-DFORM=in). The workspace has as many bytes as the library asks for, no more, and NaNs
// in them.
#include "workbook.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, FILL = 0xff };

static char *lent;  // by the call before this one; it is done with it
static size_t lent_bytes;

// Whether the call before kept to its workspace. Frees that.
static wb_status take_back(const char *name)
{
    unsigned char guard[GUARD];
    if (!lent || !lent_bytes) return WB_OK;
    wb_status status = wb_copy_to_host(guard, lent + lent_bytes, GUARD);
    for (int i = 0; status == WB_OK && i < GUARD; i++)
        if (guard[i] != FILL)
            status = wb_fail(WB_DEVICE_ERROR, "%s wrote past the end of its workspace, at byte %d", name, i);
    wb_device_free(lent);
    lent = NULL, lent_bytes = 0;
    return status;
}

static wb_status lend(const char *name, size_t bytes, wb_stream stream)
{
    if (stream) {  // others may be under way, and nothing is waited for: memory of its own, until the process ends
        lent = NULL, lent_bytes = 0;
        return bytes ? wb_device_alloc((void **)&lent, bytes) : WB_OK;
    }
    wb_status status = take_back(name);
    if (status != WB_OK || bytes == 0) return status;
    char *fill = malloc(bytes + GUARD);
    if (!fill) return WB_OUT_OF_MEMORY;
    memset(fill, FILL, bytes + GUARD);
    status = wb_device_alloc((void **)&lent, bytes + GUARD);
    if (status == WB_OK) status = wb_copy_to_device(lent, fill, bytes + GUARD);
    free(fill);
    lent_bytes = bytes;
    return status;
}

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define WRAP(name, form, takes, ...) \
    wb_status __wrap_##name takes \
    { \
        const size_t bytes = name##_workspace(shape); \
        const wb_status status = lend(#name, bytes, stream); \
        return status == WB_OK ? JOIN(name##_, form)(lent, bytes, __VA_ARGS__, shape, stream) : status; \
    }
#define TENSORS const bf16 *Q, const bf16 *K, const bf16 *V
#define OF_O    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream

WRAP(flash_gqa_backward, FORM, (bf16 * dQ, bf16 *dK, bf16 *dV, float *delta, TENSORS, OF_O), dQ, dK, dV, delta, Q, K, V,
     O, L, dO)
// There is no fastest form of 09 and 12: they are linked where nothing calls it.
WRAP(flash_sinks_backward, in, (bf16 * dQ, bf16 *dK, bf16 *dV, float *delta, TENSORS, OF_O), dQ, dK, dV, delta, Q, K, V,
     O, L, dO)
WRAP(flash_sink_logits_backward, in,
     (bf16 * dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, TENSORS, const float *sink_logits, OF_O), dQ, dK, dV,
     dsinks, delta, Q, K, V, sink_logits, O, L, dO)
