// suite.c - runs a test program against a worker and prints what its record (score/results.h) says: the first failure
// in full as soon as its test has ended, then, when all have, a line a test in the order of the source, simple cases
// first. Of later failures one more is printed in full, all of them if VERBOSE=1 is set. The last line of a suite is "N
// passed, N failed, N skipped", and behind it, where a suite gave up, ", N not run": these are failures in the record.
//
//   suite [--first] [--exempt "TEST..."] [--cases FILE] TEST_PROGRAM WORKER BACKEND [CRITERION OPTION...]
//     --first     stops at the first failure
//     --exempt    tests that this worker fails by design: they are counted, but do not make the suite fail
//     --cases     private cases as well, a line each: "NN checkpoint CASE"; what they are is not told. They join the
//                 record.
//   suite --list TEST_PROGRAM          the names of its tests
//   suite --show RECORD WHAT           tests: the names of all; ok, FAIL, SKIP: of these; counts: the last line of a
//                                      suite; case: of the first failure that has one; message: what the first says
//   suite --fail RECORD TEST CHECKPOINT    adds a failure, which keeps the checkpoint from being earned
//   suite --plain                      text that nobody trusts, from standard input, as safe_text.h makes it
//
// Environment: WB_RESULTS where to leave the record; WB_JOBS how many tests at the same time. The rest is that of
// tests/harness.h. Exit status: 0 all passed (and at least one ran), 1 some failed, 2 the suite could not run, 3 it
// could not be judged, since the machine was too busy.
#include "loop/run_suite.h"
#include "score/results.h"
#include "score/safe_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void usage(void)
{
    fprintf(stderr, "usage: suite TEST_PROGRAM WORKER BACKEND, or --list, --show, --fail, --plain: see suite.c\n");
    exit(2);
}

// ------------------------ printing

typedef struct counts {
    int of[RESULT_STATUSES], not_run;
} counts;

static counts count(const results *r)
{
    counts c = {{0}, 0};
    for (int i = 0; i < r->count; i++) {
        if (*r->rows[i].checkpoint) continue;
        if (results_not_run(&r->rows[i]))
            c.not_run++;
        else
            c.of[r->rows[i].status]++;
    }
    return c;
}

static void print_counts(const results *r)
{
    const counts c = count(r);
    printf("%d passed, %d failed, %d skipped", c.of[RESULT_OK], c.of[RESULT_FAIL], c.of[RESULT_SKIP]);
    if (c.not_run) printf(", %d not run", c.not_run);
    printf("\n");
}

static void print_row(const result *row) { printf("  %-4s  %s\n", result_words[row->status], row->test); }

// The message, which may quote a student's program, all of it or its first line.
static void print_message(const result *row, bool all)
{
    char *message = safe_text(row->message, PLAIN);
    for (const char *line = message, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (end > line) printf("        %.*s\n", (int)(end - line), line);
        if (!all) break;
        end += *end == '\n';
    }
    free(message);
}

static void print_in_full(const suite_run *run, const result *row)
{
    const char *name = strrchr(run->program, '/');
    const int number = atoi(name ? name + 1 : run->program);
    print_row(row);
    print_message(row, true);
    if (!*row->given) return;
    // The test asks again what it has asked; its case, whether the results are right.
    const bool is_case = strcmp(row->test, "given_case") == 0;
    const char *seed = getenv(getenv("WB_SEED_SHOWN") ? "WB_SEED_SHOWN" : "WB_SEED");
    if (number && !is_case)
        printf("          test again  make test-%02d TEST=%s%s%s\n", number, row->test, seed && *seed ? " SEED=" : "",
               seed ? seed : "");
    if (number)
        printf("          %s  make test-%02d CASE=%s\n", is_case ? "test again" : "its case  ", number, row->given);
    const char *shown = getenv("WB_WORKER_SHOWN");
    printf("          by hand     %s --case %s\n", shown ? shown : run->worker, row->given);
}

// ------------------------ a suite

typedef struct screen {
    const suite_run *run;
    char *early;  // the test whose failure is printed before the others are known
} screen;

static const char *const blank = "\r                      \r";

