// suite.c - says what a suite comes to: the first failure in full as soon as its test has ended, then, when all have, a
// line a test in the order of the source. Of later failures one more is told in full, all if VERBOSE=1 is set. The last
// line is "N passed, N failed, N skipped", and, where a suite gave up, ", N not run": failures in the record.

#include "wb/wb.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

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

void suite_say_counts(const results *r)
{
    const counts c = count(r);
    say("%d passed, %d failed, %d skipped", c.of[RESULT_OK], c.of[RESULT_FAIL], c.of[RESULT_SKIP]);
    if (c.not_run) say(", %d not run", c.not_run);
    say("\n");
}

static void print_row(const result *row) { say("  %-4s  %s\n", result_words[row->status], row->test); }

// The problem that a test program, .../03_test, is about; 0: none.
static int number_of(const char *program)
{
    const char *name = strrchr(program, '/');
    return atoi(name ? name + 1 : program);
}

// The message, which may quote a student's program, all of it or its first line.
static void print_message(const result *row, bool all)
{
    for (const char *line = row->message; *line; line = next_line(line)) {
        const int length = (int)strcspn(line, "\n");
        if (length) say("        %.*s\n", length, line);
        if (!all) break;
    }
}

static void print_in_full(const suite *s, const result *row)
{
    const int number = number_of(s->program);
    print_row(row);
    print_message(row, true);
    if (!*row->given) return;
    // The test asks again what it has asked; its case, whether the results are right.
    const bool is_case = strcmp(row->test, "given_case") == 0;
    const char *const seed = getenv("WB_UNTIL") ? "the_instructors" : setting("SEED", "");
    if (number && !is_case)
        say("          test again  make test-%02d TEST=%s%s%s\n", number, row->test, *seed ? " SEED=" : "", seed);
    if (number)
        say("          %s  make test-%02d CASE=%s\n", is_case ? "test again" : "its case  ", number, row->given);
    say("          by hand     %s --case %s\n", s->shown ? s->shown : s->worker, row->given);
}

static const char *const blank = "\r                      \r";

// As the tests end. *early: the one whose failure is printed before the others are known.
static void show_progress(const suite *s, const results *r, char **early)
{
    const bool terminal = isatty(2);
    for (int i = 0; i < r->count && !*early; i++) {
        if (r->rows[i].status != RESULT_FAIL) continue;
        *early = strdup(r->rows[i].test);
        if (!*early) abort();
        if (terminal) fputs(blank, stderr);
        print_in_full(s, &r->rows[i]);
        say("\n");
        fflush(stdout);
    }
    if (terminal) fprintf(stderr, "\r  %d tests done \r", r->count);
}

// ------------------------ a run

enum { TOLD = 3 };  // the descriptor on which the program says what its tests come to (judge/record.c)

static int telling;  // where it does so in this process
static void become_program(void)
{
    if (telling == TOLD)
        fcntl(TOLD, F_SETFD, 0);
    else
        dup2(telling, TOLD);
}

static pid_t start(const suite *s, int told, int errors)
{
    char jobs[32], *words[64] = {(char *)s->program, jobs};
    char *environment[8] = {s->names ? "WB_TOLD=3 names" : "WB_TOLD=3", text_of("WB_WORKER=%s", s->worker),
                            text_of("WB_BACKEND=%s", s->backend)};
    int count = 2, set = 3;
    const char *const wanted = setting("JOBS", NULL);
    snprintf(jobs, sizeof jobs, "-j%ld", wanted ? atol(wanted) : sysconf(_SC_NPROCESSORS_ONLN));
    if (s->first) strcpy(jobs, "-j1"), words[count++] = "--fail-fast";
    for (char **o = s->options; o && *o && count < 63; o++) words[count++] = *o;
    // Several tests run at once: what the oracle's threads spend waiting would be missing elsewhere.
    if (!getenv("OMP_WAIT_POLICY")) environment[set++] = "OMP_WAIT_POLICY=passive";
    if (s->coverage) environment[set++] = text_of("WB_COVERAGE=%s", s->coverage);
    if (s->given) environment[set++] = text_of("CASE=%s", s->given);
    telling = told;
    return child_start(&(child){.words = words, .environment = environment, .error = errors, .before = become_program},
                       CHILD_NULL);
}

