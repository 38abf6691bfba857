// points.c - points for what the suites found: prints the score table of the problems of this run, and writes into
// FOLDER report.txt and results.json (Gradescope), each of them whole or not at all.
#include "score/safe_text.h"
#include "score/score.h"

#include <cjson/cJSON.h>

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

// The score table of these problems.
static void write_table(FILE *f, const char *folder, const bool shown[WB_PROBLEMS])
{
    static const char *const groups[WB_GROUPS] = {"", "  bonus", "  beyond"};
    const bool own = f == stdout && strcmp(folder, OWN_RECORDS) == 0;
    fprintf(f, "\n      %-26s %-15s  points\n", "problem", "state");
    EACH_PROBLEM (p) {
        const outcome *r = &grades_records[p->number];
        const score s = grades_of(p->number);
        if (!shown[p->number]) continue;
        const bool unfinished = own && strcmp(r->state, "failed") == 0 && standing_of(p).unfinished;
        fprintf(f, "  %02d  %-26s %-15s %3d / %d%s\n", p->number, p->name, unfinished ? "unfinished" : r->state,
                s.earned, s.possible, groups[p->group]);
        EACH_CHECKPOINT (c, p->number) {
            char why[256];
            if (!grades_ran(p->number) || !s.next) break;
            fprintf(f, "        %-7s %3d  %-12s %s", c->earned ? "won" : "not yet", c->points, c->name, c->title);
            if (!c->earned) {
                const char *test, *said = grades_why(c, &test, why);
                fprintf(f, ": %s%s%s", test ? test : "", test ? " " : "", said);
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
            fprintf(f, "\n== %02d %s: %s\n%s", p->number, p->name, o->state, o->report);
    }
}

// ------------------------ results.json, as Gradescope reads it

static void add_test(cJSON *tests, const wb_problem *p, const char *title, const char *id, int points, bool earned,
                     const char *output)
{
    cJSON *const test = cJSON_CreateObject();
    cJSON_AddItemToArray(tests, test);
    char text[1024];
    snprintf(text, sizeof text, "%02d %s: %s", p->number, p->name, title);
    outcome_add(test, "name", text);
    snprintf(text, sizeof text, "%d.%s", p->number, id);
    outcome_add(test, "number", text);
    cJSON_AddNumberToObject(test, "score", earned ? points : 0);
    cJSON_AddNumberToObject(test, "max_score", p->group ? 0 : points);  // of a bonus the points come on top
    cJSON_AddStringToObject(test, "status", earned ? "passed" : "failed");
    cJSON_AddStringToObject(test, "visibility", "visible");
    outcome_add(test, "output", output);
}

static void add_checkpoint(cJSON *tests, const wb_problem *p, const checkpoint *c, const char *state)
{
    static const char *const words[RESULT_STATUSES] = {"passed", "failed", "not run"};
    char *output;
    FILE *const f = text_in_memory(&output);
    fprintf(f, "%s\n", state);
    const result *r;
    int n = 0;
    for (const char *test; (test = grades_test(c, &n, &r));)
        fprintf(f, "%s: %s\n", words[r ? r->status : RESULT_SKIP], test);
    if (strcmp(c->needs, "-") != 0) fprintf(f, "needs: %s\n", c->needs);
    fclose(f);
    add_test(tests, p, c->title, c->name, c->points, c->earned, output);
    free(output);
}

// One test a checkpoint, and one a problem with what the suite said.
static void write_gradescope(FILE *to, const char *folder)
{
    cJSON *const root = cJSON_CreateObject();
    char *const note = grades_read_file("%s/00.note", folder), *output;
    FILE *const f = text_in_memory(&output);
    fputs(note, f);
    grades_print_total(f);
    fclose(f);
    outcome_add(root, "output", output);
    cJSON_AddStringToObject(root, "output_format", "text");
    free(note);
    free(output);
    int earned = 0;
    cJSON *const tests = cJSON_CreateArray();
    EACH_PROBLEM (p) {
        const char *const state = grades_records[p->number].state;
        EACH_CHECKPOINT (c, p->number) add_checkpoint(tests, p, c, state);
        const char *const report = grades_records[p->number].report;
        if (*report) add_test(tests, p, "report", "report", 0, strcmp(state, "passed") == 0, report);
        earned += grades_of(p->number).earned;
    }
    cJSON_AddNumberToObject(root, "score", earned);
    cJSON_AddStringToObject(root, "visibility", "visible");
    cJSON_AddItemToObject(root, "tests", tests);
    char *const text = cJSON_Print(root);
    if (!text) grades_give_up("JSON");
    fprintf(to, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
}

// ------------------------ the command

int score_points(char **given)
{
    bool asked[WB_PROBLEMS];
    const char *folder = given[0];
    score_numbers(given + 1, asked);
    if (strcmp(folder, OWN_RECORDS) == 0)
        standing_read(folder);
    else
        grades_read(folder);
    write_whole(folder, "report.txt", write_report);
    write_whole(folder, "results.json", write_gradescope);
    write_table(stdout, folder, asked);
    return 0;
}
