// start.c - which rank a process is, as each launcher says it, and a few bytes from rank 0 to all: workbook/start/start.h. Ranks are processes of this
// machine that nobody but the test has started.
#include "start/start.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Whatever started the test itself.
static void alone(void) { clearenv(); }

TestSuite(start, .init = alone, .timeout = 60);

// "NAME=VALUE NAME=VALUE ..."
static void have(const char *variables)
{
    char text[512];
    snprintf(text, sizeof text, "%s", variables);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        char *is = strchr(word, '=');
        *is = 0;
        setenv(word, is + 1, 1);
    }
}

static wb_start read_of(const char *variables)
{
    alone();
    have(variables);
    wb_start s;
    cr_assert_eq(wb_start_read(&s), WB_OK, "%s: %s", variables, wb_last_message());
    return s;
}

static void refused(const char *variables, const char *word)
{
    alone();
    have(variables);
    wb_start s;
    cr_assert_eq(wb_start_read(&s), WB_BAD_ARGUMENT, "%s was taken", variables);
    cr_assert(strstr(wb_last_message(), word), "%s: '%s' does not name %s", variables, wb_last_message(), word);
}

Test(start, nobody)
{
    const wb_start s = read_of("HOME=/");
    cr_assert(s.rank == 0 && s.ranks == 1 && s.local == 0 && !wb_was_started());
    cr_assert_eq(wb_start_share(&s, "x", 1, 1), WB_OK);
    cr_assert_not(read_of("SLURM_PROCID=0 SLURM_NTASKS=8").rank, "a batch script is no task");
    cr_assert_eq(read_of("SLURM_PROCID=0 SLURM_NTASKS=8").ranks, 1, "a batch script is no task");
}

Test(start, each_launcher)
{
    static const char *const says[] = {
        "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=node1 MASTER_PORT=29500",
        "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 WB_MASTER=node1:29501",
        "PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1 WB_MASTER=node1:29501",
        "SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_STEP_ID=0 SLURM_NNODES=2 WB_MASTER=node1:29501",
        // torchrun in a task of Slurm's
        "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 WB_MASTER=node1:29501",
    };
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        const wb_start s = read_of(says[i]);
        cr_assert(s.rank == 5 && s.ranks == 8 && s.local == 1, "%s: %d of %d, %d", says[i], s.rank, s.ranks, s.local);
        cr_assert(!strcmp(s.host, "node1") && !strcmp(s.port, "29501"), "%s: %s:%s", says[i], s.host, s.port);
        cr_assert(wb_was_started());
    }
    cr_assert_eq(read_of("RANK=3 WORLD_SIZE=4").local, 3);
    cr_assert_str_eq(read_of("RANK=3 WORLD_SIZE=4 WB_MASTER=[::1]:77").host, "::1");
}

Test(start, what_is_wrong_is_named)
{
    refused("RANK=1", "WORLD_SIZE is not set");
    refused("WORLD_SIZE=4", "RANK is not set");
    refused("RANK=x WORLD_SIZE=4", "RANK is 'x'");
    refused("RANK=4 WORLD_SIZE=4", "RANK is '4'");
    refused("RANK=-1 WORLD_SIZE=4", "RANK is '-1'");
    refused("RANK=0 WORLD_SIZE=0", "WORLD_SIZE is '0'");
    refused("RANK=0 WORLD_SIZE=99999999999999999999", "WORLD_SIZE is");
    refused("RANK=0 WORLD_SIZE=4 LOCAL_RANK=one", "LOCAL_RANK is");
    refused("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE");
    refused("PMI_SIZE=3", "PMI_RANK");
    refused("SLURM_PROCID=3 SLURM_NTASKS=2 SLURM_STEP_ID=0", "SLURM_PROCID is");
    refused("RANK=0 WORLD_SIZE=4 WB_MASTER=node1", "WB_MASTER is");
    refused("RANK=0 WORLD_SIZE=4 WB_MASTER=node1:0", "WB_MASTER is '0'");
    refused("RANK=0 WORLD_SIZE=4 MASTER_ADDR=node1", "MASTER_PORT is not set");
    refused("RANK=0 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4", "WB_MASTER is not set");
    refused("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_NNODES=2", "WB_MASTER is not set");
}

// ---------------------------------------------------------------------------------------------------------------- over TCP

static int listening(int *port)  // a socket at a port that was free
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(s >= 0 && bind(s, (struct sockaddr *)&at, length) == 0 &&
              getsockname(s, (struct sockaddr *)&at, &length) == 0);
    *port = ntohs(at.sin_port);
    return s;
}
static int free_port(void)
{
    int port;
    close(listening(&port));
    return port;
}

enum { BYTES = 128 };
static wb_start rank_of(int rank, int ranks, int port)
{
    char text[128];
    snprintf(text, sizeof text, "RANK=%d WORLD_SIZE=%d WB_MASTER=127.0.0.1:%d", rank, ranks, port);
    return read_of(text);
}

