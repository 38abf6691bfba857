#include "start.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Who says it, and in which variables. The first of whose one is set is believed: torchrun under Slurm sets its own, and Slurm's are there as well.
// Slurm's stand in a batch script, too, where no task has begun: a task has a step.
static const struct launcher {
    const char *by, *rank, *ranks, *local, *here, *only_with;  // here: how many processes of this machine
} launchers[] = {{"torchrun, or by hand", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL},
                 {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                  "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
                 {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
                 {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID"}};

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

bool wb_was_started(void) { return who() != NULL; }

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

// Where rank 0 listens: host and port of WB_MASTER, or torchrun's.
static wb_status master(wb_start *s, bool one_machine)
{
    const char *both = set("WB_MASTER"), *name = "WB_MASTER", *port = "29511", *host = "127.0.0.1";
    size_t length = strlen(host);
    int value = 0, after = 0;
    if (both) {
        const char *colon = strrchr(both, ':');
        if (!colon || colon == both)
            return wb_fail(WB_BAD_ARGUMENT, "WB_MASTER is '%.80s', and should be host:port", both);
        host = both, length = (size_t)(colon - both), port = colon + 1;
        if (*host == '[' && host[length - 1] == ']') host++, length -= 2;  // [::1]:29511
    } else if (set("MASTER_ADDR")) {
        host = set("MASTER_ADDR"), length = strlen(host);
        name = "MASTER_PORT", port = set(name), after = 1;  // it listens at that one itself
        if (!port) return wb_fail(WB_BAD_ARGUMENT, "MASTER_PORT is not set, and MASTER_ADDR is");
    } else if (!one_machine)
        return wb_fail(WB_BAD_ARGUMENT,
                       "WB_MASTER is not set, and ranks are on several machines: say where rank 0 listens, host:port");
    const wb_status status = number(name, port, 1, 65534, &value);
    if (status != WB_OK) return status;
    if (length >= sizeof s->host) return wb_fail(WB_BAD_ARGUMENT, "the host of rank 0 has %zu letters", length);
    memcpy(s->host, host, length), s->host[length] = 0;
    snprintf(s->port, sizeof s->port, "%d", value + after);
    return WB_OK;
}

wb_status wb_start_read(wb_start *s)
{
    enum { MOST = 65535 };
    *s = (wb_start){.ranks = 1, .by = "nobody"};
    const struct launcher *l = who();
    if (!l) return master(s, true);
    s->by = l->by;
    wb_status status = variable(l, l->ranks, 1, MOST, &s->ranks);
    if (status == WB_OK) status = variable(l, l->rank, 0, s->ranks - 1, &s->rank);
    s->local = s->rank;
    if (status == WB_OK && set(l->local)) status = number(l->local, set(l->local), 0, MOST, &s->local);
    int here = s->ranks, machines = 1;
    if (status == WB_OK && set(l->here)) status = number(l->here, set(l->here), 1, MOST, &here);
    if (status == WB_OK && l->only_with && set("SLURM_NNODES"))
        status = number("SLURM_NNODES", set("SLURM_NNODES"), 1, MOST, &machines);
    return status == WB_OK ? master(s, here >= s->ranks && machines == 1) : status;
}

// ------------------------------------------------------------------------------------------------------------------ rank 0 to all

typedef struct hello {  // what a rank says when it comes
    char magic[8];
    uint32_t rank, ranks, bytes;
} hello;
static const char MAGIC[8] = "wbstart1";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Waits until it can be read or written, `until` at most.
static bool ready(int socket, short what, double until)
{
    struct pollfd p = {.fd = socket, .events = what};
    for (double left; (left = until - now()) > 0;) {
        const int n = poll(&p, 1, (int)(left * 1000) + 1);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
    return false;
}

static bool move(int socket, void *data, size_t bytes, bool out, double until)
{
    for (size_t at = 0; at < bytes;) {
        if (!ready(socket, out ? POLLOUT : POLLIN, until)) return false;
        const ssize_t n = out ? send(socket, (char *)data + at, bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(socket, (char *)data + at, bytes - at, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (n > 0) at += (size_t)n;
    }
    return true;
}

static wb_status give(const wb_start *s, int listener, void *data, size_t bytes, double until)
{
    enum { PATIENCE = 2 };  // seconds for a caller to say who it is: it may be anybody
    char *came = calloc((size_t)s->ranks, 1);
    if (!came) return wb_fail(WB_OUT_OF_MEMORY, "a list of %d ranks", s->ranks);
    int left = s->ranks - 1;
    while (left > 0 && ready(listener, POLLIN, until)) {
        const int c = accept(listener, NULL, NULL);
        if (c < 0) continue;
        hello h;
        const double soon = now() + PATIENCE < until ? now() + PATIENCE : until;
        const bool known = move(c, &h, sizeof h, false, soon) && memcmp(h.magic, MAGIC, sizeof MAGIC) == 0 &&
                           h.ranks == (uint32_t)s->ranks && h.bytes == bytes && h.rank >= 1 && h.rank < h.ranks;
        if (known && !came[h.rank] && move(c, data, bytes, true, soon)) came[h.rank] = 1, left--;
        close(c);
    }
    int missing = 1;
    while (missing < s->ranks && came[missing]) missing++;
    free(came);
    return left == 0 ? WB_OK
                     : wb_fail(WB_DEVICE_ERROR, "rank 0 waits at port %s: %d of %d ranks did not come, the first is %d",
                               s->port, left, s->ranks - 1, missing);
}

wb_status wb_start_share(const wb_start *s, void *data, size_t bytes, int seconds)
{
    if (s->ranks == 1) return WB_OK;
    const double until = now() + seconds;
    // On one machine rank 0 listens to that machine alone; else to all networks, as what its name means may be another address elsewhere.
    const bool near = strcmp(s->host, "127.0.0.1") == 0 || strcmp(s->host, "localhost") == 0;
    const bool all = s->rank == 0 && !near;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = all ? AI_PASSIVE : 0};
    struct addrinfo *at;
    const int unknown = getaddrinfo(all ? NULL : s->host, s->port, &hints, &at);
    if (unknown) return wb_fail(WB_DEVICE_ERROR, "rank 0 at %s:%s: %s", s->host, s->port, gai_strerror(unknown));
    wb_status status = WB_OK;
    if (s->rank == 0) {
        const int one = 1, listener = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (listener >= 0) setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (listener < 0 || bind(listener, at->ai_addr, at->ai_addrlen) || listen(listener, s->ranks))
            status = wb_fail(WB_DEVICE_ERROR, "rank 0 cannot listen at port %s: %s. WB_MASTER=host:port says another",
                             s->port, strerror(errno));
        if (status == WB_OK) status = give(s, listener, data, bytes, until);
        if (listener >= 0) close(listener);
    } else {
        bool got = false;
        while (!got && now() < until) {
            const int c = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            hello h = {.rank = (uint32_t)s->rank, .ranks = (uint32_t)s->ranks, .bytes = (uint32_t)bytes};
            memcpy(h.magic, MAGIC, sizeof MAGIC);
            got = c >= 0 && connect(c, at->ai_addr, at->ai_addrlen) == 0 && move(c, &h, sizeof h, true, until) &&
                  move(c, data, bytes, false, until);
            if (c >= 0) close(c);
            if (!got) nanosleep(&(struct timespec){0, 50000000}, NULL);
        }
        if (!got)
            status = wb_fail(WB_DEVICE_ERROR, "rank %d has waited %d s for rank 0 at %s:%s", s->rank, seconds, s->host,
                             s->port);
    }
    freeaddrinfo(at);
    return status;
}
