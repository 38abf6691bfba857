// points.c - points for what the suites found: prints the score table of the problems of this run, and writes into
// FOLDER scores.tsv, report.txt and results.json (Gradescope), each of them whole or not at all.
#include "score/safe_text.h"
#include "score/score.h"
#include "score/standing.h"

static void write_whole(const char *folder, const char *name, void (*write)(FILE *, const char *folder))
{
    char path[4096], final[4096];
    snprintf(path, sizeof path, "%s/%s.new", folder, name);
    snprintf(final, sizeof final, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) grades_give_up(path);
    write(file, folder);
    if (ferror(file) || fclose(file) || rename(path, final)) grades_give_up(final);
}

static void write_scores(FILE *f, const char *folder)
{
    (void)folder;
    fprintf(f, "number\tname\tstate\tearned\tpossible\tgroup\tnext\ttitle\ttest\tcase\n");
    EACH_PROBLEM (p) {
        const score s = grades_of(p->number);
        const result *r = NULL;
        const char *test = s.next ? grades_missing(s.next, &r) : NULL;
        fprintf(f, "%02d\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t", p->number, p->name, grades_records[p->number].state, s.earned,
                s.possible, p->group, s.next ? s.next->name : "-", s.next ? s.next->title : "-");
        write_form(f, LINE, "%s\t%s\n", test ? test : "-", r && *r->given ? r->given : "-");
    }
}

// The score table of these problems.
static void write_table(FILE *f, const char *folder, const bool shown[WB_PROBLEMS])
{
    const bool own = f == stdout && strcmp(folder, OWN_RECORDS) == 0;
    fprintf(f, "\n      %-26s %-15s  points\n", "problem", "state");
    EACH_PROBLEM (p) {
        const outcome *r = &grades_records[p->number];
        const score s = grades_of(p->number);
        const char *group = grades_group_name(p->group);
        if (!shown[p->number]) continue;
        const bool unfinished = own && strcmp(r->state, "failed") == 0 && standing_of(p).unfinished;
        fprintf(f, "  %02d  %-26s %-15s %3d / %d%s%s", p->number, p->name, unfinished ? "unfinished" : r->state,
                s.earned, s.possible, *group ? "  " : "", group);
        fprintf(f, "\n");
        EACH_CHECKPOINT (c, p->number) {
            char why[256];
            if (!grades_ran(p->number) || !s.next) break;
            fprintf(f, "        %-7s %3d  %-12s %s", c->earned ? "won" : "not yet", c->points, c->name, c->title);
            if (!c->earned) {
                const char *test, *said = grades_why(c, &test, why);
                write_form(f, LINE, ": %s%s%s", test ? test : "", test ? " " : "", said);
            }
            fprintf(f, "\n");
        }
    }
    fprintf(f, "\n");
    grades_print_total(f);
    const char *comma = ", with the last runs of ";
    EACH_PROBLEM (p) {
        if (shown[p->number] || !grades_of(p->number).earned) continue;
        fprintf(f, "%s%02d", comma, p->number);
        comma = ", ";
    }
    fprintf(f, "\n");
}

static void write_report(FILE *f, const char *folder)
{
    bool all[WB_PROBLEMS];
    memset(all, true, sizeof all);
    char *const note = grades_read_file("%s/00.note", folder);
    write_text(f, note, PLAIN);
    free(note);
    write_table(f, folder, all);
    EACH_PROBLEM (p) {
        const outcome *const o = &grades_records[p->number];
        if (*o->report && strcmp(o->state, "not started") != 0)  // that is in the table
            write_form(f, PLAIN, "\n== %02d %s: %s\n%s", p->number, p->name, o->state, o->report);
    }
}

int score_points(char **given)
{
    bool asked[WB_PROBLEMS];
    const char *folder = given[0];
    score_numbers(given + 1, asked);
    if (strcmp(folder, OWN_RECORDS) == 0)
        standing_read(folder);
    else
        grades_read(folder);
    write_whole(folder, "scores.tsv", write_scores);
    write_whole(folder, "report.txt", write_report);
    write_whole(folder, "results.json", score_write_gradescope);
    write_table(stdout, folder, asked);
    return 0;
}
