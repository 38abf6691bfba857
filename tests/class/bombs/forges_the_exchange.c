// rule: what a worker says about itself replaces no result
// expect: NaN or infinite
// Before main it takes the cases in the place of the worker, writes what the worker would (stage done, status ok, no memory used), and
// answers. The outputs are not there.
#include "exchange.h"

#include <sys/mman.h>
#include <unistd.h>

__attribute__((constructor)) static void before_main(void)
{
    char text[WB_CASE_TEXT];
    for (int served = 0, file; (file = wb_exchange_receive(3, text)) >= 0; served++) {
        wb_exchange *x = (wb_exchange *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (x != MAP_FAILED) x->stage = WB_STAGE_DONE;
        wb_exchange_answer(3, served);
    }
    _exit(0);
}

static wb_status bomb(void) { return WB_OK; }
