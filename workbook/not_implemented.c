// not_implemented.c - stands in for the problems that have no answer key yet, so that libworkbook.so exports all nine. A key's own
// definition replaces the weak one here.
#include "workbook.h"

#define STAND_IN(name, ...)                                                                                            \
    __attribute__((weak)) wb_status name(__VA_ARGS__)                                                                  \
    {                                                                                                                  \
        return wb_fail(WB_NOT_IMPLEMENTED, "%s: this library was built without an answer key for it", #name);          \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define FORWARD                                                                                                        \
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream
#define BACKWARD                                                                                                       \
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,            \
        const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream

STAND_IN(tiled_attention, float *O, float *L, const float *Q, const float *K, const float *V,
         const attention_shape *shape)
STAND_IN(weighted_row_sum, float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
STAND_IN(flash_forward, FORWARD)
STAND_IN(flash_causal, FORWARD)
STAND_IN(flash_gqa, FORWARD)
STAND_IN(flash_window, FORWARD)
STAND_IN(flash_sinks, FORWARD)
STAND_IN(flash_gqa_backward, BACKWARD)
STAND_IN(flash_sinks_backward, BACKWARD)
