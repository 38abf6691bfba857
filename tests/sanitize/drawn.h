// drawn.h - what programs of the check build that draw what they run have in common.
#pragma once

#include "in_a_child.h"

#include <stdint.h>
#include <sys/resource.h>

static unsigned seed;
static unsigned draw(unsigned n)  // 0 to n - 1
{
    seed = seed * 1664525u + 1013904223u;
    return (unsigned)((uint64_t)(seed >> 8) * n >> 24);
}
// What the check build says of run(), in a process of its own, is `printed`; returns its status.
static long order;
static void run();
static int status_of_run()
{
    order = draw(2) ? draw(1000) : draw(2);  // of threads: wb_run_in_order()
    return run_in_a_child([] {
        const struct rlimit seconds = {60, 70};  // of a processor
        setrlimit(RLIMIT_CPU, &seconds);
        run();
        exit(0);
    });
}