// Many tests may say the same.
static void say_errors(FILE *errors, int status)
{
    char line[1024], last[1024] = "";
    rewind(errors);
    for (int lines = 0; lines < 20 && fgets(line, sizeof line, errors);) {
        if (strcmp(line, last) == 0) continue;
        say("  %s", strcpy(last, line));
        lines++;
    }
    if (status > 128) say("  the test program died of signal %d (%s)\n", status - 128, strsignal(status - 128));
}

// Runs it to its end; the caller frees what its tests came to. False if that is not of a whole run. Unless all has
// passed, what the program said on stderr is then said. Unless `early` is null, progress is shown.
static bool listen_to(const suite *s, results *r, char **early)
{
    int ends[2];
    char *line = NULL;
    size_t room = 0;
    FILE *const errors = tmpfile();
    *r = (results){0};
    child_pipe(ends);
    FILE *const from = fdopen(ends[0], "r");
    if (!errors || !from) grades_give_up("a suite");
    fcntl(fileno(errors), F_SETFL, O_APPEND);
    fcntl(fileno(errors), F_SETFD, FD_CLOEXEC);
    const pid_t running = start(s, ends[1], fileno(errors));
    close(ends[1]);
    while (getline(&line, &room, from) > 0 || (ferror(from) && errno == EINTR)) {
        cJSON *const said = ferror(from) ? NULL : cJSON_Parse(line);
        clearerr(from);
        if (results_take(r, said) && early) show_progress(s, r, early);
        cJSON_Delete(said);
    }
    free(line);
    fclose(from);
    const int status = child_wait(running);
    const bool whole = r->ended && status <= 128;
    bool passed = whole;
    for (int i = 0; i < r->count; i++) passed &= r->rows[i].status != RESULT_FAIL;
    if (!passed) say_errors(errors, status);
    fclose(errors);
    return whole;
}

// ------------------------ a suite

// One more name on the line that holds `column` characters of names with this word, or on a new one. The new column.
static int print_name(const result *row, const char *word, bool goes_on, int column)
{
    enum { WIDTH = 100 };
    const int length = (int)strlen(row->test) + 1;
    if (goes_on && column + length <= WIDTH) {
        say(" %s", row->test);
        return column + length;
    }
    say("%s  %-4s  %s", column ? "\n" : "", goes_on ? "" : word, row->test);
    return 7 + length;
}

// Those that were not tried, and why.
static void print_not_run(const results *r)
{
    int column = 0;
    for (int i = 0; i < r->count; i++) {
        if (!results_not_run(&r->rows[i])) continue;
        if (!column) say("  %.*s:\n", (int)strcspn(r->rows[i].message, "\n"), r->rows[i].message);
        column = print_name(&r->rows[i], "", column, column);
    }
    if (column) say("\n");
}

// A line a test; where much has failed names side by side, so that what is in full stays on the screen.
static void print_suite(const suite *s, const results *r, const char *first)
{
    enum { MUCH = 6 };
    const bool verbose = setting("VERBOSE", NULL), brief = !verbose && count(r).of[RESULT_FAIL] > MUCH;
    int in_full = verbose ? r->count : first ? 1 : 2, column = 0;
    bool shortened = false;
    for (int i = 0, last = -1; i < r->count; i++) {
        const result *row = &r->rows[i];
        if (results_not_run(row)) continue;
        const bool early = first && strcmp(row->test, first) == 0;
        const bool full = row->status == RESULT_FAIL && !early && in_full-- > 0;
        shortened |= row->status == RESULT_FAIL && !early && !full;
        if (brief && row->status != RESULT_SKIP && !early && !full) {
            column = print_name(row, result_words[row->status], column && r->rows[last].status == row->status, column);
            last = i;
            continue;
        }
        if (column) say("\n");
        column = 0;
        if (full)
            print_in_full(s, row);
        else if (!early)
            print_row(row), print_message(row, row->status == RESULT_SKIP);
        else if (r->count > 1)
            say("  FAIL  %s (above)\n", row->test);
    }
    if (column) say("\n");
    print_not_run(r);
    if (shortened) say("  (two failures in full; VERBOSE=1 shows them all)\n");
    suite_say_counts(r);
}

