#include "grades.h"

#include "problems.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

checkpoint grades_table[MAX_CHECKPOINTS];
int grades_checkpoints;
record grades_records[MAX_PROBLEMS];
const char *grades_note = "";

void grades_give_up(const char *what)
{
    fprintf(stderr, "grades: %s: %s\n", what, strerror(errno));
    exit(2);
}

// ------------------------------------------------------------------------------------------------------------------ reading

static char *trimmed(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    for (char *end = text + strlen(text); end > text && strchr(" \t\r\n", end[-1]); *--end = 0) {}
    return text;
}

static void read_table(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[2048];
    if (!file) grades_give_up(path);
    while (fgets(line, sizeof line, file)) {
        if (*trimmed(line) == '#' || !*trimmed(line)) continue;
        checkpoint *c = &grades_table[grades_checkpoints++];
        char *title = strchr(line, '|'), *tests = title ? strchr(title + 1, '|') : NULL;
        if (grades_checkpoints == MAX_CHECKPOINTS || !tests ||
            sscanf(line, "%d %31s %d %127s", &c->number, c->name, &c->points, c->needs) != 4 || c->number < 1 ||
            c->number >= MAX_PROBLEMS) {
            errno = EINVAL;
            grades_give_up(line);
        }
        *title = *tests = 0;
        snprintf(c->title, sizeof c->title, "%s", trimmed(title + 1));
        snprintf(c->tests, sizeof c->tests, "%s", trimmed(tests + 1));
    }
    fclose(file);
}

char *grades_read_file(const char *format, ...)
{
    char path[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    if (!text) grades_give_up(path);
    for (size_t n; file && (n = fread(text + used, 1, room - used - 1, file)) > 0;) {
        used += n;
        if (room - used < 2 && !(text = realloc(text, room *= 2))) grades_give_up(path);
    }
    text[used] = 0;
    for (size_t i = 0; i < used; i++)
        if (!text[i]) text[i] = '?';
    if (file) fclose(file);
    return text;
}

static void read_record(const char *folder, int number)
{
    record *r = &grades_records[number];
    char *state = grades_read_file("%s/%02d.state", folder, number),
         *results = grades_read_file("%s/%02d.results", folder, number);
    state[strcspn(state, "\n")] = 0;
    snprintf(r->state, sizeof r->state, "%s", *state ? state : "not run");
    for (char *line = strtok(results, "\n"); line && r->count < MAX_RESULTS; line = strtok(NULL, "\n")) {
        result *one = &r->results[r->count];
        *one = (result){.checkpoint = ""};
        if (sscanf(line, "%7[^\t]\t%127[^\t]\t%31[^\t]", one->status, one->test, one->checkpoint) >= 2) r->count++;
    }
    r->report = grades_read_file("%s/%02d.report", folder, number);
    char *speed = grades_read_file("%s/%02d.speed", folder, number);
    r->speed = atof(speed);
    free(speed);
    free(state);
    free(results);
}

// ------------------------------------------------------------------------------------------------------------------ scoring

const char *grades_status(int number, const char *test)
{
    const record *r = &grades_records[number];
    for (int i = 0; i < r->count; i++)
        if (!*r->results[i].checkpoint && strcmp(r->results[i].test, test) == 0) return r->results[i].status;
    return "not run";
}

void grades_each_test(const checkpoint *c, void (*visit)(const char *test, const char *status, void *), void *context)
{
    const record *r = &grades_records[c->number];
    char tests[sizeof c->tests];
    strcpy(tests, c->tests);
    for (char *test = tests, *end; *test; test = end) {
        test += strspn(test, " ");
        end = test + strcspn(test, " ");
        if (*end) *end++ = 0;
        if (strncmp(test, "if:", 3) == 0) {
            test += 3;
            if (strcmp(grades_status(c->number, test), "SKIP") == 0) continue;
        }
        if (*test) visit(test, grades_status(c->number, test), context);
    }
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->results[i].checkpoint, c->name) == 0) visit(r->results[i].test, r->results[i].status, context);
}

static void note_failure(const char *test, const char *status, void *context)
{
    char *first = context;  // of 128 characters
    if (!*first && strcmp(status, "ok") != 0) snprintf(first, 128, "%s", test);
}

void grades_missing(const checkpoint *c, char test[128])
{
    *test = 0;
    grades_each_test(c, note_failure, test);
}

static bool is_earned(checkpoint *c)
{
    if (c->judged) return c->earned;  // a circle of needs ends here, with nothing earned
    c->judged = true;
    char missing[128], needs[sizeof c->needs];
    const char *state = grades_records[c->number].state;
    if (strcmp(state, "passed") != 0 && strcmp(state, "failed") != 0) return false;
    grades_missing(c, missing);
    if (*missing) return false;
    strcpy(needs, c->needs);
    for (char *need = needs, *end; strcmp(c->needs, "-") != 0 && *need; need = end) {
        end = need + strcspn(need, ",");
        if (*end) *end++ = 0;
        checkpoint *found = NULL;
        for (int i = 0; i < grades_checkpoints; i++)
            if (grades_table[i].number == c->number && strcmp(grades_table[i].name, need) == 0)
                found = &grades_table[i];
        if (!found || !is_earned(found)) return false;
    }
    return c->earned = true;
}

score grades_of(int number)
{
    score s = {0, 0, NULL};
    for (int i = 0; i < grades_checkpoints; i++) {
        if (grades_table[i].number != number) continue;
        s.possible += grades_table[i].points;
        if (is_earned(&grades_table[i]))
            s.earned += grades_table[i].points;
        else if (!s.next)
            s.next = &grades_table[i];
    }
    return s;
}

score grades_total(bool bonus)
{
    score sum = {0, 0, NULL};
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        if (!wb_problem_number(n) || wb_problem_number(n)->bonus != bonus) continue;
        sum.earned += grades_of(n).earned;
        sum.possible += grades_of(n).possible;
    }
    return sum;
}

double grades_speed_points(int number)
{
    const score s = grades_of(number);
    const double part = (grades_records[number].speed - 0.5) / 0.4;
    if (s.earned < s.possible || !(part > 0)) return 0;
    return s.possible / 10.0 * (part < 1 ? part : 1);
}

void grades_read(const char *table, const char *folder)
{
    grades_note = grades_read_file("%s/%02d.note", folder, 0);
    read_table(table);
    for (int n = 1; n < MAX_PROBLEMS; n++)
        if (wb_problem_number(n)) read_record(folder, n);
    for (int i = 0; i < grades_checkpoints; i++) is_earned(&grades_table[i]);
}
