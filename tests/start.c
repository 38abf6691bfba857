// start.c - which rank a process is, as each launcher says it, and a few bytes from rank 0 to all:
// workbook/start/start.h.
#include "start/start.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Whatever started the test itself.
static void alone(void) { clearenv(); }

TestSuite(start, .init = alone);

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
    wb_start s = read_of("HOME=/");
    cr_assert(s.rank == 0 && s.ranks == 1 && s.local == 0 && !s.by);
    cr_assert_eq(wb_start_share(&s, "x", 1, 1), WB_OK);
    wb_start_shared(&s);
    cr_assert_eq(read_of("SLURM_PROCID=0 SLURM_NTASKS=8").ranks, 1, "a batch script is no task");
}

Test(start, each_launcher)
{
    static const char *const says[][2] = {
        {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=node1 MASTER_PORT=29500", "wb_id.0.0.29500"},
        {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1", "wb_id.0.0.0"},
        {"SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_JOB_ID=77 SLURM_STEP_ID=2", "wb_id.77.2.0"},
        // torchrun in a task of Slurm's
        {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 WB_ID=/x/y", "/x/y"},
    };
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        const wb_start s = read_of(says[i][0]);
        cr_assert(s.rank == 5 && s.ranks == 8 && s.local == 1 && s.by, "%s: %d of %d, %d", *says[i], s.rank, s.ranks,
                  s.local);
        cr_assert_str_eq(s.file, says[i][1]);
    }
    cr_assert_eq(read_of("RANK=3 WORLD_SIZE=4").local, 3);
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
    refused("SLURM_PROCID=3 SLURM_NTASKS=2 SLURM_STEP_ID=0", "SLURM_PROCID is");
}

// ------------------------ rank 0 to all

enum { BYTES = 128 };

static char folder[] = "/tmp/start.XXXXXX";
static void go_to_folder(void)
{
    clearenv();
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
}
static void leave_folder(void) { cr_assert_eq(rmdir(folder), 0, "something is left in %s", folder); }

TestSuite(start_file, .init = go_to_folder, .fini = leave_folder);

static wb_start rank_of(int rank, int ranks)
{
    char text[64];
    snprintf(text, sizeof text, "RANK=%d WORLD_SIZE=%d", rank, ranks);
    return read_of(text);
}

// Rank 1 comes first, and rank 0 after it. Several: tests/train_ranks.sh.
Test(start_file, all_get_it)
{
    const pid_t second = fork();
    const wb_start s = rank_of(second == 0, 2);
    unsigned char data[BYTES];
    memset(data, second ? 7 : 0, sizeof data);
    const wb_status status = wb_start_share(&s, data, sizeof data, 600);
    if (second == 0) _exit(status != WB_OK || data[0] != 7 || memcmp(data, data + 1, BYTES - 1));
    int ended;
    waitpid(second, &ended, 0);
    cr_assert(status == WB_OK && ended == 0, "rank 1 ended with %#x", (unsigned)ended);
    wb_start_shared(&s);
}

// A file that is not whole is not taken, and rank 0 does not take one that is there for its own.
Test(start_file, another_file)
{
    unsigned char data[BYTES] = {0};
    const wb_start first = rank_of(0, 2), second = rank_of(1, 2);
    cr_assert_eq(wb_start_share(&first, data, BYTES / 2, 1), WB_OK);
    cr_assert_eq(wb_start_share(&second, data, BYTES, 1), WB_DEVICE_ERROR);
    cr_assert_eq(wb_start_share(&first, data, BYTES, 1), WB_DEVICE_ERROR);
    cr_assert(strstr(wb_last_message(), "there is a file wb_id.0.0.0 already"), "%s", wb_last_message());
    wb_start_shared(&first);
}

// A rank 0 that does not come, or cannot write, says so.
Test(start_file, nobody_comes)
{
    unsigned char data[BYTES] = {0};
    wb_start s = rank_of(1, 3);
    cr_assert_eq(wb_start_share(&s, data, sizeof data, 1), WB_DEVICE_ERROR);
    cr_assert(strstr(wb_last_message(), "rank 1 has waited 1 s for rank 0"), "%s", wb_last_message());
    s = read_of("RANK=0 WORLD_SIZE=2 WB_ID=no/such/folder");
    cr_assert_eq(wb_start_share(&s, data, sizeof data, 1), WB_DEVICE_ERROR);
    cr_assert(strstr(wb_last_message(), "cannot write no/such/folder"), "%s", wb_last_message());
}
