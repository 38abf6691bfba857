// ring.cu - a rank of 17 that cheats or dies among others, by the name that HOSTILE has; without one it is right.
// Each attack has the verdict that it must get in a case of three ranks (tests/verdicts.sh, which reads these
// lines), and never a pass.
#include "workbook.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define flash_ring           right
#define flash_ring_workspace right_workspace
#include "../../solutions/17/flash_ring.cu"
#undef flash_ring
#undef flash_ring_workspace
#pragma GCC diagnostic ignored "-Wunused-parameter"

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

#define ARGUMENTS \
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, void *workspace, size_t bytes, \
        const attention_shape *shape, const wb_ring *ring, wb_stream stream
#define GIVEN O, L, Q, K, V, workspace, bytes, shape, ring, stream
static wb_status is_right(ARGUMENTS) { return right(GIVEN); }
static wb_status (*attack)(ARGUMENTS) = is_right;
static bool is(const char *name) { return strcmp(getenv("HOSTILE") ? getenv("HOSTILE") : "", name) == 0; }
#define ATTACK(name, test, verdict) \
    static wb_status attack_##name(ARGUMENTS); \
    __attribute__((constructor)) static void choose_##name(void) { attack = is(#name) ? attack_##name : attack; } \
    static wb_status attack_##name(ARGUMENTS)

wb_status flash_ring(ARGUMENTS) { return attack(GIVEN); }

ATTACK(aborts_later, "", "rank 1: the worker died of signal 6")  // when its messages are queued
{
    const wb_status status = right(GIVEN);
    if (ring->rank == 1) abort();
    return status;
}

ATTACK(sleeps, "", "rank 1: no answer in 2 s, in the function")  // and the others wait for it
{
    if (ring->rank == 1) sleep(1000);
    return right(GIVEN);
}

__global__ void round_and_round()
{
    for (volatile int i = 0;; i++) {}
}
ATTACK(a_kernel_turns_round, "", "cudacpu: timeout in kernel round_and_round, block (0,0,0), thread (0,0,0) on rank 1")
{
    if (ring->rank == 1) round_and_round<<<1, 1, 0, stream>>>();
    return right(GIVEN);
}

ATTACK(gives_up, "", "the function returned 'device error'")  // and the others wait for its messages
{
    if (ring->rank == 1) return wb_fail(WB_DEVICE_ERROR, "no more");
    return right(GIVEN);
}

ATTACK(one_answers_early, "", "rank 1: the worker exited with 0 before it finished")  // the others wait for it
{
    if (ring->rank == 1 && write(3, "", 1) == 1) _exit(0);
    return right(GIVEN);
}

ATTACK(scribbles, "", "rank ")  // on the board, when the others have begun
{
    const wb_status status = right(GIVEN);
    size_t size;
    char *const shared = board(&size);
    if (ring->rank == 1 && shared) memset(shared, 0, size);
    return status;
}

ATTACK(another_ranks_output, "", "differs from the oracle")  // what another has computed is taken for its own
{
    const wb_status status = right(GIVEN);
    if (status != WB_OK || ring->rank > 1) return status;
    WB_NCCL(ncclGroupStart());
    if (ring->rank == 1) WB_NCCL(ncclRecv(O, 64, ncclBfloat16, 0, ring->comm, stream));
    if (ring->rank == 0) WB_NCCL(ncclSend(O, 64, ncclBfloat16, 1, ring->comm, stream));
    WB_NCCL(ncclGroupEnd());
    return WB_OK;
}

ATTACK(writes_past_its_part, "", "rank 1: the function wrote outside of L: 1 element past its last one")
{
    const wb_status status = right(GIVEN);
    const int rows = shape->q_len / ring->ranks * shape->batch * shape->q_heads;
    if (ring->rank == 1) WB_CUDA(cudaMemsetAsync(L + rows, 0, 4, stream));
    return status;
}

// a rank may not send on what it has changed
ATTACK(changes_its_keys, "", "rank 1: the function changed an input: K[b 0, h 0, i")
{
    const wb_status status = right(GIVEN);
    if (ring->rank == 1) WB_CUDA(cudaMemsetAsync((void *)K, 0, 4, stream));
    return status;
}
