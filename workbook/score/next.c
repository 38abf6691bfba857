// next.c - what to do now: make next, of the problem P if one is named, and the line after make test. And what no test
// asks: a number of each problem to predict, which is then counted (make predict-NN).
#include "score/score.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

// ------------------------ what no test asks

#define PREDICTIONS "problems/predictions.tsv"  // the student's; of it only the first number of each line is read

// A section of problems/questions.txt: what is counted in the case `of`, over that in the case `per`, or over a number.
typedef struct question {
    char counter[16], of[128], per[128];
    char *text, *why;  // the question, and what makes the number
} question;

static bool question_of(int number, question *q)
{
    char head[16], *const all = grades_read_file("problems/questions.txt");
    snprintf(head, sizeof head, "\n== %02d ", number);
    char *const at = strstr(all, head);
    if (!at || sscanf(at + strlen(head), "%15s %127s / %127s", q->counter, q->of, q->per) != 3) return false;
    q->text = strchr(at + 1, '\n') + 1;
    char *const end = strstr(q->text, "\n== ");
    if (end) *end = 0;
    q->why = strstr(q->text, "\n\n");
    if (q->why) *q->why = 0, q->why += 2;
    return q->why;
}

static question question_must(const wb_problem *p)
{
    question q;
    if (question_of(p->number, &q)) return q;
    fprintf(stderr, "predict-%02d: problems/questions.txt has no question about this problem\n", p->number);
    exit(77);  // of a problem that was added a proof is skipped
}

static bool is_open(int number)
{
    question q;
    char *const table = grades_read_file("%s", PREDICTIONS);
    bool open = question_of(number, &q);
    for (const char *line = strchr(table, '\n'); line; line = strchr(line + 1, '\n')) open &= atoi(line) != number;
    free(table);
    return open;
}

int score_cases(char **given)
{
    const question q = question_must(score_problem(given[0]));
    printf("--count %s\n--case %s\n", q.counter, q.of);
    if (strchr(q.per, '=')) printf("--case %s\n", q.per);
    return 0;
}

int score_predicted(char **given)
{
    const wb_problem *p = score_problem(given[0]);
    const question q = question_must(p);
    if (!given[1]) return printf("%s\n", q.text) < 0;
    const double counted = strtod(given[1], NULL) / strtod(given[2] ? given[2] : q.per, NULL);
    const char *const guess = setting("GUESS", NULL);
    char *end, number[32];
    snprintf(number, sizeof number, "%.4g", counted);
    if (!guess) {  // for a proof: whether the answer begins with it
        printf("%s, and the answer: %s\n", number, q.why);
        return strncmp(q.why, number, strlen(number)) != 0 || strspn(q.why + strlen(number), "0123456789") > 0;
    }
    double predicted = strtod(guess, &end);
    if (end != guess && *end == '%') predicted /= 100, end++;
    if (end == guess || *end || !(predicted >= 0) || !isfinite(counted)) {
        fprintf(stderr, "predict-%02d: GUESS=%.20s must be a number, such as 0.25 or 25%%; the worker counted %s\n",
                p->number, guess, number);
        return 1;
    }
    struct stat is;
    const bool begun = stat(PREDICTIONS, &is) == 0;
    FILE *table = !begun || S_ISREG(is.st_mode) ? fopen(PREDICTIONS, "a") : NULL;
    if (!table) grades_give_up(PREDICTIONS);
    if (!begun) fprintf(table, "problem\tcounter\tpredicted\tcounted\tcase\tper\n");
    fprintf(table, "%02d\t%s\t%.6g\t%.6g\t%s\t%s\n", p->number, q.counter, predicted, counted, q.of, q.per);
    if (fclose(table)) grades_give_up(PREDICTIONS);
    printf("  predicted  %.4g\n  counted    %s%s\n\n%s\n\nYour predictions are stored in " PREDICTIONS ".\n", predicted,
           number, fabs(predicted - counted) < 0.005 * counted ? ": right" : "", q.why);
    return 0;
}

// Asks of what has passed last, and nothing was predicted of; of `only` if that is not null.
static void ask(const wb_problem *only)
{
    char number[16] = "";
    EACH_PROBLEM (p) {
        const standing s = standing_of(p);
        if ((!only || p == only) && strcmp(s.state, "passed") == 0 && !s.changed && is_open(p->number))
            snprintf(number, sizeof number, "%02d", p->number);
    }
    if (!*number) return;
    printf("\nA question about %s that no test asks. Your answer: make predict-%s GUESS=...\n\n", number, number);
    score_predicted((char *[]){number, NULL});
}

// ------------------------ what to do

#define say(what, ...) (printf("  %-9s ", what), printf(__VA_ARGS__), printf("\n"))

