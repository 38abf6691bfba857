// lesson.c - the section "Points" of a lesson, from the problem's checkpoints. tests/checkpoints.sh compares.
#include "score/score.h"

#include <string.h>

int score_lesson(char **given)
{
    grades_read("");
    printf("## Points\n\n"
           "All or nothing for each checkpoint, by the tests named in [checkpoints.txt](checkpoints.txt); it\n"
           "counts once what it needs is won.\n\n"
           "| checkpoint | points | needs | what |\n|---|---|---|---|\n");
    EACH_CHECKPOINT (c, score_problem(given[0])->number) {
        printf("| %s | %d | ", c->name, c->points);
        for (const char *at = strcmp(c->needs, "-") ? c->needs : ""; *at; at++) printf(*at == ',' ? ", " : "%c", *at);
        printf(" | %s |\n", c->title);
    }
    return 0;
}
