// record.c - linked into every test program: runs its tests, in the order of the source, simple ones first, and says
// what they come to (score/outcome.h) on the descriptor that WB_TOLD numbers, a row once a test has ended; without
// one, what has failed on stderr. Criterion is the language of tests and reads the command line.
//
// A test is a fork of this process, in which no test ever ran. Criterion's own runner, whose functions these replace,
// would start the program anew for each, load its thirty libraries, and talk to it under names that anybody can tell.
//
// A failure's message may begin with the row's `given` and `finding`, each with RECORD_ABOUT (record.h) behind it. With
// " names" behind the number no test is run: each is a row as if it had been skipped.
#include "record.h"

#include "score/outcome.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// What a test has said, in memory that it shares with this process.
typedef struct told {
    bool failed, skipped;
    char given[1 << 16], finding[1024], text[1 << 18];
} told;

typedef struct running {
    const struct criterion_test *test;
    pid_t pid;  // 0: none
    double begun;
    told *said;
} running;

enum { MOST_JOBS = 256 };
static running jobs[MOST_JOBS];
static size_t job_count;
static bool some_failed;
static FILE *record;
static bool only_names;
static int gave_up;  // a test found that it cannot judge, as its exit status says (record.h): the record gets no end

// ------------------------ in a test

static told *mine;

// Where its text goes on, and how much room there is.
#define BEHIND mine->text + strlen(mine->text), sizeof mine->text - strlen(mine->text)

static __attribute__((noreturn)) void end_test(void)
{
    fflush(NULL);
    _exit(0);
}

// What tests call of Criterion is found here before it is found in its library.
#pragma GCC visibility push(default)
void criterion_send_assert(struct criterion_assert_stats *s)
{
    const char *message = s->message ? s->message : "", *mark = strchr(message, RECORD_ABOUT);
    const char *const last = mark ? strchr(mark + 1, RECORD_ABOUT) : NULL;
    const char *file = strrchr(s->file, '/');
    if (s->passed) return;
    mine->failed = true;
    if (*mine->text) snprintf(BEHIND, "\n");
    if (last && !*mine->given) {
        snprintf(mine->given, sizeof mine->given, "%.*s", (int)(mark - message), message);
        snprintf(mine->finding, sizeof mine->finding, "%.*s", (int)(last - mark) - 1, mark + 1);
    }
    if (last)
        snprintf(BEHIND, "%s", last + 1);
    else
        snprintf(BEHIND, "%s:%u: %s", file ? file + 1 : s->file, s->line, message);
}

void criterion_abort_test(void) { end_test(); }
void criterion_continue_test(void) {}
void cri_asserts_passed_incr(void);
void cri_asserts_passed_incr(void) {}

#define ENDS(how) \
    va_list arguments; \
    va_start(arguments, format); \
    vsnprintf(BEHIND, format, arguments); \
    va_end(arguments); \
    mine->how = true; \
    end_test()
void criterion_skip_test(const char *format, ...) { ENDS(skipped); }
void criterion_test_die(const char *format, ...) { ENDS(failed); }

void criterion_internal_test_setup(void) {}
void criterion_internal_test_main(void (*test)(void)) { test(); }
void criterion_internal_test_teardown(void) {}

// It draws differences of texts by libgit2, which reads all the certificates of the system as it begins.
int git_libgit2_init(void);
int git_libgit2_shutdown(void);
int git_libgit2_init(void) { return 1; }
int git_libgit2_shutdown(void) { return 0; }
#pragma GCC visibility pop

// ------------------------ rows

// Where a test stands in the source: by the count of the harness (harness.h), or by its line.
static int place_of(const struct criterion_test *test)
{
    const size_t counted = (size_t)test->data->data;
    return counted ? (int)counted : (int)test->data->line_;
}

static void write_row(const struct criterion_test *test, result_status status, double seconds, told *said)
{
    result row = {.status = status, .test = (char *)test->name, .line = place_of(test), .seconds = seconds};
    row.given = said->given, row.finding = said->finding, row.message = said->text;
    some_failed |= status == RESULT_FAIL;
    if (record)
        results_write(record, &row);
    else if (status != RESULT_OK)
        fprintf(stderr, "%s  %s\n%s\n", result_words[status], test->name, said->text);
}

