// progress.c - make progress: a line a problem, where it stands, points, and the next step.
#include "score/score.h"
#include "score/standing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int score_progress(char **given)
{
    struct winsize terminal;
    const int columns = *given ? atoi(*given) : ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0 ? terminal.ws_col : 0;
    int widest = 0;
    standing_read(OWN_RECORDS);
    EACH_PROBLEM (p)
        if ((int)strlen(p->name) > widest) widest = (int)strlen(p->name);
    EACH_PROBLEM (p) {
        char line[512], step[256];
        const standing s = standing_of(p, OWN_RECORDS);
        standing_step(&s, step);
        snprintf(line, sizeof line, "%02d  %-*s  %-13s  %3d / %3d  %s", p->number, widest, p->name, standing_word(&s),
                 s.points.earned, s.points.possible, step);
        const bool wide = columns > 3 && (int)strlen(line) > columns;
        printf("%.*s%s\n", wide ? columns - 3 : (int)sizeof line, line, wide ? "..." : "");
    }
    printf("\n");
    grades_print_total(stdout);
    printf("\n");
    return 0;
}
