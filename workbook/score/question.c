// question.c - of each problem a question that no test asks: a number to predict, which is then counted (make
// predict-NN). problems/questions.txt says what and of which cases; the student's predictions are kept in
// problems/predictions.tsv, of which only numbers are read.
#include "score/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TABLE "problems/predictions.tsv"

// A section of questions.txt.
typedef struct question {
    char counter[16], of[128], per[128];  // what is counted in the case `of`, over that in the case `per`, or a number
    char *text, *why;                     // the question, and what makes the number
} question;

static bool question_of(int number, question *q)
{
    char head[8], *const all = grades_read_file("problems/questions.txt");
    snprintf(head, sizeof head, "\n== %02d ", number);
    char *const at = strstr(all, head);
    if (!at || sscanf(at + strlen(head), "%15s %127s / %127s", q->counter, q->of, q->per) != 3) return false;
    q->text = strchr(at + 1, '\n') + 1;
    char *const end = strstr(q->text, "\n== ");
    if (end) end[1] = 0;
    q->why = strstr(q->text, "\n\n");
    if (!q->why) return false;
    *q->why = 0, q->why += 2;
    return true;
}

static question question_must(const wb_problem *p)
{
    question q;
    if (question_of(p->number, &q)) return q;
    fprintf(stderr, "predict-%02d: problems/questions.txt has no question of it\n", p->number);
    exit(1);
}

// Row n of the table, from 0 on; false if there is none. What is no row is passed over.
static bool row_of(const char *table, int n, int *number, double *predicted, double *counted)
{
    for (const char *line = table; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "%2d %*15[a-z] %lf %lf", number, predicted, counted) == 3 && n-- == 0) return true;
    }
    return false;
}

bool question_is_open(int number)
{
    question q;
    int of;
    double predicted, counted;
    char *const table = grades_read_file("%s", TABLE);
    bool open = question_of(number, &q);
    for (int n = 0; row_of(table, n, &of, &predicted, &counted); n++) open &= of != number;
    free(table);
    return open;
}

int score_question(char **given)
{
    printf("%s\n", question_must(score_problem(given[0])).text);
    return 0;
}

int score_cases(char **given)
{
    const question q = question_must(score_problem(given[0]));
    printf("--case %s\n", q.of);
    if (strchr(q.per, '=')) printf("--case %s\n", q.per);
    return 0;
}

// The counter over that of the second case or over a number, of what a worker has written (--count).
static double counted_in(const question *q, const char *file)
{
    static const char *const names[] = {"blocks", "multiplied", "products", "sent"};
    char *const counts = grades_read_file("%s", file), *row = counts;
    double value[2] = {NAN, strtod(q->per, NULL)}, of[4];
    for (int n = 0; n < 2 && (row = strchr(row, '\n')) && *++row; n++)
        for (int k = 0; k < 4 && sscanf(row, "%lf %lf %lf %lf", &of[0], &of[1], &of[2], &of[3]) == 4; k++)
            if (strcmp(q->counter, names[k]) == 0) value[n] = of[k];
    free(counts);
    return value[0] / value[1];
}

// Beside one another.
static void show(int number, double predicted, double counted)
{
    printf("  %02d  predicted %-10.4g  counted %-10.4g", number, predicted, counted);
    if (fabs(predicted - counted) < 0.005 * counted)
        printf("  right\n");
    else
        printf("  %.0f %% too %s\n", 100 * fabs(predicted / counted - 1), predicted > counted ? "high" : "low");
}

int score_predicted(char **given)
{
    const wb_problem *p = score_problem(given[0]);
    const question q = question_must(p);
    const double counted = counted_in(&q, given[1]);
    const char *guess = getenv("GUESS");
    if (!guess || !*guess) {  // for a proof: whether the answer begins with it
        char number[32];
        snprintf(number, sizeof number, "%.4g", counted);
        printf("%s, and the answer: %s", number, q.why);
        return strncmp(q.why, number, strlen(number)) != 0 || strspn(q.why + strlen(number), "0123456789") > 0;
    }
    char *end;
    double predicted = strtod(guess, &end);
    if (end != guess && *end == '%') predicted /= 100, end++;
    if (end == guess || *end || !(predicted >= 0) || !isfinite(counted)) {
        fprintf(stderr, "predict-%02d: GUESS=%.20s: a number, such as 0.25 or 25%%\n", p->number, guess);
        return 1;
    }
    struct stat is;
    const bool begun = stat(TABLE, &is) == 0;
    FILE *table = !begun || S_ISREG(is.st_mode) ? fopen(TABLE, "a") : NULL;
    if (!table) grades_give_up(TABLE);
    if (!begun) fprintf(table, "problem\tcounter\tpredicted\tcounted\tcase\tper\n");
    fprintf(table, "%02d\t%s\t%.6g\t%.6g\t%s\t%s\n", p->number, q.counter, predicted, counted, q.of, q.per);
    if (fclose(table)) grades_give_up(TABLE);

    show(p->number, predicted, counted);
    printf("\n%s\nAll that you have predicted (" TABLE "):\n\n", q.why);
    char *const rows = grades_read_file("%s", TABLE);
    int number;
    double then;
    for (int n = 0; row_of(rows, n, &number, &predicted, &then); n++) show(number, predicted, then);
    free(rows);
    return 0;
}