// A test has ended, and how.
static void conclude(running *job, int status)
{
    told *const said = job->said;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0, signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const bool cannot = code == RECORD_GAVE_UP || code == RECORD_STARVED;
    if (cannot && gave_up != RECORD_GAVE_UP) gave_up = code;
    if (signal)
        snprintf(said->text, sizeof said->text, "the test itself died of signal %d (%s)", signal, strsignal(signal));
    else if (code && !*said->text)
        snprintf(said->text, sizeof said->text, "the test exited with %d", code);
    if (!cannot)
        write_row(job->test,
                  signal || code || said->failed ? RESULT_FAIL
                  : said->skipped                ? RESULT_SKIP
                                                 : RESULT_OK,
                  seconds_now(CLOCK_MONOTONIC) - job->begun, said);
    munmap(said, sizeof *said);
    job->pid = 0, job_count--;
}

// ------------------------ the run

static void wait_for_one(void)
{
    int status;
    const pid_t pid = waitpid(-1, &status, 0);
    for (size_t n = 0; pid > 0 && n < MOST_JOBS; n++)
        if (jobs[n].pid == pid) conclude(&jobs[n], status);
    if (pid < 0 && errno != EINTR) abort();
}

static void start(const struct criterion_test *test, const struct criterion_suite *suite)
{
    running *job = jobs;
    while (job->pid) job++;
    void *const said = mmap(NULL, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *job = (running){test, 0, seconds_now(CLOCK_MONOTONIC), said};
    fflush(NULL);
    job->pid = job->said == MAP_FAILED ? -1 : fork();
    if (job->pid < 0) abort();
    job_count++;
    if (job->pid) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (record) close(fileno(record));  // neither a test nor what it starts can say anything for others
    mine = job->said;
    if (suite->data && suite->data->init) suite->data->init();
    if (test->data->init) test->data->init();
    test->test();
    end_test();
}

typedef struct criterion_ordered_set_node node;

static int place(const node *n) { return place_of((const struct criterion_test *)(n + 1)); }

// Criterion has the tests of a suite in the order of their names, and would start them so.
static void sort_by_place(struct criterion_ordered_set *tests)
{
    node *sorted = NULL;
    for (node *n = tests->first, *next; n; n = next) {
        node **at = &sorted;
        while (*at && place(*at) <= place(n)) at = &(*at)->next;
        next = n->next;
        n->next = *at;
        *at = n;
    }
    tests->first = sorted;
}

static void begin(struct criterion_test_set *set)
{
    extern f_report_hook __start_cr_pra[] __attribute__((weak)), __stop_cr_pra[] __attribute__((weak));
    const char *number = getenv("WB_TOLD");
    only_names = number && strchr(number, ' ');
    if (number && (!(record = fdopen(atoi(number), "w")) || fcntl(fileno(record), F_SETFD, FD_CLOEXEC))) abort();
    unsetenv("WB_TOLD");
    for (f_report_hook *hook = __start_cr_pra; hook < __stop_cr_pra; hook++) (*hook)(set);
}

__attribute__((visibility("default"))) int criterion_run_all_tests(struct criterion_test_set *set)
{
    const char *wanted = criterion_options.pattern;
    const size_t processors = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    const size_t most = criterion_options.jobs ? criterion_options.jobs : processors;
    begin(set);
    FOREACH_SET(struct criterion_suite_set * suite, set->suites)
    {
        sort_by_place(suite->tests);
        FOREACH_SET(struct criterion_test * test, suite->tests)
        {
            if (test->data->disabled) continue;
            if (wanted && fnmatch(wanted, test->data->identifier_, FNM_EXTMATCH)) continue;
            while (job_count >= (most < MOST_JOBS ? most : MOST_JOBS)) wait_for_one();
            if (some_failed && criterion_options.fail_fast) continue;
            if (only_names)
                write_row(test, RESULT_SKIP, 0, &(told){.failed = false});
            else
                start(test, &suite->suite);
        }
    }
    while (job_count) wait_for_one();
    if (record && gave_up != RECORD_GAVE_UP) results_end(record, gave_up == RECORD_STARVED);
    return !some_failed && !gave_up;
}
