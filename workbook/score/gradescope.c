// gradescope.c - results.json, as Gradescope reads it.
#include "score/safe_text.h"
#include "score/score.h"

#include <cjson/cJSON.h>
#include <stdarg.h>

static void add_text(cJSON *object, const char *name, const char *text)
{
    char *const clean = safe_text(text, PLAIN);
    cJSON_AddStringToObject(object, name, clean);
    free(clean);
}

__attribute__((format(printf, 3, 4))) static void add_format(cJSON *object, const char *name, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add_text(object, name, text);
}

static void list_test(const char *test, const result *r, void *context)
{
    write_form(context, LINE, "%s: %s\n", grades_word(r), test);
}

static void add_test(cJSON *tests, const wb_problem *p, const char *title, const char *id, int points, bool earned,
                     const char *output)
{
    cJSON *const test = cJSON_CreateObject();
    cJSON_AddItemToArray(tests, test);
    add_format(test, "name", "%02d %s: %s", p->number, p->name, title);
    add_format(test, "number", "%d.%s", p->number, id);
    cJSON_AddNumberToObject(test, "score", earned ? points : 0);
    cJSON_AddNumberToObject(test, "max_score", p->group ? 0 : points);  // of a bonus the points come on top
    cJSON_AddStringToObject(test, "status", earned ? "passed" : "failed");
    cJSON_AddStringToObject(test, "visibility", "visible");
    add_text(test, "output", output);
}

static void add_checkpoint(cJSON *tests, const wb_problem *p, const checkpoint *c, const char *state)
{
    char *output;
    size_t size;
    FILE *f = open_memstream(&output, &size);
    if (!f) grades_give_up("JSON");
    fprintf(f, "%s\n", state);
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
