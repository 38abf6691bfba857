// refused.c - names what the judge keeps to itself: no worker can be linked of it, and the linker finds none of
// these (tests/verdicts.sh).
#include "workbook.h"
#include "worker/exchange.h"

extern bool watching(void) __asm__("_ZN7cudacpu8watchingEv");  // it would read all tiles, unless somebody looks
extern long order __asm__("_ZN7cudacpu5orderE");               // the order in which threads run
extern void end(void) __asm__("wb_watch_end");                 // layer_requests.h has it as one that may be missing
extern void wb_memory_reset_peak(void);
extern void __gcov_reset(void);  // nothing has run

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    char text[WB_CASE_TEXT];
    if (!O || !L || !Q || !K || !V || !shape) return WB_BAD_ARGUMENT;
    if (watching()) order = 0;
    end();
    __gcov_reset();
    wb_memory_reset_peak();
    wb_exchange_receive(3, text, (int[MOST_FILES]){0});  // the next case, in the place of the worker
    return WB_OK;
}
