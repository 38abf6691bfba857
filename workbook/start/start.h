// start.h - which process of how many am I, which GPU is mine, and a few bytes from rank 0 to all: whatever started us. No MPI is linked.
//
//   torchrun --nproc_per_node 4 --no-python ./program      mpirun -np 4 ./program      srun -n 4 ./program
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
    int local;                // which of the processes on this machine: its GPU, modulo how many it sees
    const char *by;           // what said so, for messages
    char host[256], port[8];  // where rank 0 listens
} wb_start;

// Whether any launcher has said which rank this process is.
bool wb_was_started(void);

// Reads what the launcher says; without one, of one rank. WB_MASTER=host:port says where rank 0 listens; without it torchrun's MASTER_ADDR and the port
// after its MASTER_PORT; on one machine nothing need be said. WB_BAD_ARGUMENT and a sentence that names the variable.
wb_status wb_start_read(wb_start *start);

// Rank 0 gives `bytes` bytes to all others, once, over TCP. All call it; all wait `seconds` at most. WB_DEVICE_ERROR and a sentence: who did not come.
// The network between ranks is trusted, as NCCL trusts it: who knows the port and says it is a rank gets the bytes. Nobody else's are taken by rank 0.
wb_status wb_start_share(const wb_start *start, void *data, size_t bytes, int seconds);

#ifdef __cplusplus
}
#endif
