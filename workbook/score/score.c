// score.c - points, and what to do next: the program behind make test's table, make next, progress, hint, watch and
// report. It runs in the workbook's root and starts nothing but shipped.sh.
#include "score/score.h"
#include "score/standing.h"

#include <stdlib.h>
#include <string.h>

const wb_problem *score_problem(const char *number)
{
    const wb_problem *p = wb_problem_number(atoi(number));
    if (p) return p;
    fprintf(stderr, "score: there is no problem %.20s\n", number);
    exit(1);
}

void score_numbers(char **numbers, bool asked[WB_PROBLEMS])
{
    memset(asked, 0, WB_PROBLEMS * sizeof *asked);
    for (; *numbers; numbers++) asked[score_problem(*numbers)->number] = true;
}

static int total(char **given)
{
    grades_read(given[0]);
    grades_print_total(stdout);
    printf("\n");
    return 0;
}

static int possible(char **given)
{
    (void)given;
    grades_read("");
    for (int g = 0; g < WB_GROUPS; g++)
        printf("%s\t%d\n", g ? grades_group_name((wb_group)g) : "required", grades_total((wb_group)g).possible);
    return 0;
}

static int standing_now(char **given)
{
    standing_read(OWN_RECORDS);
    const standing s = standing_of(score_problem(given[0]), OWN_RECORDS);
    printf("%s%s, %d of %d points\n", standing_word(&s), s.changed ? " and changed since" : "", s.points.earned,
           s.points.possible);
    return 0;
}

// From the checkpoints; tests/checkpoints.sh compares.
static int lesson(char **given)
{
    grades_read("");
    printf(
        "## Points\n\nEach checkpoint is all or nothing ([tests](checkpoints.txt)). It counts only when those that it\n"
        "needs are won.\n\n| checkpoint | points | needs | what |\n|---|---|---|---|\n");
    EACH_CHECKPOINT (c, score_problem(given[0])->number) {
        printf("| %s | %d | ", c->name, c->points);
        for (const char *at = strcmp(c->needs, "-") ? c->needs : ""; *at; at++) printf(*at == ',' ? ", " : "%c", *at);
        printf(" | %s |\n", c->title);
    }
    return 0;
}

static int progress(char **given)
{
    (void)given;
    int widest = 0;
    standing_read(OWN_RECORDS);
    EACH_PROBLEM (p)
        if ((int)strlen(p->name) > widest) widest = (int)strlen(p->name);
    EACH_PROBLEM (p) {
        char step[256];
        const standing s = standing_of(p, OWN_RECORDS);
        standing_step(&s, step);
        printf("%02d  %-*s  %-13s  %3d / %3d  %s\n", p->number, widest, p->name, standing_word(&s), s.points.earned,
               s.points.possible, step);
    }
    printf("\n");
    grades_print_total(stdout);
    printf("\n");
    return 0;
}

static int untouched(char **given) { return !standing_is_shipped(given[0]); }

static const struct {
    const char *name, *given;
    int least;  // how many must be given
    int (*run)(char **);
    const char *what;
} commands[] = {
    {"points", "FOLDER NN...", 1, score_points, "a table; writes scores.tsv, report.txt, results.json"},
    {"after", "FOLDER NN...", 1, score_after, "the line below the table: what to do next, in these problems first"},
    {"total", "FOLDER", 1, total, "Score: ..."},
    {"row", "FOLDER REASON", 2, score_row, "a row of the class's table, for the submission in FOLDER"},
    {"class", "OUT <NAMES", 1, score_class, "prints grades.csv for the submissions in OUT/reports"},
    {"possible", "", 0, possible, "a line per group: its name, a tab, its points"},
    {"lesson", "NN", 1, lesson, "the section Points of the lesson"},
    {"progress", "", 0, progress, "the student's own work: a line per problem"},
    {"next", "[--number]", 0, score_next, "the next thing to do, or the problem's number; nothing if all is done"},
    {"standing", "NN", 1, standing_now, "the state and the points of problem NN"},
    {"hint", "NN", 1, score_hint, "a hint for the gap GAP, of level LEVEL"},
    {"gaps", "NN", 1, score_gaps, "a line with its untouched gaps, if there are any"},
    {"cases", "NN", 1, score_cases, "the cases in which the answer is counted, for the worker"},
    {"predicted", "NN [COUNTS]", 1, score_predicted,
     "the question of make predict; with COUNTS, stores GUESS and compares it with what was counted"},
    {"untouched", "FILE", 1, untouched, "exit status 0 if FILE is an unmodified skeleton"},
};

int main(int argc, char **argv)
{
    const size_t count = sizeof commands / sizeof *commands;
    for (size_t i = 0; argc > 1 && i < count; i++)
        if (strcmp(argv[1], commands[i].name) == 0 && argc - 2 >= commands[i].least) return commands[i].run(argv + 2);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "score %-9s %-20s  %s\n", commands[i].name, commands[i].given, commands[i].what);
    return 2;
}
