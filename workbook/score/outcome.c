#include "score/outcome.h"

#include "score/safe_text.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <sys/stat.h>

// ------------------------ tests

const char *const result_words[RESULT_STATUSES] = {"ok", "FAIL", "SKIP"};

result_status results_status(const char *word)
{
    int s = 0;
    while (s < RESULT_STATUSES && strcmp(word, result_words[s])) s++;
    return (result_status)s;
}

// The texts of a row, and of a problem.
typedef struct field {
    const char *name;
    size_t at;
    text_form form;
} field;
static const field of_row[] = {{"test", offsetof(result, test), LINE},
                               {"case", offsetof(result, given), LINE},
                               {"checkpoint", offsetof(result, checkpoint), LINE},
                               {"finding", offsetof(result, finding), PLAIN},
                               {"message", offsetof(result, message), PLAIN},
                               {NULL, 0, PLAIN}};
#define TEXT(name) \
    { \
#name, offsetof(outcome, name), PLAIN \
    }
static const field of_problem[] = {TEXT(date),  TEXT(backend),  TEXT(seed),   TEXT(machine),   TEXT(sum),
                                   TEXT(step),  TEXT(gaps),     TEXT(report), TEXT(log),       TEXT(sanitize),
                                   TEXT(clean), TEXT(coverage), TEXT(lines),  {NULL, 0, PLAIN}};

static char **text_at(const void *object, const field *t) { return (char **)(void *)((char *)object + t->at); }

// In JSON; a text that is "" is left out.
static cJSON *row_of(const result *row)
{
    cJSON *const object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "status", result_words[row->status]);
    for (const field *t = of_row; t->name; t++)
        if (*text_at(row, t) && **text_at(row, t)) cJSON_AddStringToObject(object, t->name, *text_at(row, t));
    cJSON_AddNumberToObject(object, "line", row->line);
    cJSON_AddNumberToObject(object, "seconds", row->seconds);
    return object;
}

void results_write(FILE *to, const result *row)
{
    cJSON *const object = row_of(row);
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

void results_add(results *r, const result *row)
{
    r->rows = realloc(r->rows, (size_t)(r->count + 1) * sizeof *r->rows);
    if (!r->rows) abort();
    result *const made = &r->rows[r->count++];
    *made = *row;
    for (const field *t = of_row; t->name; t++)
        *text_at(made, t) = safe_text(*text_at(row, t) ? *text_at(row, t) : "", t->form);
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *const n = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

static char *string(const cJSON *object, const char *name)
{
    const char *const value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return (char *)(value ? value : "");
}

bool results_take(results *r, const cJSON *said)
{
    const double line = number(said, "line");
    result row = {.status = results_status(string(said, "status")),
                  .line = fabs(line) < 1e9 ? (int)line : 0,
                  .seconds = number(said, "seconds")};
    for (const field *t = of_row; t->name; t++) *text_at(&row, t) = string(said, t->name);
    r->ended |= cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(said, "end"));
    r->starved |= cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(said, "starved"));
    if (row.status == RESULT_STATUSES || !*row.test) return false;
    results_add(r, &row);
    return true;
}

void results_free(results *r)
{
    for (int i = 0; i < r->count; i++)
        for (const field *t = of_row; t->name; t++) free(*text_at(&r->rows[i], t));
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

// ------------------------ a problem

static const char *known_state(const char *read)
{
    static const char *const states[] = {"not started", "compile error", "could not run", "could not be judged",
                                         "failed",      "passed",        "interrupted"};
    for (size_t i = 0; read && i < sizeof states / sizeof *states; i++)
        if (strcmp(read, states[i]) == 0) return states[i];
    return "not run";
}

enum { LARGEST = 64 << 20 };

static char *read_all(const char *path, struct stat *is)
{
    FILE *const file = stat(path, is) == 0 && S_ISREG(is->st_mode) && is->st_size < LARGEST ? fopen(path, "r") : NULL;
    char *const text = file ? malloc((size_t)is->st_size + 1) : NULL;
    if (text) text[fread(text, 1, (size_t)is->st_size, file)] = 0;
    if (file) fclose(file);
    return text;
}

bool outcome_read(const char *path, outcome *o)
{
    struct stat is = {0};
    char *const text = read_all(path, &is);
    cJSON *const root = text ? cJSON_Parse(text) : NULL, *row;
    *o = (outcome){.state = known_state(string(root, "state")), .began = number(root, "began")};
    if (!o->began) o->began = seconds_of(is.st_mtim);
    for (const field *t = of_problem; t->name; t++) *text_at(o, t) = safe_text(string(root, t->name), t->form);
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(root, "tests")) results_take(&o->results, row);
    cJSON_Delete(root);
    free(text);
    return text;
}

void outcome_add(cJSON *object, const char *name, const char *text)
{
    char *const clean = safe_text(text, PLAIN);
    cJSON_AddStringToObject(object, name, clean);
    free(clean);
}

bool outcome_write(const char *path, const outcome *o)
{
    cJSON *const root = cJSON_CreateObject(), *const tests = cJSON_CreateArray();
    cJSON_AddStringToObject(root, "state", o->state);
    cJSON_AddNumberToObject(root, "began", o->began);
    for (const field *t = of_problem; t->name; t++)
        if (*text_at(o, t) && **text_at(o, t)) outcome_add(root, t->name, *text_at(o, t));
    for (int i = 0; i < o->results.count; i++) cJSON_AddItemToArray(tests, row_of(&o->results.rows[i]));
    cJSON_AddItemToObject(root, "tests", tests);
    char *const text = cJSON_Print(root), part[4200] = "";
    snprintf((char *)part, sizeof part, "%s.new", path);
    FILE *const to = text ? fopen(part, "w") : NULL;
    bool written = to && fputs(text, to) >= 0 && fputc('\n', to) != EOF;
    if (to) written = fclose(to) == 0 && written && rename(part, path) == 0;
    cJSON_free(text);
    cJSON_Delete(root);
    return written;
}
