// page.c - what make watch shows below its heading: one failure, what it may come from, counts, the next step; as many rows as a
// terminal has.
#include "score/gaps.h"
#include "score/safe_text.h"
#include "score/score.h"
#include "score/standing.h"

#include <stdlib.h>
#include <string.h>

// The rows that a line of so many bytes takes.
static int height(size_t length, int columns)
{
    return columns > 0 && length > (size_t)columns ? (int)((length - 1) / (size_t)columns) + 1 : 1;
}

static int rows_of(const char *text, int columns)
{
    int rows = 0;
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        rows += height(length, columns);
    }
    return rows;
}

// Prints the lines that fit; if not all do, "..." and the line `last` stand for the rest.
static void print_some(const char *text, const char *last, int room, int columns)
{
    if (rows_of(text, columns) <= room) {
        fputs(text, stdout);
        return;
    }
    room -= rows_of("...", columns) + rows_of(last, columns);
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        room -= height(length, columns);
        if (room < 0) break;
        printf("%.*s\n", (int)length, text);
    }
    printf("          ...\n%s", last);
}

// Writes text with so many spaces in front of each line, without empty lines, and with a newline at its end.
static void indent(FILE *to, const char *text, int spaces)
{
    char *const clean = safe_text(text, PLAIN);
    for (char *line = strtok(clean, "\n"); line; line = strtok(NULL, "\n")) fprintf(to, "%*s%s\n", spaces, "", line);
    free(clean);
}

// The failure to look at: of the test that keeps the next checkpoint, else the first.
static const result *failure_of(int number)
{
    const results *all = &grades_records[number].results;
    const checkpoint *next = grades_of(number).next;
    const result *wanted = NULL;
    if (next) grades_missing(next, &wanted);
    if (wanted && wanted->status == RESULT_FAIL) return wanted;
    for (int i = 0; i < all->count; i++)
        if (all->rows[i].status == RESULT_FAIL) return &all->rows[i];
    return NULL;
}

static void summary(FILE *to, int number, const result *shown)
{
    enum { NAMED = 3 };
    const results *all = &grades_records[number].results;
    const checkpoint *next = grades_of(number).next;
    int counts[RESULT_STATUSES] = {0}, not_run = 0, others = 0;
    if (all->count > 0) {
        for (int i = 0; i < all->count; i++) counts[all->rows[i].status]++, not_run += results_not_run(&all->rows[i]);
        fprintf(to, "%d passed, %d failed, %d skipped", counts[RESULT_OK], counts[RESULT_FAIL] - not_run,
                counts[RESULT_SKIP]);
        if (not_run) fprintf(to, ", %d not run", not_run);
        for (int i = 0; i < all->count; i++) {
            const result *row = &all->rows[i];
            if (row->status != RESULT_FAIL || results_not_run(row) || row == shown || others++ >= NAMED) continue;
            write_form(to, LINE, "%s%s", others == 1 ? ". Also failing: " : " ", all->rows[i].test);
        }
        if (others > NAMED) fprintf(to, " and %d more", others - NAMED);
        fputc('\n', to);
    }
    if (strcmp(grades_records[number].state, "passed") == 0)
        fprintf(to, "Next: make next\n");
    else if (grades_ran(number) && next)
        fprintf(to, "Next: %s\n", next->title);
}

// `output` is shown where there is no record of a run that came to an end: what the machinery itself had to say.
int score_page(char **given)
{
    enum { BODY, SAID, SUMMARY, LAST, PARTS };
    char *part[PARTS];
    size_t size[PARTS];
    FILE *to[PARTS];
    const char *folder = OWN_RECORDS, *output = given[3];
    const wb_problem *p = score_problem(given[0]);
    const int rows = atoi(given[1]), columns = atoi(given[2]);
    standing_read(folder);
    const char *state = grades_records[p->number].state;
    const bool recorded = strcmp(state, "not run") != 0 && strcmp(state, "interrupted") != 0;
    const result *failure = grades_ran(p->number) ? failure_of(p->number) : NULL;
    for (int i = 0; i < PARTS; i++)
        if (!(to[i] = open_memstream(&part[i], &size[i]))) grades_give_up("memory");
    if (failure) {
        write_form(to[BODY], LINE, "  FAIL  %s\n", failure->test);
        indent(to[BODY], failure->message, 8);
        if (*failure->given)
            write_form(to[LAST], LINE, "          test again  make test-%02d CASE=%s\n", p->number, failure->given);
    } else if (!grades_ran(p->number)) {
        char *const text =
            recorded ? grades_read_file("%s/%02d.report", folder, p->number) : grades_read_file("%s", output);
        indent(to[BODY], text, 0);
        free(text);
    }
    if (grades_ran(p->number)) gaps_write_untouched(to[SAID], p);
    for (int i = 0; i < 2 && grades_ran(p->number); i++) {
        char *const text =
            grades_read_file("%s/%02d.%s", folder, p->number, (const char *[]){"sanitize", "mistake"}[i]);
        indent(to[SAID], text, 2);
        free(text);
    }
    summary(to[SUMMARY], p->number, failure);
    for (int i = 0; i < PARTS; i++) fclose(to[i]);

    // Heading, footing, and two empty lines are not ours.
    const int room = rows > 0 ? rows - 4 - rows_of(part[SUMMARY], columns) : 1 << 20;
    int for_said = rows_of(part[SAID], columns);
    if (for_said > room / 2) for_said = room / 2;
    if (size[BODY]) print_some(part[BODY], part[LAST], room - for_said, columns);
    if (size[SAID]) print_some(part[SAID], "", for_said, columns);
    if (size[SUMMARY]) printf("%s%s", size[BODY] || size[SAID] ? "\n" : "", part[SUMMARY]);
    for (int i = 0; i < PARTS; i++) free(part[i]);
    return 0;
}
