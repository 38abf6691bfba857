// play_ranks.h - several ranks for the suites of the CPU execution layer, each a process of its own.
#pragma once

#include "apart.h"
#include "asks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

// For run_apart(): R ranks. The first that ends badly ends all, and that is how this ends.
static inline void play_ranks(int R, void (*be_rank)(void *board, int rank))
{
    const size_t arena = 1 << 24;
    void *board =
        mmap(NULL, wb_board_bytes(arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    wb_board_make(board, arena, R);
    pid_t *ranks = (pid_t *)calloc((size_t)R, sizeof *ranks);
    for (int r = 0; r < R; r++)
        if ((ranks[r] = fork()) == 0) be_rank(board, r), _exit(0);
    int ended = 0;
    for (int left = R, status; left; left--) {
        wait(&status);
        if (!status || ended) continue;
        if (WIFSIGNALED(status)) fprintf(stderr, "a rank died of signal %d\n", WTERMSIG(status));
        ended = WIFEXITED(status) ? WEXITSTATUS(status) : 99;
        for (int r = 0; r < R; r++) kill(ranks[r], SIGKILL);
    }
    free(ranks);
    if (ended) _exit(ended);
}
