#include "results.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS = 7 };
static const char header[] = "status\ttest\tline\tseconds\tcase\tcheckpoint\tmessage\n", end[] = "end\n",
                  hunger[] = "starved\n";

const char *const result_words[RESULT_STATUSES] = {"ok", "FAIL", "SKIP"};

// ------------------------ writing

static void write_field(FILE *to, const char *text)
{
    for (; text && *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '\t' || c == '\n' || c == '\\')
            fprintf(to, "\\%c", c == '\t' ? 't' : c == '\n' ? 'n' : '\\');
        else
            fputc(c < 32 || c == 127 ? '?' : c, to);
    }
}

void results_begin(FILE *to)
{
    fputs(header, to);
    fflush(to);
}

void results_write(FILE *to, const result *row)
{
    fprintf(to, "%s\t", result_words[row->status]);
    write_field(to, row->test);
    fprintf(to, "\t%d\t%.3f\t", row->line, row->seconds);
    write_field(to, row->given);
    fputc('\t', to);
    write_field(to, row->checkpoint);
    fputc('\t', to);
    write_field(to, row->message);
    fputc('\n', to);
    fflush(to);
}

void results_end(FILE *to, bool starved)
{
    fputs(starved ? hunger : end, to);
    fflush(to);
}

// ------------------------ reading

// Cuts the next field off the line, in place; null if there is none.
static char *next_field(char **line)
{
    char *field = *line, *to = field, *from = field;
    if (!from) return NULL;
    for (; *from && *from != '\t' && *from != '\n'; from++) {
        if (*from == '\\' && from[1]) {
            from++;
            *to++ = *from == 't' ? '\t' : *from == 'n' ? '\n' : *from;
        } else
            *to++ = *from;
    }
    *line = *from == '\t' ? from + 1 : NULL;
    *to = 0;
    return field;
}

static char *copy(const char *text)
{
    char *made = strdup(text);
    if (!made) abort();
    return made;
}

static bool read_row(char *line, result *row)
{
    char *field[FIELDS];
    for (int i = 0; i < FIELDS; i++)
        if (!(field[i] = next_field(&line))) return false;
    *row = (result){.status = RESULT_STATUSES, .line = atoi(field[2]), .seconds = atof(field[3])};
    for (int s = 0; s < RESULT_STATUSES; s++)
        if (strcmp(field[0], result_words[s]) == 0) row->status = (result_status)s;
    if (row->status == RESULT_STATUSES || !*field[1]) return false;
    row->test = copy(field[1]);
    row->given = copy(field[4]);
    row->checkpoint = copy(field[5]);
    row->message = copy(field[6]);
    return true;
}

bool results_read(const char *path, results *r)
{
    *r = (results){0};
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    if (!file) return false;
    for (bool first = true; getline(&line, &room, file) > 0; first = false) {
        result row;
        if (first) continue;
        r->ended |= strcmp(line, end) == 0;
        r->starved |= strcmp(line, hunger) == 0;
        if (!strchr(line, '\n') || !read_row(line, &row)) continue;
        r->rows = realloc(r->rows, (size_t)(r->count + 1) * sizeof *r->rows);
        if (!r->rows) abort();
        r->rows[r->count++] = row;
    }
    free(line);
    fclose(file);
    return true;
}

void results_free(results *r)
{
    for (int i = 0; i < r->count; i++) {
        free(r->rows[i].test);
        free(r->rows[i].given);
        free(r->rows[i].checkpoint);
        free(r->rows[i].message);
    }
    free(r->rows);
    *r = (results){0};
}

bool results_not_run(const result *row)
{
    return row->status == RESULT_FAIL && strncmp(row->message, "not run: ", 9) == 0;
}

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