// Tries the private cases of this problem, and adds them to the results. Returns a status as suite_run_all does.
static int hold_out(const suite *s, results *all)
{
    char line[1024], name[64], given[512], test[64];
    int number, held = 0, right = 0;
    FILE *from = fopen(s->cases, "r");
    if (!from) return fprintf(stderr, "wb: %s: %s\n", s->cases, strerror(errno)), 2;
    while (fgets(line, sizeof line, from)) {
        if (sscanf(line, "%d %63s %511s", &number, name, given) != 3) continue;
        if (number != number_of(s->program)) continue;
        suite one = *s;
        results r;
        one.given = given;
        const bool ok = listen_to(&one, &r, NULL) && count(&r).of[RESULT_OK] == 1 && r.count == 1, starved = r.starved;
        results_free(&r);
        if (starved) return fclose(from), 3;
        snprintf(test, sizeof test, "private case %d", ++held);
        right += ok;
        results_add(all, &(result){.status = ok ? RESULT_OK : RESULT_FAIL, .test = test, .checkpoint = name});
    }
    fclose(from);
    if (held) say("  private cases: %d of %d correct\n", right, held);
    return right == held ? 0 : 1;
}

int suite_run_all(const suite *s, results *r)
{
    char *early = NULL;
    const bool ran = listen_to(s, r, &early);
    if (isatty(2)) fputs(blank, stderr);
    results_sort(r);
    print_suite(s, r, early);
    free(early);
    bool failed = false;
    for (int i = 0; i < r->count; i++) failed |= r->rows[i].status == RESULT_FAIL;
    if (!ran) return r->starved ? 3 : 2;
    if (count(r).of[RESULT_OK] == 0 && !failed) return 2;
    const int held_out = s->cases ? hold_out(s, r) : 0;
    return held_out > 1 ? held_out : failed || held_out;
}

const result *suite_failure(const results *r, bool with_case)
{
    for (int i = 0; i < r->count; i++)
        if (r->rows[i].status == RESULT_FAIL && (!with_case || *r->rows[i].given)) return &r->rows[i];
    return NULL;
}

void suite_names(const char *program, results *r)
{
    listen_to(&(suite){.program = program, .worker = "none", .backend = "cpu", .names = true}, r, NULL);
    results_sort(r);
}

// ------------------------ commands

static int usage(void)
{
    fprintf(stderr, "usage: wb suite [--first] [--cases FILE] [--shown WORKER] [--record FILE] "
                    "[--coverage FOLDER] TEST_PROGRAM WORKER BACKEND [CRITERION OPTION...]\n");
    return 2;
}

static void ended(void) { exit(2); }

int wb_suite(char **given)
{
    static const char *const states[] = {"passed", "failed", "could not run", "could not be judged"};
    suite s = {.cases = NULL};
    const char *record = NULL;
    const struct {
        const char *name, **to;
    } options[] = {{"--cases", &s.cases}, {"--shown", &s.shown}, {"--coverage", &s.coverage}, {"--record", &record}};
    enum { OPTIONS = sizeof options / sizeof *options };
    for (; *given && strncmp(*given, "--", 2) == 0; given++) {
        int n = 0;
        while (n < OPTIONS && strcmp(*given, options[n].name)) n++;
        if (n < OPTIONS && given[1])
            *options[n].to = *++given;
        else if (strcmp(*given, "--first") == 0)
            s.first = true;
        else
            return usage();
    }
    for (int i = 0; i < 3; i++)
        if (!given[i]) return usage();
    s.program = given[0], s.worker = given[1], s.backend = given[2], s.options = given + 3;
    outcome o = {.began = 0};
    child_interrupted(ended);
    const int status = suite_run_all(&s, &o.results);
    o.state = states[status];
    if (record && !outcome_write(record, &o)) return perror(record), 2;
    return status;
}
