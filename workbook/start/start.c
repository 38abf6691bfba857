#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Who says it, and in which variables. The first of whose one is set is believed: torchrun under Slurm sets its own,
// and Slurm's are there as well. Slurm's stand in a batch script, too, where no task has begun: a task has a step.
static const struct launcher {
    const char *by, *rank, *ranks, *local, *only_with;
} launchers[] = {{"torchrun, or by hand", "RANK", "WORLD_SIZE", "LOCAL_RANK", NULL},
                 {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID"}};

static const char *set(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    return text && *text ? text : NULL;
}

static const struct launcher *who(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *l = &launchers[i];
        if ((set(l->rank) || set(l->ranks)) && (!l->only_with || set(l->only_with))) return l;
    }
    return NULL;
}

// The whole number, from `least` to `most`, that a variable has.
static wb_status number(const char *name, const char *text, long least, long most, int *value)
{
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < least || n > most)
        return wb_fail(WB_BAD_ARGUMENT, "%s is '%.40s', and should be a number from %ld to %ld", name, text, least,
                       most);
    *value = (int)n;
    return WB_OK;
}

static wb_status variable(const struct launcher *l, const char *name, long least, long most, int *value)
{
    const char *text = set(name);
    if (!text) return wb_fail(WB_BAD_ARGUMENT, "%s is not set, and %s is", name, set(l->rank) ? l->rank : l->ranks);
    return number(name, text, least, most, value);
}

// WB_ID, or in the current folder a name of this run: Slurm's number of a job and its step, or torchrun's port.
static void name_file(wb_start *s)
{
    const char *const named = set("WB_ID"), *const job = set("SLURM_JOB_ID"), *const step = set("SLURM_STEP_ID"),
                      *const port = set("MASTER_PORT");
    if (named)
        snprintf(s->file, sizeof s->file, "%s", named);
    else
        snprintf(s->file, sizeof s->file, "wb_id.%s.%s.%s", job ? job : "0", step ? step : "0", port ? port : "0");
}

wb_status wb_start_read(wb_start *s)
{
    enum { MOST = 65535 };
    *s = (wb_start){.ranks = 1};
    const struct launcher *l = who();
    if (!l) return WB_OK;
    s->by = l->by;
    wb_status status = variable(l, l->ranks, 1, MOST, &s->ranks);
    if (status == WB_OK) status = variable(l, l->rank, 0, s->ranks - 1, &s->rank);
    s->local = s->rank;
    if (status == WB_OK && set(l->local)) status = number(l->local, set(l->local), 0, MOST, &s->local);
    name_file(s);
    return status;
}

// ------------------------ rank 0 to all

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static wb_status give(const wb_start *s, const void *data, size_t bytes)
{
    const int file = open(s->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST)
        return wb_fail(WB_DEVICE_ERROR,
                       "there is a file %.200s already, of another run or of one that has died: "
                       "remove it, or name another, WB_ID=FILE",
                       s->file);
    const bool written = file >= 0 && write(file, data, bytes) == (ssize_t)bytes;
    if (written && close(file) == 0) return WB_OK;
    return wb_fail(WB_DEVICE_ERROR, "rank 0 cannot write %.200s: %s. WB_ID=FILE names another", s->file,
                   strerror(errno));
}

static bool take(const wb_start *s, void *data, size_t bytes)
{
    FILE *const file = fopen(s->file, "rbe");
    const size_t got = file ? fread(data, 1, bytes, file) : 0;
    if (file) fclose(file);
    return got == bytes;
}

wb_status wb_start_share(const wb_start *s, void *data, size_t bytes, int seconds)
{
    if (s->rank == 0) return s->ranks == 1 ? WB_OK : give(s, data, bytes);
    for (const double until = now() + seconds; !take(s, data, bytes);) {
        if (now() >= until)
            return wb_fail(WB_DEVICE_ERROR, "rank %d has waited %d s for rank 0 to write %.200s, which all must see",
                           s->rank, seconds, s->file);
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    return WB_OK;
}

void wb_start_shared(const wb_start *s)
{
    if (s->rank == 0 && s->ranks > 1) unlink(s->file);
}
