#include "score/score.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

checkpoint grades_table[MAX_CHECKPOINTS];
int grades_checkpoints;
outcome grades_records[WB_PROBLEMS];

void grades_give_up(const char *what)
{
    fprintf(stderr, "wb: %s: %s\n", what, strerror(errno));
    exit(2);
}

const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

// ------------------------ reading

static char *trimmed(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    for (char *end = text + strlen(text); end > text && strchr(" \t\r\n", end[-1]); *--end = 0) {}
    return text;
}

// A line that begins with a blank has more tests of the same.
static bool read_checkpoint(char *line, checkpoint *c)
{
    char *title = strchr(line, '|'), *tests = title ? strchr(title + 1, '|') : NULL;
    int count = 0;
    if (!tests) return false;
    *title = *tests = 0;
    if (*line == ' ')
        while (c->tests[count]) count++;
    else if (sscanf(line, "%31s %d %127s", c->name, &c->points, c->needs) != 3)
        return false;
    else
        snprintf(c->title, sizeof c->title, "%s", trimmed(title + 1));
    for (char *test = strtok(tests + 1, " \t\r\n"); test; test = strtok(NULL, " \t\r\n")) {
        if (count == MAX_TESTS) return false;
        c->tests[count++] = test;
    }
    return true;
}

static void read_checkpoints(int number)
{
    char path[64];
    snprintf(path, sizeof path, "problems/%02d/checkpoints.txt", number);
    char *rest = grades_read_file("%s", path);  // of which tests are a part
    const int first = grades_checkpoints;
    if (!*rest) grades_give_up(path);
    for (char *line; (line = strsep(&rest, "\n"));) {
        const int c = grades_checkpoints - (*line == ' ');
        if (*line == '#' || !line[strspn(line, " \t\r")]) continue;
        if (c == MAX_CHECKPOINTS || c < first || !read_checkpoint(line, &grades_table[c])) {
            errno = EINVAL;
            grades_give_up(line);
        }
        grades_table[c].number = number;
        grades_checkpoints = c + 1;
    }
}

char *grades_read_file(const char *format, ...)
{
    char path[4096];
    struct stat is;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    FILE *file = stat(path, &is) == 0 && S_ISREG(is.st_mode) ? fopen(path, "rb") : NULL;
    const size_t room = !file ? 0 : is.st_size < FILE_LIMIT ? (size_t)is.st_size : FILE_LIMIT;
    char *text = malloc(room + 1);
    if (!text) grades_give_up(path);
    const size_t used = file ? fread(text, 1, room, file) : 0;
    text[used] = 0;
    for (size_t i = 0; i < used; i++)
        if (!text[i]) text[i] = '?';
    if (file) fclose(file);
    return text;
}

// ------------------------ scoring

checkpoint *grades_next(checkpoint *c, int number)
{
    for (c = c ? c + 1 : grades_table; c < grades_table + grades_checkpoints; c++)
        if (c->number == number) return c;
    return NULL;
}

// What a test came to; null if it has not run.
static const result *result_of(int number, const char *test)
{
    const results *r = &grades_records[number].results;
    const result *found = NULL;
    for (int i = 0; i < r->count; i++)
        if (!*r->rows[i].checkpoint && strcmp(r->rows[i].test, test) == 0)
            if (!found || found->status == RESULT_OK) found = &r->rows[i];  // of two the one that did not pass
    return found;
}

bool grades_ran(int number)
{
    const char *state = grades_records[number].state;
    return strcmp(state, "passed") == 0 || strcmp(state, "failed") == 0;
}

const char *grades_test(const checkpoint *c, int *n, const result **r)
{
    const results *all = &grades_records[c->number].results;
    int tests = 0;
    while (c->tests[tests]) tests++;
    while (*n < tests) {
        const char *test = c->tests[(*n)++];
        const bool optional = strncmp(test, "if:", 3) == 0;
        if (optional) test += 3;
        *r = result_of(c->number, test);
        if (!(optional && *r && (*r)->status == RESULT_SKIP)) return test;
    }
    while (*n - tests < all->count) {
        *r = &all->rows[(*n)++ - tests];
        if (strcmp((*r)->checkpoint, c->name) == 0) return (*r)->test;
    }
    *r = NULL;
    return NULL;
}

const char *grades_missing(const checkpoint *c, const result **r)
{
    const char *test;
    int n = 0;
    while ((test = grades_test(c, &n, r)) && *r && (*r)->status == RESULT_OK) {}
    return test;
}

static bool needs(const checkpoint *c, const checkpoint *other)
{
    char list[sizeof c->needs + 2], name[sizeof other->name + 2];
    snprintf(list, sizeof list, ",%s,", c->needs);
    snprintf(name, sizeof name, ",%s,", other->name);
    return strstr(list, name);
}

const char *grades_why(const checkpoint *c, const char **test, char why[256])
{
    const result *r;
    size_t length = (size_t)snprintf(why, 256, "needs");
    const size_t none = length;
    *test = NULL;
    EACH_CHECKPOINT (other, c->number)
        if (needs(c, other) && !other->earned && length < 200)
            length += (size_t)snprintf(why + length, 256 - length, "%s %s", length > none ? "," : "", other->name);
    snprintf(why + length, 256 - length, " first");
    if (length > none || !(*test = grades_missing(c, &r)))
        return why;  // a test that fails may have no cause of its own
    return r && r->status == RESULT_FAIL && !results_not_run(r) ? "fails" : "has not run";
}

// Of what needs what that is not there nothing is earned, as in a circle.
static bool is_earned(checkpoint *c)
{
    if (c->judged) return c->earned;
    c->judged = true;
    const result *r;
    int wanted = strcmp(c->needs, "-") != 0;
    for (const char *at = c->needs; *at; at++) wanted += *at == ',';
    EACH_CHECKPOINT (other, c->number)
        if (needs(c, other) && is_earned(other)) wanted--;
    return c->earned = grades_ran(c->number) && !grades_missing(c, &r) && wanted == 0;
}

score grades_of(int number)
{
    score s = {0, 0, NULL};
    EACH_CHECKPOINT (c, number) {
        s.possible += c->points;
        if (c->earned)
            s.earned += c->points;
        else if (!s.next)
            s.next = c;
    }
    return s;
}

score grades_total(wb_group group)
{
    score sum = {0, 0, NULL};
    EACH_PROBLEM (p) {
        if (p->group != group) continue;
        const score s = grades_of(p->number);
        sum.earned += s.earned, sum.possible += s.possible;
    }
    return sum;
}

void grades_print_total(FILE *to)
{
    const score required = grades_total(WB_REQUIRED), bonus = grades_total(WB_BONUS), beyond = grades_total(WB_BEYOND);
    fprintf(to, "Score: %d/%d (+ bonus %d/%d", required.earned, required.possible, bonus.earned, bonus.possible);
    if (beyond.possible) fprintf(to, ", beyond %d/%d", beyond.earned, beyond.possible);
    fprintf(to, ")");
}

void grades_read(const char *folder)
{
    grades_checkpoints = 0;
    memset(grades_table, 0, sizeof grades_table);
    EACH_PROBLEM (p) {
        char path[4096];
        outcome *const o = &grades_records[p->number];
        read_checkpoints(p->number);
        snprintf(path, sizeof path, "%s/%02d.json", folder, p->number);
        outcome_read(path, o);
        results_sort(&o->results);
    }
    for (int i = 0; i < grades_checkpoints; i++) is_earned(&grades_table[i]);
}
