// ring.cu - the answer key of 17 as right(), and a function that calls it: ring.diff makes of it a rank that cheats or dies among others.
#include "workbook.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define flash_ring           right
#define flash_ring_workspace right_workspace
#include "../../../../solutions/17/flash_ring.cu"  // from build/cpu/hostile_ring/NAME, where this is compiled
#undef flash_ring
#undef flash_ring_workspace
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-function"

// What all ranks share, as far as a rank can find it: what is mapped of a file that has no name and is the largest.
static char *board(size_t *bytes)
{
    char line[512], *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    *bytes = 0;
    for (unsigned long from, to; maps && fgets(line, sizeof line, maps);)
        if (strstr(line, "memfd:workbook") && sscanf(line, "%lx-%lx", &from, &to) == 2 && to - from > *bytes)
            found = (char *)from, *bytes = to - from;
    if (maps) fclose(maps);
    return found;
}

size_t flash_ring_workspace(const attention_shape *shape, const wb_ring *ring) { return right_workspace(shape, ring); }

wb_status flash_ring(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, void *workspace, size_t bytes,
                     const attention_shape *shape, const wb_ring *ring, wb_stream stream)
{
    const bool second = ring->rank == 1;
    return right(O, L, Q, K, V, workspace, bytes, shape, ring, stream);
}