static void show_progress(const results *r, void *context)
{
    screen *s = context;
    const bool terminal = isatty(2);
    for (int i = 0; i < r->count && !s->early; i++) {
        if (r->rows[i].status != RESULT_FAIL) continue;
        s->early = strdup(r->rows[i].test);
        if (!s->early) abort();
        if (terminal) fputs(blank, stderr);
        print_in_full(s->run, &r->rows[i]);
        printf("\n");
        fflush(stdout);
    }
    if (terminal) fprintf(stderr, "\r  %d tests done \r", r->count);
}

// One more name on the line that holds `column` characters of names with this word, or on a new one. Returns the new
// column.
static int print_name(const result *row, const char *word, bool goes_on, int column)
{
    enum { WIDTH = 100 };
    const int length = (int)strlen(row->test) + 1;
    if (goes_on && column + length <= WIDTH) {
        printf(" %s", row->test);
        return column + length;
    }
    printf("%s  %-4s  %s", column ? "\n" : "", goes_on ? "" : word, row->test);
    return 7 + length;
}

// Those that were not tried, and why.
static void print_not_run(const results *r)
{
    int column = 0;
    for (int i = 0; i < r->count; i++) {
        if (!results_not_run(&r->rows[i])) continue;
        if (!column) printf("  %.*s:\n", (int)strcspn(r->rows[i].message, "\n"), r->rows[i].message);
        column = print_name(&r->rows[i], "", column, column);
    }
    if (column) printf("\n");
}

// A line a test. Where much has failed, names stand side by side, so that what is printed in full stays on the screen.
static void print_suite(const screen *s, const results *r)
{
    enum { MUCH = 6 };
    const char *text = getenv("VERBOSE");
    const bool verbose = text && *text, brief = !verbose && count(r).of[RESULT_FAIL] > MUCH;
    int in_full = verbose ? r->count : s->early ? 1 : 2, column = 0;
    bool shortened = false;
    for (int i = 0, last = -1; i < r->count; i++) {
        const result *row = &r->rows[i];
        if (results_not_run(row)) continue;
        const bool early = s->early && strcmp(row->test, s->early) == 0;
        const bool full = row->status == RESULT_FAIL && !early && in_full-- > 0;
        shortened |= row->status == RESULT_FAIL && !early && !full;
        if (brief && row->status != RESULT_SKIP && !early && !full) {
            column = print_name(row, result_words[row->status], column && r->rows[last].status == row->status, column);
            last = i;
            continue;
        }
        if (column) printf("\n");
        column = 0;
        if (full)
            print_in_full(s->run, row);
        else if (!early)
            print_row(row), print_message(row, row->status == RESULT_SKIP);
        else if (r->count > 1)
            printf("  FAIL  %s (above)\n", row->test);
    }
    if (column) printf("\n");
    print_not_run(r);
    if (shortened) printf("  (two failures in full; VERBOSE=1 shows them all)\n");
    print_counts(r);
}

// Whether the blank-separated list has the word.
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == 0 || at[length] == ' ')) return true;
    return false;
}

// Tries the private cases of this problem, and adds them to the record. Returns test()'s status: 1 if one is wrong.
static int hold_out(const suite_run *run, const char *cases, const char *record)
{
    char line[1024], checkpoint[64], given[512], test[64];
    int number, held = 0, right = 0;
    const char *name = strrchr(run->program, '/');
    FILE *from = fopen(cases, "r"), *to = fopen(record, "ae");
    if (!from || !to) {
        fprintf(stderr, "suite: %s: %s\n", from ? record : cases, strerror(errno));
        exit(2);
    }
    while (fgets(line, sizeof line, from)) {
        if (sscanf(line, "%d %63s %511s", &number, checkpoint, given) != 3) continue;
        if (number != atoi(name ? name + 1 : run->program)) continue;
        suite_run one = *run;
        results r;
        one.given = given;
        const bool ok = run_suite(&one, &r) && count(&r).of[RESULT_OK] == 1 && r.count == 1, starved = r.starved;
        results_free(&r);
        if (starved) {
            fclose(from);
            fclose(to);
            return 3;
        }
        snprintf(test, sizeof test, "private case %d", ++held);
        right += ok;
        results_write(
            to, &(result){.status = ok ? RESULT_OK : RESULT_FAIL, .test = test, .given = "", .checkpoint = checkpoint});
    }
    fclose(from);
    fclose(to);
    if (held) printf("  private cases: %d of %d correct\n", right, held);
    return right == held ? 0 : 1;
}

