// hint.c - make hint-NN: a hint for one gap, of three in a section "== name" of problems/NN/hints.txt.
#include "score/score.h"

#include <ctype.h>

// How a command names a gap.
static void print_gap(FILE *to, const char *name) { fprintf(to, strchr(name, ' ') ? "GAP=\"%s\"" : "GAP=%s", name); }

static void list(FILE *to, int number, const gap *gaps, int count)
{
    for (int i = 0; i < count; i++) {
        fprintf(to, "  make hint-%02d ", number);
        print_gap(to, gaps[i].name);
        fprintf(to, "%*s%s\n", strlen(gaps[i].name) < 22 ? 22 - (int)strlen(gaps[i].name) : 1, " ",
                gaps[i].untouched ? "untouched"
                : gaps[i].line    ? "touched"
                                  : "not in your file");
    }
}

// Case, - and _ do not matter.
static bool begins(const char *name, const char *wanted)
{
    for (; *wanted; name++, wanted++)
        if (tolower((unsigned char)*name) != tolower((unsigned char)*wanted) &&
            !(*name == ' ' && strchr("-_", *wanted)))
            return false;
    return true;
}

// An exact name comes first, then one that is alike; a beginning is enough if only one gap has it.
static const gap *find(const gap *gaps, int count, const char *wanted)
{
    const gap *alike = NULL, *beginning = NULL;
    int beginnings = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(gaps[i].name, wanted) == 0) return &gaps[i];
        if (!begins(gaps[i].name, wanted)) continue;
        if (strlen(gaps[i].name) == strlen(wanted)) alike = &gaps[i];
        beginning = &gaps[i], beginnings++;
    }
    return alike ? alike : beginnings == 1 ? beginning : NULL;
}

static void print_hint(const wb_problem *p, const char *name, int level)
{
    char *const hints = grades_read_file("problems/%02d/hints.txt", p->number);
    bool here = false, blank = true;
    int paragraph = 0;
    for (char *rest = hints, *line; (line = strsep(&rest, "\n"));) {
        if (*line == '#') continue;
        if (strncmp(line, "== ", 3) == 0) {
            here = strcmp(line + 3, name) == 0;
            paragraph = 0, blank = true;
        } else if (line[strspn(line, " ")] == 0) {
            blank = true;
        } else if (here) {
            paragraph += blank;
            blank = false;
            if (paragraph == level) printf("  %s\n", line);
        }
    }
    free(hints);
}

int score_hint(char **given)
{
    const wb_problem *p = score_problem(given[0]);
    const char *const wanted = setting("GAP", ""), *const level_text = setting("LEVEL", "1");
    gap gaps[MAX_GAPS];
    char file[64];
    gaps_file(p, file);
    const int number = p->number, count = gaps_in(p, file, gaps), level = *level_text - '0';
    if (count == 0) {
        fprintf(stderr, "hint-%02d: problems/%02d/hints.txt does not exist, so there are no hints\n", number, number);
        return 1;
    }
    if (level < 1 || level > 3 || level_text[1]) {
        fprintf(stderr, "hint-%02d: LEVEL=%.20s must be 1 (a question), 2 (the idea) or 3 (nearly the answer)\n",
                number, level_text);
        return 1;
    }
    const gap *g = *wanted ? find(gaps, count, wanted) : gaps_first(gaps, count);
    if (!g && *wanted) {
        fprintf(stderr,
                "hint-%02d: no gap of problem %02d, or more than one, has a name that begins with \"%.60s\". The gaps "
                "are:\n",
                number, number, wanted);
        list(stderr, number, gaps, count);
        return 1;
    }
    if (!g) {
        printf(gaps[0].line ? "You have written something in every gap of %02d. Which gap do you want a hint for?\n\n"
                            : "Your file of %02d has no gaps. Which of these steps do you want a hint for?\n\n",
               number);
        list(stdout, number, gaps, count);
        printf("\nLEVEL=1 is a question, 2 the idea, 3 nearly the answer. Then make test-%02d says what is wrong.\n",
               number);
        return 0;
    }
    printf("%02d, gap \"%s\"", number, g->name);
    if (*file) printf(g->line ? " (%s:%d)" : " (%s)", file, g->line);
    printf(", level %d of 3\n\n", level);
    print_hint(p, g->name, level);
    printf("\n");
    if (level < 3) {
        printf("Still stuck? make hint-%02d ", number);
        print_gap(stdout, g->name);
        printf(" LEVEL=%d\n", level + 1);
    } else {
        printf(
            "Write it, then make test-%02d. The lesson, problems/%02d/README.md, has an example to follow by hand.\n",
            number, number);
    }
    if (!*wanted && count > 1) {
        printf("For another gap: make hint-%02d GAP=name, where name is one of:", number);
        for (int i = 0; i < count; i++) printf("%s \"%s\"", i ? "," : "", gaps[i].name);
        printf("\n");
    }
    return 0;
}

int score_gaps(char **given)
{
    char file[64];
    const wb_problem *const p = score_problem(given[0]);
    gaps_file(p, file);
    printf("%s%s", gaps_sentence(p, file), gaps_given(p, file).says);
    return 0;
}