static void show_more(void)  // for who has passed all that is required
{
    say("speed", "on a GPU make bench-03 plot-03: your function, the naive baseline and the reference solution");
    say("races", "make sanitize: errors that do not change results");
    say("inputs", "make test SEED=7");
    if (access("solutions", F_OK) == 0)
        say("reading", "make diff-03: the reference solution; make test-03 IMPL=solutions; solutions/*/variants");
}

// The test that keeps the next checkpoint, or null, and how to run what shows it: its case, if one is recorded.
static const char *missing_test(const standing *s, char how[256])
{
    const result *r = NULL;
    const char *test = s->points.next ? grades_missing(s->points.next, &r) : NULL;
    const bool has_case = r && *r->given && !strpbrk(r->given, " \n\t");
    snprintf(how, 256, "%s%.200s", has_case ? "CASE=" : "VERBOSE=1", has_case ? r->given : "");
    return test;
}

// Of a file that was not begun: whose answers are in it, before it is opened.
static void say_from(const wb_problem *p)
{
    const wb_problem *from = wb_problem_number(p->from);
    if (!from) return;
    const standing s = standing_of(from);
    char line[16], *const travels = grades_read_file("workbook/loop/travels.txt");
    snprintf(line, sizeof line, "\n%02d ", p->number);
    if (strcmp(s.state, "passed") != 0)
        say("beware", "this file may contain the solution of %02d, which has not passed yet", p->from);
    else if (strstr(travels, line))
        say("yours", "make start-%02d copies your code from %02d into this file", p->number, p->from);
    free(travels);
}

static int now(void)
{
    static const bool none[WB_PROBLEMS];
    static const char *const ours[WB_GROUPS] = {"", ", a bonus problem", ", beyond the assignment"};
    standing s;
    gap gaps[MAX_GAPS];
    char how[256];
    standing_read(OWN_RECORDS);
    const char *const wanted = setting("P", NULL);
    bool any = standing_next(none, &s);
    if (wanted) s = standing_of(score_problem(wanted)), any = true;
    if (!any) {
        printf("Everything has passed. ");
        grades_print_total(stdout);
        printf("\n\n");
        show_more();
        return 0;
    }
    const int number = s.problem->number;
    const bool failed = strcmp(s.state, "failed") == 0;
    if (s.problem->group != WB_REQUIRED && !wanted) {
        printf("All required problems have passed.\n\n");
        show_more();
        printf("\n");
    }
    printf("Now: %02d %s%s. %s, %d of %d points.\n\n", number, s.problem->name, ours[s.problem->group],
           standing_word(&s), s.points.earned, s.points.possible);
    say("lesson", "problems/%02d/README.md", number);
    if (strcmp(s.state, "no file") == 0) {
        say("type", "make reset-%02d, which restores the skeleton", number);
        return 0;
    }
    say("file", "%s", s.file);
    if (strcmp(s.state, "not started") == 0) say_from(s.problem);
    if (s.changed) {
        say("type", "make test-%02d: the file has changed since its last tests", number);
        return 0;
    }
    if (strcmp(s.state, "passed") == 0) {
        say("races", "make sanitize-%02d finds errors that do not change results", number);
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
            strcmp(s.state, "not started") ? "" : ", once the first gap is filled; make watch runs it at every save");
    }
    const gap *first = gaps_first(gaps, gaps_in(s.problem, s.file, gaps));
    if (first)
        say("hint", "make hint-%02d: the gap \"%s\" is unmodified", number, first->name);
    else if (failed)
        say("hint", "make hint-%02d lists the gaps; make sanitize-%02d checks every access", number, number);
    return 0;
}

int score_next(char **given)
{
    const char *const wanted = setting("P", NULL);
    const int status = now();
    (void)given;
    ask(wanted ? score_problem(wanted) : NULL);
    return status;
}

int score_after(char **given)
{
    standing s;
    bool wanted[WB_PROBLEMS];
    char step[256], how[256];
    score_numbers(given + 1, wanted);
    standing_read(given[0]);
    if (!standing_next(wanted, &s)) {
        printf("Next: every problem has passed; make next lists what else you can do\n");
        return 0;
    }
    standing_step(&s, step);
    const bool failed = strcmp(s.state, "failed") == 0 && s.points.next && !s.changed;
    missing_test(&s, how);
    // A cause that the run has named, by a step or by the check build, comes before the next checkpoint.
    const outcome *const o = &grades_records[s.problem->number];
    printf("Next: %02d, %s", s.problem->number, failed && (*o->step || *o->sanitize) ? "the finding above" : step);
    if (failed) printf("; make hint-%02d helps, then make test-%02d %s", s.problem->number, s.problem->number, how);
    printf("\n");
    return 0;
}
