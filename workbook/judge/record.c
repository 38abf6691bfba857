// record.c - linked into every test program: starts the tests in the order of the source, simple ones first, and says
// what they come to (score/results.h) on the descriptor that WB_TOLD numbers, a row as soon as a test has ended.
// Criterion calls this in the process that starts the tests; a test itself runs in another.
//
// A failure's message may begin with the case that it is about and RECORD_GIVEN (record.h), which make the row's field
// `given`. With WB_LIST set no test is run: each is a row of the record, as if it had been skipped.
#include "record.h"

#include "score/results.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static FILE *record;
static int gave_up;  // a test found that it cannot judge, as its exit status says (record.h): the record gets no end

// Where a test stands in the source: the harness counts them (harness.h), since those of a suite may stand in several
// files; of other suites it is the line.
static int place_of(const struct criterion_test *test)
{
    const size_t counted = (size_t)test->data->data;
    return counted ? (int)counted : (int)test->data->line_;
}

static void write_row(const struct criterion_test *test, result_status status, double seconds, const char *given,
                      const char *message)
{
    char *texts[] = {strdup(test->name), strdup(given), strdup(message)};
    if (!texts[0] || !texts[1] || !texts[2]) abort();
    const result row = {.status = status,
                        .test = texts[0],
                        .line = place_of(test),
                        .seconds = seconds,
                        .given = texts[1],
                        .message = texts[2]};
    results_write(record, &row);
    for (int i = 0; i < 3; i++) free(texts[i]);
}

// What failed, in the order in which it failed: the list has the last first.
static void say_failures(FILE *to, const struct criterion_assert_stats *a, const char **given, size_t *given_length)
{
    if (!a) return;
    say_failures(to, a->next, given, given_length);
    if (a->passed) return;
    if (ftell(to) > 0) fputc('\n', to);
    const char *message = a->message ? a->message : "", *mark = strchr(message, RECORD_GIVEN);
    if (mark) {
        if (!*given_length) *given = message, *given_length = (size_t)(mark - message);
        fputs(mark + 1, to);
    } else
        fprintf(to, "%s:%u: %s", a->file, a->line, message);
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

ReportHook(PRE_ALL)(struct criterion_test_set *set)
{
    FOREACH_SET(struct criterion_suite_set * suite, set->suites) { sort_by_place(suite->tests); }
    const char *told = getenv("WB_TOLD");
    if (!told || fcntl(atoi(told), F_SETFD, FD_CLOEXEC)) return;  // not open in tests, nor in what they start
    record = fdopen(atoi(told), "w");
    if (!record) abort();
    unsetenv("WB_TOLD");
    if (!getenv("WB_LIST")) return;
    FOREACH_SET(struct criterion_suite_set * suite, set->suites)
    {
        FOREACH_SET(struct criterion_test * test, suite->tests)
        {
            if (!test->data->disabled) write_row(test, RESULT_SKIP, 0, "", "");
            test->data->disabled = true;
        }
    }
}

ReportHook(POST_TEST)(struct criterion_test_stats *s)
{
    if (!record) return;
    const bool cannot = s->exit_code == RECORD_GAVE_UP || s->exit_code == RECORD_STARVED;
    if (cannot && s->test->data->exit_code != s->exit_code) {
        if (gave_up != RECORD_GAVE_UP) gave_up = s->exit_code;
        return;
    }
    if (s->test_status == CR_STATUS_PASSED) {
        write_row(s->test, RESULT_OK, s->elapsed_time, "", "");
    } else if (s->test_status == CR_STATUS_SKIPPED) {
        write_row(s->test, RESULT_SKIP, s->elapsed_time, "", s->message ? s->message : "");
    } else {
        char *text = NULL, *given_text;
        size_t size, length = 0;
        const char *given = "";
        FILE *to = open_memstream(&text, &size);
        if (!to) abort();
        say_failures(to, s->asserts, &given, &length);
        if (s->timed_out)
            fprintf(to, "%sthe test did not end in time", ftell(to) > 0 ? "\n" : "");
        else if (ftell(to) == 0)
            fprintf(to, "the test exited with %d", s->exit_code);
        fclose(to);
        given_text = strndup(given, length);
        if (!given_text) abort();
        write_row(s->test, RESULT_FAIL, s->elapsed_time, given_text, text);
        free(given_text);
        free(text);
    }
}

ReportHook(TEST_CRASH)(struct criterion_test_stats *s)
{
    char text[128];
    if (!record) return;
    snprintf(text, sizeof text, "the test itself died of signal %d (%s)", s->signal, strsignal(s->signal));
    write_row(s->test, RESULT_FAIL, s->elapsed_time, "", text);
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    (void)stats;
    if (record && gave_up != RECORD_GAVE_UP) results_end(record, gave_up == RECORD_STARVED);
}
