// in_a_child.h - a call in a child, and one in several, each a rank, for suites of code whose mistakes end the process.
#pragma once

#include "layer_requests.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char printed[16384];

// Runs f in a child; `printed` receives its stderr. Returns its status as waitpid gives it.
static inline int run_in_a_child(void (*f)(void))
{
    int ends[2], status;
    if (pipe(ends)) abort();
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]), close(ends[1]);
        f();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n;
         length < sizeof printed - 1 && (n = read(ends[0], printed + length, sizeof printed - 1 - length)) > 0;)
        length += (size_t)n;
    printed[length] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}

// That it ended with a report of the CPU layer, which has this status.
static inline void check_reported(int status)
{
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 66, "status %#x, not a report:\n%s", (unsigned)status,
              printed);
}

static inline void check_printed(const char *words)
{
    cr_assert(strstr(printed, words), "\"%s\" is missing in:\n%s", words, printed);
}

// For run_in_a_child(): R ranks. The first that ends badly ends all, and that is how this ends.
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
