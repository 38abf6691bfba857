// classes.c - prints what the cases of each problem's suite are drawn from (case/cover.h), a row of a Markdown table a
// dimension and its classes: drawn.md.
#include "case/cover.h"

#include <stdio.h>
#include <string.h>

typedef struct row {
    char classes[WB_COVER_WORDS];
    bool has[WB_PROBLEMS];
} row;

// "01, 03 to 12": the problems that have it, runs of three and more as one.
static void print_numbers(const bool has[WB_PROBLEMS])
{
    const char *comma = "";
    for (int n = 0; n < WB_PROBLEMS; n++) {
        if (!has[n]) continue;
        int last = n;
        while (last + 1 < WB_PROBLEMS && has[last + 1]) last++;
        printf("%s%02d", comma, n);
        if (last > n + 1) printf(" to %02d", n = last);
        comma = ", ";
    }
}

int main(void)
{
    const char *means;
    printf("| what | its classes | problems |\n|---|---|---|\n");
    for (int d = 0; (means = wb_cover_words(wb_next_problem(NULL), d, (char[WB_COVER_WORDS]){0})); d++) {
        static row rows[WB_PROBLEMS];
        int count = 0;
        memset(rows, 0, sizeof rows);
        EACH_PROBLEM (p) {
            char classes[WB_COVER_WORDS];
            int k = 0;
            wb_cover_words(p, d, classes);
            if (!*classes) continue;
            while (k < count && strcmp(rows[k].classes, classes)) k++;
            if (k == count) strcpy(rows[count++].classes, classes);
            rows[k].has[p->number] = true;
        }
        for (int k = 0; k < count; k++) {
            printf("| %s | %s | ", means, rows[k].classes);
            print_numbers(rows[k].has);
            puts(" |");
        }
    }
}
