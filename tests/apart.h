// apart.h - a call in a child, for suites of code whose mistakes end the process.
#pragma once

#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char printed[16384];

// Runs f in a child; `printed` receives its stderr. Returns its status as waitpid gives it.
static inline int run_apart(void (*f)(void))
{
    int ends[2], status;
    cr_assert(pipe(ends) == 0);
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
