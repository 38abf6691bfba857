#include "results.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>

const char *const result_words[RESULT_STATUSES] = {"ok", "FAIL", "SKIP"};

result_status results_status(const char *word)
{
    int s = 0;
    while (s < RESULT_STATUSES && strcmp(word, result_words[s])) s++;
    return (result_status)s;
}

static const struct {
    const char *name;
    size_t at;
} texts[] = {{"test", offsetof(result, test)},
             {"case", offsetof(result, given)},
             {"checkpoint", offsetof(result, checkpoint)},
             {"finding", offsetof(result, finding)},
             {"message", offsetof(result, message)}};
enum { TEXTS = sizeof texts / sizeof *texts };

static char **text_of(result *row, int t) { return (char **)(void *)((char *)row + texts[t].at); }

// ------------------------ writing

cJSON *results_row(const result *row)
{
    cJSON *const object = cJSON_CreateObject();
    result copy = *row;
    cJSON_AddStringToObject(object, "status", result_words[row->status]);
    for (int t = 0; t < TEXTS; t++)
        if (*text_of(&copy, t) && **text_of(&copy, t))
            cJSON_AddStringToObject(object, texts[t].name, *text_of(&copy, t));
    cJSON_AddNumberToObject(object, "line", row->line);
    cJSON_AddNumberToObject(object, "seconds", row->seconds);
    return object;
}

void results_write(FILE *to, const result *row)
{
    cJSON *const object = results_row(row);
    char *const line = cJSON_PrintUnformatted(object);
    if (!line) abort();
    fprintf(to, "%s\n", line);
    fflush(to);
    cJSON_free(line);
    cJSON_Delete(object);
}

void results_end(FILE *to, bool starved)
{
    fprintf(to, "{\"%s\": true}\n", starved ? "starved" : "end");
    fflush(to);
}

// ------------------------ reading

void results_add(results *r, const result *row)
{
    r->rows = realloc(r->rows, (size_t)(r->count + 1) * sizeof *r->rows);
    if (!r->rows) abort();
    result *const made = &r->rows[r->count++];
    *made = *row;
    for (int t = 0; t < TEXTS; t++) {
        const char *const text = *text_of(made, t);
        if (!(*text_of(made, t) = strdup(text ? text : ""))) abort();
    }
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *const n = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(n) && fabs(n->valuedouble) < 1e9 ? n->valuedouble : 0;
}

bool results_take(results *r, const cJSON *said)
{
    const char *const status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(said, "status"));
    result row = {.status = results_status(status ? status : ""),
                  .line = (int)number(said, "line"),
                  .seconds = number(said, "seconds")};
    for (int t = 0; t < TEXTS; t++)
        *text_of(&row, t) = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(said, texts[t].name));
    r->ended |= cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(said, "end"));
    r->starved |= cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(said, "starved"));
    if (row.status == RESULT_STATUSES || !row.test || !*row.test) return false;
    results_add(r, &row);
    return true;
}

void results_free(results *r)
{
    for (int i = 0; i < r->count; i++)
        for (int t = 0; t < TEXTS; t++) free(*text_of(&r->rows[i], t));
    free(r->rows);
    *r = (results){0};
}

bool results_not_run(const result *row) { return row->status == RESULT_FAIL && strcmp(row->finding, "not run") == 0; }

static int by_line(const void *a, const void *b)
{
    const result *x = a, *y = b;
    if (x->line == y->line) return strcmp(x->test, y->test);
    if (!x->line || !y->line) return x->line ? -1 : 1;
    return x->line - y->line;
}

void results_sort(results *r)
{
    if (r->count) qsort(r->rows, (size_t)r->count, sizeof *r->rows, by_line);
}
