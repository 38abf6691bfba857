// drawn.h - what programs of the check build that draw what they run have in common.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned seed;
static unsigned draw(unsigned n)  // 0 to n - 1
{
    seed = seed * 1664525u + 1013904223u;
    return (unsigned)((uint64_t)(seed >> 8) * n >> 24);
}
static long draw_order() { return draw(2) ? draw(1000) : draw(2); }  // of threads: wb_run_in_order()

// What the check build says of run(order), in a process of its own; returns its exit status.
static int said_of(void (*run)(long order), long order, std::string &said)
{
    int ends[2], status;
    if (pipe(ends)) return -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]), close(ends[1]);
        const struct rlimit seconds = {60, 70};  // of a processor
        setrlimit(RLIMIT_CPU, &seconds);
        run(order);
        exit(0);
    }
    close(ends[1]);
    char some[4096];
    for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;) said.append(some, (size_t)n);
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}
