// next.c - what to do now: make next, of the problem P if one is named, and the line after make test.
#include "score/gaps.h"
#include "score/safe_text.h"
#include "score/score.h"
#include "score/standing.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define say(what, ...) (printf("  %-9s ", what), write_form(stdout, LINE, __VA_ARGS__), printf("\n"))

static void show_more(void)  // for who has passed all that is required
{
    say("speed", "on a GPU make bench-03 plot-03: yours beside the naive baseline and the answer key");
    say("races", "make sanitize: what no result shows");
    say("inputs", "make test SEED=7");
    if (access("solutions", F_OK) == 0)
        say("reading", "make diff-03: yours against the key; make test-03 IMPL=solutions; solutions/*/variants");
}

// The test that keeps the next checkpoint, null if it is known of none, and how to run what shows it: its case, if one
// is recorded.
static const char *missing_test(const standing *s, char how[256])
{
    const result *r = NULL;
    const char *test = s->points.next ? grades_missing(s->points.next, &r) : NULL;
    const bool has_case = r && *r->given && !strpbrk(r->given, " \n\t");
    snprintf(how, 256, "%s%.200s", has_case ? "CASE=" : "VERBOSE=1", has_case ? r->given : "");
    return test;
}

// Of what has passed last, and nothing was predicted of; of `only` if that is not null.
static void ask(const wb_problem *only)
{
    char number[12] = "";
    EACH_PROBLEM (p) {
        const standing s = standing_of(p, OWN_RECORDS);
        if ((!only || p == only) && strcmp(s.state, "passed") == 0 && !s.changed && question_is_open(p->number))
            snprintf(number, sizeof number, "%02d", p->number);
    }
    if (!*number) return;
    printf("\nA question of %s that no test asks. Your answer: make predict-%s GUESS=...\n\n", number, number);
    score_question((char *[]){number, NULL});
}

static int now(char **given)
{
    static const bool none[WB_PROBLEMS];
    static const char *const ours[WB_GROUPS] = {"", ", a bonus problem", ", beyond the assignment"};
    standing s;
    gap gaps[MAX_GAPS];
    char how[256];
    standing_read(OWN_RECORDS);
    const char *wanted = getenv("P");
    bool any = standing_next(OWN_RECORDS, none, &s);
    if (wanted && *wanted) s = standing_of(score_problem(wanted), OWN_RECORDS), any = true;
    if (*given) {
        if (any) printf("%02d\n", s.problem->number);
        return 0;
    }
    if (!any) {
        printf("Everything has passed. ");
        grades_print_total(stdout);
        printf("\n\n");
        show_more();
        return 0;
    }
    const int number = s.problem->number;
    const bool failed = strcmp(s.state, "failed") == 0;
    if (s.problem->group != WB_REQUIRED && !(wanted && *wanted)) {
        printf("All that is required has passed.\n\n");
        show_more();
        printf("\n");
    }
    printf("Now: %02d %s%s. %s, %d of %d points.\n\n", number, s.problem->name, ours[s.problem->group],
           standing_word(&s), s.points.earned, s.points.possible);
    say("lesson", "problems/%02d/README.md", number);
    if (strcmp(s.state, "no file") == 0) {
        say("type", "make reset-%02d, which brings the skeleton back", number);
        return 0;
    }
    say("file", "%s", s.file);
    if (s.changed) {
        say("type", "make test-%02d: the file has changed since its last tests", number);
        return 0;
    }
    if (strcmp(s.state, "passed") == 0) {
        say("races", "make sanitize-%02d looks at every access, which no result shows", number);
        say("then", "make next, without P");
        return 0;
    }
    if (failed) {
        const char *test = missing_test(&s, how);
        if (s.points.next) say("missing", "%s", s.points.next->title);
        if (test) say("test", "%s", test);
        say("type", "make test-%02d %s", number, how);
    } else {
        say("type", "make test-%02d%s", number,
            strcmp(s.state, "not started") ? "" : ", when the first gap is filled; make watch does it at every save");
    }
    const gap *first = gaps_first(gaps, gaps_of(s.problem, gaps));
    if (first)
        say("hint", "make hint-%02d: the gap \"%s\" is as shipped", number, first->name);
    else if (failed)
        say("hint", "make hint-%02d lists the gaps; make sanitize-%02d looks at every access", number, number);
    return 0;
}

int score_next(char **given)
{
    const char *wanted = getenv("P");
    const int status = now(given);
    if (!*given) ask(wanted && *wanted ? score_problem(wanted) : NULL);
    return status;
}

int score_after(char **given)
{
    standing s;
    bool wanted[WB_PROBLEMS];
    char step[256], how[256];
    score_numbers(given + 1, wanted);
    standing_read(given[0]);
    if (!standing_next(given[0], wanted, &s)) {
        printf("Next: everything has passed; make next says what there is to see\n");
        return 0;
    }
    standing_step(&s, step);
    const bool failed = strcmp(s.state, "failed") == 0 && s.points.next && !s.changed;
    missing_test(&s, how);
    printf("Next: %02d, %s", s.problem->number, step);
    if (failed)
        write_form(stdout, LINE, "; make hint-%02d helps, then make test-%02d %s", s.problem->number, s.problem->number,
                   how);
    printf("\n");
    return 0;
}
