#include "score/outcome.h"

#include "score/safe_text.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <sys/stat.h>

static const struct {
    const char *name;
    size_t at;
} texts[] = {
#define TEXT(name) \
    { \
#name, offsetof(outcome, name) \
    }
    TEXT(date), TEXT(backend), TEXT(seed), TEXT(machine),  TEXT(sum),      TEXT(step),
    TEXT(gaps), TEXT(report),  TEXT(log),  TEXT(sanitize), TEXT(coverage), TEXT(lines),
#undef TEXT
};
enum { TEXTS = sizeof texts / sizeof *texts, LARGEST = 64 << 20 };

static char **text_of(outcome *o, int t) { return (char **)(void *)((char *)o + texts[t].at); }

static const char *known_state(const char *read)
{
    static const char *const states[] = {"not started", "compile error", "could not run", "could not be judged",
                                         "failed",      "passed",        "interrupted"};
    for (size_t i = 0; read && i < sizeof states / sizeof *states; i++)
        if (strcmp(read, states[i]) == 0) return states[i];
    return "not run";
}

// ------------------------ reading

static char *string(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return (char *)(text ? text : "");
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

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
    if (!o->began) o->began = (double)is.st_mtim.tv_sec + 1e-9 * (double)is.st_mtim.tv_nsec;
    for (int t = 0; t < TEXTS; t++)
        if (!(*text_of(o, t) = strdup(string(root, texts[t].name)))) abort();
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(root, "tests")) results_take(&o->results, row);
    cJSON_Delete(root);
    free(text);
    return text;
}

// ------------------------ writing

static void add(cJSON *object, const char *name, const char *text)
{
    if (!text || !*text) return;
    char *const clean = safe_text(text, PLAIN);
    cJSON_AddStringToObject(object, name, clean);
    free(clean);
}

bool outcome_write(const char *path, const outcome *o)
{
    cJSON *const root = cJSON_CreateObject(), *const tests = cJSON_CreateArray();
    cJSON_AddStringToObject(root, "state", o->state);
    cJSON_AddNumberToObject(root, "began", o->began);
    for (int t = 0; t < TEXTS; t++) add(root, texts[t].name, *text_of((outcome *)o, t));
    for (int i = 0; i < o->results.count; i++) {
        result row = o->results.rows[i];
        row.message = safe_text(row.message, PLAIN);
        cJSON_AddItemToArray(tests, results_row(&row));
        free(row.message);
    }
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
