// score.c - points: the smaller commands.
#include "score/score.h"

#include <unistd.h>

static bool is_here(const wb_problem *p)
{
    char folder[32];
    snprintf(folder, sizeof folder, "problems/%02d", p->number);
    return access(folder, F_OK) == 0;
}

const wb_problem *score_problem(const char *number)
{
    const wb_problem *const p = wb_problem_number(atoi(number));
    if (p && is_here(p)) return p;
    fprintf(stderr, "wb: there is no problem %.20s, only", number);
    EACH_PROBLEM (other)
        if (is_here(other)) fprintf(stderr, " %02d", other->number);
    fprintf(stderr, "\n");
    exit(2);
}

void score_numbers(char **numbers, bool asked[WB_PROBLEMS])
{
    memset(asked, 0, WB_PROBLEMS * sizeof *asked);
    for (; *numbers; numbers++) asked[score_problem(*numbers)->number] = true;
}

int score_total(char **given)
{
    grades_read(given[0]);
    grades_print_total(stdout);
    printf("\n");
    return 0;
}

int score_standing(char **given)
{
    standing_read(OWN_RECORDS);
    const standing s = standing_of(score_problem(given[0]));
    printf("%s%s, %d of %d points\n", standing_word(&s), s.changed ? " and changed since" : "", s.points.earned,
           s.points.possible);
    return s.changed || strcmp(standing_word(&s), "passed") != 0;
}

// From the checkpoints; tests/checkpoints.sh compares.
int score_lesson(char **given)
{
    grades_read("");
    printf(
        "## Points\n\nEach checkpoint is all or nothing ([tests](checkpoints.txt)). It counts only if the checkpoints "
        "that\nit needs are won, too.\n\n| checkpoint | points | needs | what |\n|---|---|---|---|\n");
    EACH_CHECKPOINT (c, score_problem(given[0])->number) {
        printf("| %s | %d | ", c->name, c->points);
        for (const char *at = strcmp(c->needs, "-") ? c->needs : ""; *at; at++) printf(*at == ',' ? ", " : "%c", *at);
        printf(" | %s |\n", c->title);
    }
    return 0;
}

int score_progress(char **given)
{
    (void)given;
    int widest = 0;
    standing_read(OWN_RECORDS);
    EACH_PROBLEM (p)
        if ((int)strlen(p->name) > widest) widest = (int)strlen(p->name);
    EACH_PROBLEM (p) {
        char step[256];
        const standing s = standing_of(p);
        standing_step(&s, step);
        printf("%02d  %-*s  %-13s  %3d / %3d  %s\n", p->number, widest, p->name, standing_word(&s), s.points.earned,
               s.points.possible, step);
    }
    printf("\n");
    grades_print_total(stdout);
    printf("\n");
    return 0;
}

int score_from(char **given)
{
    const wb_problem *const p = wb_problem_number(atoi(given[0]));
    if (p && p->from) printf("%02d\n", p->from);
    return 0;
}

int score_untouched(char **given) { return !gaps_are_shipped(given[0]); }
