// platforms.c - what Gradescope, PrairieLearn and Classroom 50 read, each a file of JSON.
#include "score/safe_text.h"
#include "score/score.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void add_text(cJSON *object, const char *name, const char *text)
{
    char *const clean = safe_text(text, PLAIN);
    cJSON_AddStringToObject(object, name, clean);
    free(clean);
}

static void add_format(cJSON *object, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add_format(cJSON *object, const char *name, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add_text(object, name, text);
}

static void write_and_free(FILE *f, cJSON *object)
{
    char *const text = cJSON_Print(object);
    if (!text) grades_give_up("JSON");
    fprintf(f, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(object);
}

static cJSON *add_object(cJSON *array)
{
    cJSON *const object = cJSON_CreateObject();
    cJSON_AddItemToArray(array, object);
    return object;
}

// ---------------------------------------------------------------------------------------------------------------- Gradescope

static void list_test(const char *test, const result *r, void *context)
{
    write_form(context, LINE, "%s: %s\n", grades_word(r), test);
}

static void add_test(cJSON *tests, const wb_problem *p, const char *title, const char *id, int points, bool earned,
                     const char *output)
{
    cJSON *const test = add_object(tests);
    add_format(test, "name", "%02d %s: %s", p->number, p->name, title);
    add_format(test, "number", "%d.%s", p->number, id);
    cJSON_AddNumberToObject(test, "score", earned ? points : 0);
    cJSON_AddNumberToObject(test, "max_score", points);
    cJSON_AddStringToObject(test, "status", earned ? "passed" : "failed");
    cJSON_AddStringToObject(test, "visibility", "visible");
    add_text(test, "output", output);
}

static void add_checkpoint(cJSON *tests, const wb_problem *p, const checkpoint *c)
{
    char *output;
    size_t size;
    FILE *f = open_memstream(&output, &size);
    if (!f) grades_give_up("JSON");
    fprintf(f, "%s\n", grades_records[c->number].state);
    grades_each_test(c, list_test, f);
    if (strcmp(c->needs, "-") != 0) fprintf(f, "needs: %s\n", c->needs);
    fclose(f);
    add_test(tests, p, c->title, c->name, c->points, c->earned, output);
    free(output);
}

// One test a checkpoint, and one a problem with what the suite said.
void score_write_gradescope(FILE *to, const char *folder)
{
    cJSON *const root = cJSON_CreateObject();
    char *note = grades_read_file("%s/00.note", folder), *output;
    size_t size;
    FILE *f = open_memstream(&output, &size);
    if (!f) grades_give_up("JSON");
    fputs(note, f);
    grades_print_total(f);
    fclose(f);
    add_text(root, "output", output);
    cJSON_AddStringToObject(root, "output_format", "text");
    free(note);
    free(output);
    int earned = 0;
    double speed = 0;
    cJSON *const tests = cJSON_CreateArray();
    EACH_PROBLEM (p) {
        EACH_CHECKPOINT (c, p->number) add_checkpoint(tests, p, c);
        char *const report = grades_read_file("%s/%02d.report", folder, p->number);
        const bool passed = strcmp(grades_records[p->number].state, "passed") == 0;
        if (*report) add_test(tests, p, "report", "report", 0, passed, report);
        free(report);
        earned += grades_of(p->number).earned;
        speed += grades_speed_points(p->number);
    }
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(root, "extra_data"), "speed_points", round(speed * 10) / 10);
    if (speed > 0) {
        cJSON *const line = add_object(cJSON_AddArrayToObject(root, "leaderboard"));
        cJSON_AddStringToObject(line, "name", "speed");
        cJSON_AddNumberToObject(line, "value", round(speed * 10) / 10);
    }
    cJSON_AddNumberToObject(root, "score", earned);
    cJSON_AddStringToObject(root, "visibility", "visible");
    cJSON_AddItemToObject(root, "tests", tests);
    write_and_free(to, root);
}

// -------------------------------------------------------------------------------------------------------------- PrairieLearn

// An external grader's results (docs.prairielearn.com, External grading): a score from 0 to 1, which a bonus may exceed no more.
void score_write_prairielearn(FILE *to, const char *folder)
{
    const score required = grades_total(WB_REQUIRED);
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "gradable", true);
    cJSON_AddNumberToObject(root, "score", required.possible ? (double)required.earned / required.possible : 0);
    char *const report = grades_read_file("%s/report.txt", folder);
    add_text(root, "output", report);
    free(report);
    cJSON *const tests = cJSON_AddArrayToObject(root, "tests");
    for (const checkpoint *c = grades_table; c < grades_table + grades_checkpoints; c++) {
        const wb_problem *const p = wb_problem_number(c->number);
        cJSON *const test = add_object(tests);
        add_format(test, "name", "%02d %s: %s%s", c->number, p->name, c->title, p->group ? " (bonus)" : "");
        cJSON_AddNumberToObject(test, "points", c->earned ? c->points : 0);
        cJSON_AddNumberToObject(test, "max_points", c->points);
        add_text(test, "message", grades_records[c->number].state);
    }
    write_and_free(to, root);
}

// --------------------------------------------------------------------------------------------------------------- Classroom 50

static void add_variable(cJSON *root, const char *name, const char *variable)
{
    const char *const value = getenv(variable);
    add_text(root, name, value && *value ? value : "-");
}

// classroom50/result/v1 (github.com/foundation50/classroom50, Advanced Autograding, 2026-08): what its collection reads. Which submission
// it is stands in variables of its runner. The sum is of the problems that are asked for; a bonus is in report.txt.
void score_write_classroom(FILE *to, const char *folder)
{
    (void)folder;
    const score required = grades_total(WB_REQUIRED);
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "classroom50/result/v1");
    add_variable(root, "classroom", "CLASSROOM");
    add_variable(root, "assignment", "ASSIGNMENT");
    add_variable(root, "submission", "SUBMISSION_TAG");
    add_variable(root, "commit", "COMMIT_URL");
    add_variable(root, "release", "RELEASE_URL");
    add_variable(root, "review", getenv("REVIEW_URL") ? "REVIEW_URL" : "COMMIT_URL");
    char when[32];
    const time_t now = time(NULL);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    cJSON_AddStringToObject(root, "datetime", when);
    cJSON_AddNumberToObject(root, "score", required.earned);
    cJSON_AddNumberToObject(root, "max-score", required.possible);
    cJSON *const tests = cJSON_AddArrayToObject(root, "tests");
    for (const checkpoint *c = grades_table; c < grades_table + grades_checkpoints; c++) {
        const wb_problem *const p = wb_problem_number(c->number);
        if (p->group != WB_REQUIRED) continue;
        cJSON *const test = add_object(tests);
        add_format(test, "test-name", "%02d %s: %s", c->number, p->name, c->title);
        cJSON_AddBoolToObject(test, "passed", c->earned);
        cJSON_AddNumberToObject(test, "score", c->earned ? c->points : 0);
        cJSON_AddNumberToObject(test, "max-score", c->points);
    }
    write_and_free(to, root);
}
