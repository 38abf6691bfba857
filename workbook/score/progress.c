// progress.c - make progress: a line a problem, where it stands, points, and the next step.
#include "score/score.h"
#include "score/standing.h"

#include <string.h>

int score_progress(char **given)
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
