// wb.c - the program behind make test, watch, next, progress, hint and report, and behind grading: its commands.
#include "wb/wb.h"

#include "judge/spent.h"

#include <unistd.h>

// ------------------------ what scripts ask of a suite, of the record of a run, of a text

static int list(char **given)
{
    results r;
    suite_names(given[0], &r);
    for (int i = 0; i < r.count; i++) printf("%s\n", r.rows[i].test);
    return r.count && r.ended ? 0 : 2;
}

static bool show_text(const outcome *o, const char *what)
{
    const result *const failure = suite_failure(&o->results, strcmp(what, "case") == 0);
    const struct {
        const char *name, *text;
    } texts[] = {{"case", failure ? failure->given : ""},
                 {"message", failure ? failure->message : ""},
                 {"state", o->state},
                 {"report", o->report},
                 {"coverage", o->coverage},
                 {"run", text_of("%s %s %s %s", o->date, o->backend, o->seed, o->machine)}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(what, texts[i].name) != 0) continue;
        const size_t length = strlen(texts[i].text);
        if (length) printf("%s%s", texts[i].text, texts[i].text[length - 1] == '\n' ? "" : "\n");
        return true;
    }
    return false;
}

static int show(char **given)
{
    outcome o;
    const char *const what = given[1];
    if (!outcome_read(given[0], &o)) return fprintf(stderr, "wb: there is no record %s\n", given[0]), 2;
    const results *const r = &o.results;
    const result_status status = results_status(what);
    const bool all = strcmp(what, "tests") == 0;
    results_sort(&o.results);
    if (show_text(&o, what)) return 0;
    if (strcmp(what, "counts") == 0) return suite_say_counts(r), 0;
    if (status == RESULT_STATUSES && !all) return fprintf(stderr, "wb: show RECORD %s: unknown word\n", what), 2;
    for (int i = 0; i < r->count; i++)
        if (all || r->rows[i].status == status) printf("%s\n", r->rows[i].test);
    return 0;
}

static int plain(char **given)
{
    (void)given;
    say_plain("", child_read(dup(0), NULL));
    return 0;
}

// ------------------------ all commands

static const struct {
    const char *name, *given;
    int least;  // how many must be given
    int (*run)(char **);
    const char *what;
} commands[] = {
    {"test", "[--grade FOLDER BUILDER] BACKEND IMPL NN...", 2, wb_test, "builds and tests problems (test.c)"},
    {"watch", "BACKEND", 1, wb_watch_saves, "the same for one problem, at every save (watch.c)"},
    {"sanitize", "IMPL NN...", 1, wb_sanitize, "checks every access of problems in a few cases (sanitize.c)"},
    {"look", "WORKER CASE", 2, wb_look, "the report of the sanitizers for a case of a check build in C"},
    {"within", "SECONDS COMMAND...", 2, spent_within, "runs it for so many seconds of its own (judge/spent.h)"},
    {"suite", "[OPTION...] TEST_PROGRAM WORKER BACKEND [OPTION...]", 1, wb_suite, "runs a suite on a worker (suite.c)"},
    {"list", "TEST_PROGRAM", 1, list, "the names of its tests"},
    {"show", "RECORD WHAT", 2, show,
     "tests: all names; ok, FAIL, SKIP: their names; counts; case, message: of the first failure"},
    {"plain", "", 0, plain, "prints untrusted text from standard input, made safe by safe_text.h"},
    {"points", "FOLDER NN...", 1, score_points, "a table; writes report.txt and results.json"},
    {"after", "FOLDER NN...", 1, score_after, "the line below the table: what to do next, in these problems first"},
    {"total", "FOLDER", 1, score_total, "Score: ..."},
    {"class", "OUT <NAMES", 1, score_class, "prints grades.csv for the submissions in OUT/reports"},
    {"lesson", "NN", 1, score_lesson, "the section Points of the lesson"},
    {"progress", "", 0, score_progress, "the student's own work: a line per problem"},
    {"next", "", 0, score_next, "the next thing to do"},
    {"standing", "NN", 1, score_standing, "the state and the points of problem NN; exit status 0 if it has passed"},
    {"hint", "NN", 1, score_hint, "a hint for the gap GAP, of level LEVEL"},
    {"gaps", "NN", 1, score_gaps, "its untouched gaps, and where given code was changed"},
    {"cases", "NN", 1, score_cases,
     "what a worker is told to count, and in which cases, for the question of make predict"},
    {"predicted", "NN [COUNT...]", 1, score_predicted,
     "the question of make predict; with what the worker has counted, stores GUESS and compares both"},
    {"from", "NN", 1, score_from, "the number of the problem that NN continues, if there is one"},
    {"untouched", "FILE", 1, score_untouched, "exit status 0 if FILE is an unmodified skeleton"},
};

int main(int argc, char **argv)
{
    const size_t count = sizeof commands / sizeof *commands;
    for (size_t i = 0; argc > 1 && i < count; i++)
        if (strcmp(argv[1], commands[i].name) == 0 && argc - 2 >= commands[i].least) return commands[i].run(argv + 2);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "wb %s %s\n    %s\n", commands[i].name, commands[i].given, commands[i].what);
    return 2;
}
