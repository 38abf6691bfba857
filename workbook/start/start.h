// start.h - which process of how many am I, which GPU is mine, and a few bytes from rank 0 to all: whatever started us.
//
//   torchrun --nproc_per_node 4 --no-python ./program      srun -n 4 ./program
//   RANK=0 WORLD_SIZE=2 ./program & RANK=1 WORLD_SIZE=2 ./program                      by hand
#pragma once

#include "workbook.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wb_start {
    int rank, ranks;
    int local;       // which of the processes on this machine: its GPU, modulo how many it sees
    const char *by;  // what said so, for messages; null: nobody has
    char file[256];  // in which rank 0 tells the others
} wb_start;

// Reads what the launcher says; without one, of one rank. WB_BAD_ARGUMENT and a sentence that names the variable.
wb_status wb_start_read(wb_start *start);

// Rank 0 gives `bytes` bytes to all others, once, in a file that all see: WB_ID=FILE, or one of the current folder that
// has the run's name. All call it; the others wait `seconds` at most. WB_DEVICE_ERROR and a sentence. Whoever can write
// into that folder is trusted, as the network between ranks is.
wb_status wb_start_share(const wb_start *start, void *data, size_t bytes, int seconds);
void wb_start_shared(const wb_start *start);  // all have it: the file goes

#ifdef __cplusplus
}
#endif
