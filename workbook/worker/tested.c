// tested.c - the function under test, to the worker that calls it. Compiled once a problem, with its name as WB_NAME.
#include "worker/run.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

// Its companion, WB_NAME with _workspace behind it, where it has one.
extern size_t workspace_of(const void *shape, const wb_ring *ring) __asm__(STRING(WB_NAME) "_workspace")
    __attribute__((weak));

const wb_tested wb_under_test = {STRING(WB_NAME), (wb_function)WB_NAME, workspace_of};