// A rank in a process of its own, which ends with 0 if it got what rank 0 has.
static pid_t begin_rank(int rank, int ranks, int port, int seconds)
{
    const pid_t process = fork();
    if (process) return process;
    const wb_start s = rank_of(rank, ranks, port);
    unsigned char data[BYTES];
    memset(data, rank ? 0 : 7, sizeof data);
    const wb_status status = wb_start_share(&s, data, sizeof data, seconds);
    for (int i = 0; i < BYTES; i++)
        if (status == WB_OK && data[i] != 7) _exit(1);
    _exit(status == WB_OK ? 0 : 2);
}
static int end_of(pid_t process)
{
    int status;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The last ones come first, and rank 0 after a moment.
Test(start, all_get_it)
{
    enum { RANKS = 6 };
    const int port = free_port();
    pid_t ranks[RANKS];
    for (int r = RANKS - 1; r >= 0; r--) {
        if (r == 0) usleep(200000);
        ranks[r] = begin_rank(r, RANKS, port, 20);
    }
    for (int r = 0; r < RANKS; r++) cr_assert_eq(end_of(ranks[r]), 0, "rank %d", r);
}

// Callers that say nothing, nonsense, or that they are a rank of another size: nobody's bytes are taken, and no rank's place.
Test(start, strangers)
{
    const int port = free_port();
    const pid_t first = begin_rank(0, 3, port, 20);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    static const uint32_t wrong[][3] = {
        {1, 4, BYTES}, {1, 3, BYTES + 1}, {0, 3, BYTES}, {3, 3, BYTES}, {~0u, 3, BYTES}};
    for (int n = 0; n < 7; n++) {
        int s = -1;
        for (int tries = 0; tries < 100; tries++) {
            s = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(s, (struct sockaddr *)&at, sizeof at) == 0) break;
            close(s), s = -1;
            usleep(20000);
        }
        cr_assert_geq(s, 0);
        char said[20] = "wbstart1";
        if (n < 5) memcpy(said + 8, wrong[n], sizeof wrong[n]);
        if (n == 5) memcpy(said, "wbstart0", 8), memcpy(said + 8, (uint32_t[]){1, 3, BYTES}, 12);
        if (n < 6) cr_assert_eq(send(s, said, sizeof said, MSG_NOSIGNAL), (ssize_t)sizeof said);
        char got[BYTES];
        if (n < 6) cr_assert_leq(recv(s, got, sizeof got, 0), 0, "stranger %d got something", n);
        if (n == 6) shutdown(s, SHUT_WR);
        close(s);
    }
    const int silent = socket(AF_INET, SOCK_STREAM, 0);  // and stays
    cr_assert_eq(connect(silent, (struct sockaddr *)&at, sizeof at), 0);
    const pid_t one = begin_rank(1, 3, port, 8), two = begin_rank(2, 3, port, 8);
    cr_assert(end_of(one) == 0 && end_of(two) == 0 && end_of(first) == 0);
    close(silent);
}

// A rank that is there twice has not come for another.
Test(start, same_rank_twice)
{
    const int port = free_port();
    const pid_t first = begin_rank(0, 3, port, 20), one = begin_rank(1, 3, port, 4), again = begin_rank(1, 3, port, 4);
    cr_assert_eq(!end_of(one) + !end_of(again), 1);
    const pid_t two = begin_rank(2, 3, port, 8);
    cr_assert(end_of(two) == 0 && end_of(first) == 0);
}

// A rank that does not come, and a rank 0 that does not: each says so in time.
Test(start, nobody_comes)
{
    const int port = free_port();
    unsigned char data[BYTES] = {0};
    const time_t begun = time(NULL);
    const wb_start first = rank_of(0, 3, port);
    cr_assert_eq(wb_start_share(&first, data, sizeof data, 1), WB_DEVICE_ERROR);
    cr_assert(strstr(wb_last_message(), "2 of 2 ranks did not come, the first is 1"), "%s", wb_last_message());
    const wb_start second = rank_of(1, 3, port);
    cr_assert_eq(wb_start_share(&second, data, sizeof data, 1), WB_DEVICE_ERROR);
    cr_assert(strstr(wb_last_message(), "rank 1 has waited 1 s for rank 0"), "%s", wb_last_message());
    cr_assert_lt(time(NULL) - begun, 10);
}

Test(start, port_is_taken)
{
    int port;
    const int other = listening(&port);
    cr_assert_eq(listen(other, 1), 0);
    unsigned char data[BYTES] = {0};
    const wb_start first = rank_of(0, 2, port);
    cr_assert_eq(wb_start_share(&first, data, sizeof data, 1), WB_DEVICE_ERROR);
    cr_assert(strstr(wb_last_message(), "cannot listen at port"), "%s", wb_last_message());
    close(other);
}