static int test(char **argument)
{
    const char *exempt = "", *cases = NULL;
    screen shown = {0};
    suite_run run = {.record = getenv("WB_RESULTS"), .seen = show_progress, .context = &shown};
    for (; *argument && strncmp(*argument, "--", 2) == 0; argument++) {
        if (strcmp(*argument, "--first") == 0)
            run.first = true;
        else if (strcmp(*argument, "--exempt") == 0 && argument[1])
            exempt = *++argument;
        else if (strcmp(*argument, "--cases") == 0 && argument[1])
            cases = *++argument;
        else
            usage();
    }
    for (int i = 0; i < 3; i++)
        if (!argument[i]) usage();
    run.program = argument[0], run.worker = argument[1], run.backend = argument[2], run.options = argument + 3;
    shown.run = &run;

    results r;
    const bool ran = run_suite(&run, &r);
    if (isatty(2)) fputs(blank, stderr);
    results_sort(&r);
    print_suite(&shown, &r);
    fflush(stdout);
    bool failed = false;
    for (int i = 0; i < r.count; i++) failed |= r.rows[i].status == RESULT_FAIL && !has_word(exempt, r.rows[i].test);
    const bool passed = count(&r).of[RESULT_OK] > 0, starved = r.starved;
    results_free(&r);
    free(shown.early);
    run.seen = NULL, run.record = NULL;
    if (!ran) return starved ? 3 : 2;
    const int held_out = cases ? hold_out(&run, cases, getenv("WB_RESULTS")) : 0;
    if (held_out == 3) return 3;
    return failed || held_out ? 1 : passed ? 0 : 2;
}

// ------------------------ questions

static int list(const char *program)
{
    results r;
    setenv("WB_LIST", "1", 1);
    const bool ran = run_suite(&(suite_run){.program = program, .worker = "none", .backend = "cpu"}, &r);
    results_sort(&r);
    for (int i = 0; i < r.count; i++) printf("%s\n", r.rows[i].test);
    results_free(&r);
    return ran ? 0 : 2;
}

static void show_failure(const results *r, const char *what)
{
    const bool given = strcmp(what, "case") == 0;
    if (!given && strcmp(what, "message") != 0) usage();
    for (int i = 0; i < r->count; i++) {
        const result *row = &r->rows[i];
        if (row->status != RESULT_FAIL || (given && !*row->given)) continue;
        char *message = safe_text(row->message, PLAIN);
        printf("%s\n", given ? row->given : message);
        free(message);
        return;
    }
}

static int show(const char *record, const char *what)
{
    results r;
    int status = RESULT_STATUSES;
    if (!results_read(record, &r)) {
        fprintf(stderr, "suite: there is no record %s\n", record);
        return 2;
    }
    results_sort(&r);
    for (int s = 0; s < RESULT_STATUSES; s++)
        if (strcmp(what, result_words[s]) == 0) status = s;
    if (strcmp(what, "counts") == 0) {
        print_counts(&r);
    } else if (status < RESULT_STATUSES || strcmp(what, "tests") == 0) {
        for (int i = 0; i < r.count; i++)
            if (status == RESULT_STATUSES || (int)r.rows[i].status == status) printf("%s\n", r.rows[i].test);
    } else
        show_failure(&r, what);
    results_free(&r);
    return 0;
}

static int fail(const char *record, char *test, char *checkpoint)
{
    FILE *to = fopen(record, "a");
    if (!to) {
        fprintf(stderr, "suite: %s: %s\n", record, strerror(errno));
        return 2;
    }
    results_write(to, &(result){.status = RESULT_FAIL, .test = test, .checkpoint = checkpoint});
    fclose(to);
    return 0;
}

// Line by line, since a text may have no end.
static int plain(void)
{
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        for (ssize_t i = 0; i < n; i++)
            if (!line[i]) line[i] = '?';
        write_text(stdout, line, PLAIN);
    }
    free(line);
    return 0;
}

int main(int arguments, char **argument)
{
    const char *first = arguments > 1 ? argument[1] : "";
    if (strcmp(first, "--list") == 0 && arguments == 3) return list(argument[2]);
    if (strcmp(first, "--show") == 0 && arguments == 4) return show(argument[2], argument[3]);
    if (strcmp(first, "--fail") == 0 && arguments == 5) return fail(argument[2], argument[3], argument[4]);
    if (strcmp(first, "--plain") == 0 && arguments == 2) return plain();
    return test(argument + 1);
}
