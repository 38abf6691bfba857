// points.c - points for what the suites found.
//
//   points FOLDER BACKEND NN...    the problems of this run; the records of earlier runs in FOLDER count too
//
// FOLDER holds, written by test.sh: NN.state, NN.results, NN.report. Reads workbook/checkpoints.txt as well. Prints the score table,
// and writes into FOLDER scores.tsv, report.txt, results.json (Gradescope) and junit.xml, each of them whole or not at all.
// A checkpoint is earned if each of its tests is known to have passed: a missing line, a SKIP or a missing file earns nothing.
// Exit status: 0, or 2 if the table of checkpoints cannot be read or nothing can be written.
#include "safe_text.h"
#include "problems.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHECKPOINTS = 128, RESULTS = 128, PROBLEMS = 100 };

typedef struct checkpoint {
    int number, points;
    char name[32], needs[128], title[160], tests[1024];
    bool earned, judged;
} checkpoint;

// One line of NN.results. `checkpoint`: of a held-out case, which belongs to no test of the table; "" otherwise.
typedef struct result {
    char status[8], test[128], checkpoint[32];
} result;

typedef struct record {
    bool asked;  // part of this run
    char state[32];
    result results[RESULTS];
    int count;
    char *report;
    double speed;  // times faster than the answer key; 0 if not timed
} record;

static checkpoint table[CHECKPOINTS];
static int checkpoints;
static record records[PROBLEMS];
static const char *backend;

static void give_up(const char *what)
{
    fprintf(stderr, "points: %s: %s\n", what, strerror(errno));
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
    if (!file) give_up(path);
    while (fgets(line, sizeof line, file)) {
        if (*trimmed(line) == '#' || !*trimmed(line)) continue;
        checkpoint *c = &table[checkpoints++];
        char *title = strchr(line, '|'), *tests = title ? strchr(title + 1, '|') : NULL;
        if (checkpoints == CHECKPOINTS || !tests ||
            sscanf(line, "%d %31s %d %127s", &c->number, c->name, &c->points, c->needs) != 4 || c->number < 1 ||
            c->number >= PROBLEMS) {
            errno = EINVAL;
            give_up(line);
        }
        *title = *tests = 0;
        snprintf(c->title, sizeof c->title, "%s", trimmed(title + 1));
        snprintf(c->tests, sizeof c->tests, "%s", trimmed(tests + 1));
    }
    fclose(file);
}

// A whole file, its end marked with 0; "" if there is none.
static char *read_file(const char *folder, int number, const char *suffix)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%02d.%s", folder, number, suffix);
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    if (!text) give_up(path);
    for (size_t n; file && (n = fread(text + used, 1, room - used - 1, file)) > 0;) {
        used += n;
        if (room - used < 2 && !(text = realloc(text, room *= 2))) give_up(path);
    }
    text[used] = 0;
    for (size_t i = 0; i < used; i++)
        if (!text[i]) text[i] = '?';
    if (file) fclose(file);
    return text;
}

static void read_record(const char *folder, int number)
{
    record *r = &records[number];
    char *state = read_file(folder, number, "state"), *results = read_file(folder, number, "results");
    state[strcspn(state, "\n")] = 0;
    snprintf(r->state, sizeof r->state, "%s", *state ? state : "not run");
    for (char *line = strtok(results, "\n"); line && r->count < RESULTS; line = strtok(NULL, "\n")) {
        result *one = &r->results[r->count];
        *one = (result){.checkpoint = ""};
        if (sscanf(line, "%7[^\t]\t%127[^\t]\t%31[^\t]", one->status, one->test, one->checkpoint) >= 2) r->count++;
    }
    r->report = read_file(folder, number, "report");
    char *speed = read_file(folder, number, "speed");
    r->speed = atof(speed);
    free(speed);
    free(state);
    free(results);
}

// ------------------------------------------------------------------------------------------------------------------ scoring

static const char *status_of(const record *r, const char *test)
{
    for (int i = 0; i < r->count; i++)
        if (!*r->results[i].checkpoint && strcmp(r->results[i].test, test) == 0) return r->results[i].status;
    return "not run";
}

// Calls visit for every test that this checkpoint asks for here, held-out cases included.
static void each_test(const checkpoint *c, void (*visit)(const char *test, const char *status, void *), void *context)
{
    const record *r = &records[c->number];
    char tests[sizeof c->tests];
    strcpy(tests, c->tests);
    for (char *test = tests, *end; *test; test = end) {
        test += strspn(test, " ");
        end = test + strcspn(test, " ");
        if (*end) *end++ = 0;
        if (strncmp(test, "cpu:", 4) == 0) {
            if (strcmp(backend, "cpu") != 0) continue;
            test += 4;
        }
        if (*test) visit(test, status_of(r, test), context);
    }
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->results[i].checkpoint, c->name) == 0) visit(r->results[i].test, r->results[i].status, context);
}

static void note_failure(const char *test, const char *status, void *context)
{
    char *first = context;  // of 128 characters
    if (!*first && strcmp(status, "ok") != 0) snprintf(first, 128, "%s", test);
}

static bool is_earned(checkpoint *c)
{
    if (c->judged) return c->earned;  // a circle of needs ends here, with nothing earned
    c->judged = true;
    char missing[128] = "", needs[sizeof c->needs];
    const char *state = records[c->number].state;
    if (strcmp(state, "passed") != 0 && strcmp(state, "failed") != 0) return false;
    each_test(c, note_failure, missing);
    if (*missing) return false;
    strcpy(needs, c->needs);
    for (char *need = needs, *end; strcmp(c->needs, "-") != 0 && *need; need = end) {
        end = need + strcspn(need, ",");
        if (*end) *end++ = 0;
        checkpoint *found = NULL;
        for (int i = 0; i < checkpoints; i++)
            if (table[i].number == c->number && strcmp(table[i].name, need) == 0) found = &table[i];
        if (!found || !is_earned(found)) return false;
    }
    return c->earned = true;
}

typedef struct score {
    int earned, possible;
    const checkpoint *next;  // the first that is not earned
} score;

static score score_of(int number)
{
    score s = {0, 0, NULL};
    for (int i = 0; i < checkpoints; i++) {
        if (table[i].number != number) continue;
        s.possible += table[i].points;
        if (is_earned(&table[i]))
            s.earned += table[i].points;
        else if (!s.next)
            s.next = &table[i];
    }
    return s;
}

// All problems, or the bonus problems alone.
static score total(bool bonus)
{
    score sum = {0, 0, NULL};
    for (int n = 1; n < PROBLEMS; n++) {
        if (!wb_problem_number(n) || wb_problem_number(n)->bonus != bonus) continue;
        sum.earned += score_of(n).earned;
        sum.possible += score_of(n).possible;
    }
    return sum;
}

// The formula of speed.sh, for a problem that is won whole.
static double speed_points(int number)
{
    const score s = score_of(number);
    const double part = (records[number].speed - 0.5) / 0.4;
    if (s.earned < s.possible || !(part > 0)) return 0;
    return s.possible / 10.0 * (part < 1 ? part : 1);
}

static double all_speed_points(void)
{
    double sum = 0;
    for (int n = 1; n < PROBLEMS; n++)
        if (wb_problem_number(n)) sum += speed_points(n);
    return sum;
}

// ------------------------------------------------------------------------------------------------------------------ writing

// Opens FOLDER/NAME.new; close_whole gives it its name.
static FILE *open_whole(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.new", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) give_up(path);
    return file;
}

static void close_whole(FILE *file, const char *folder, const char *name)
{
    char path[4096], final[4096];
    snprintf(path, sizeof path, "%s/%s.new", folder, name);
    snprintf(final, sizeof final, "%s/%s", folder, name);
    if (ferror(file) || fclose(file) || rename(path, final)) give_up(final);
}

// The case that the first failure asks to be run again, as the report says it, or "-".
static void case_to_type(const char *report, char text[256])
{
    const char *at = strstr(report, "\n          test again  make test-");
    at = at ? strstr(at, "CASE=") : NULL;
    snprintf(text, 256, "%.*s", at ? (int)strcspn(at + 5, " \n") : 1, at ? at + 5 : "-");
}

static void write_scores(FILE *f)
{
    fprintf(f, "number\tname\tstate\tearned\tpossible\tbonus\tnext\ttitle\ttest\tcase\n");
    for (int n = 1; n < PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p) continue;
        const score s = score_of(n);
        char test[128] = "", again[256];
        if (s.next) each_test(s.next, note_failure, test);
        case_to_type(records[n].report, again);
        fprintf(f, "%02d\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", n, p->name, records[n].state, s.earned, s.possible,
                p->bonus, s.next ? s.next->name : "-", s.next ? s.next->title : "-", *test ? test : "-", again);
    }
}

static void print_missing(FILE *f, const checkpoint *c)
{
    char missing[128] = "";
    each_test(c, note_failure, missing);
    if (*missing)
        fprintf(f, ": %s %s", missing,
                strcmp(status_of(&records[c->number], missing), "FAIL") ? "has not run" : "fails");
    else
        fprintf(f, ": needs %s first", c->needs);
}

// The score table; with `all`, every problem's and not those of this run alone.
static void write_table(FILE *f, bool all)
{
    fprintf(f, "\n      %-22s %-15s  points\n", "problem", "state");
    for (int n = 1; n < PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p || !(all || records[n].asked)) continue;
        const score s = score_of(n);
        fprintf(f, "  %02d  %-22s %-15s %3d / %d%s", n, p->name, records[n].state, s.earned, s.possible,
                p->bonus ? "  bonus" : "");
        if (records[n].speed > 0)
            fprintf(f, "  speed %.2f of the key's: %.1f of %.1f", records[n].speed, speed_points(n), s.possible / 10.0);
        fprintf(f, "\n");
        if (strcmp(records[n].state, "failed") != 0) continue;
        for (int i = 0; i < checkpoints; i++) {
            const checkpoint *c = &table[i];
            if (c->number != n) continue;
            fprintf(f, "        %-7s %3d  %-12s %s", c->earned ? "won" : "not yet", c->points, c->name, c->title);
            if (!c->earned) print_missing(f, c);
            fprintf(f, "\n");
        }
    }
    const score required = total(false), bonus = total(true);
    fprintf(f, "\nScore: %d/%d (+ bonus %d/%d)\n", required.earned, required.possible, bonus.earned, bonus.possible);
}

static void write_report(FILE *f)
{
    write_table(f, true);
    for (int n = 1; n < PROBLEMS; n++) {
        if (!wb_problem_number(n) || !*records[n].report) continue;
        fprintf(f, "\n== %02d %s: %s\n", n, wb_problem_number(n)->name, records[n].state);
        write_text(f, records[n].report, PLAIN);
    }
}

static void write_json_test(const char *test, const char *status, void *context)
{
    FILE *f = context;
    fprintf(f, "%s: ", strcmp(status, "ok") == 0 ? "passed" : strcmp(status, "FAIL") == 0 ? "failed" : "not run");
    write_text(f, test, JSON);
    fputs("\\n", f);
}

// Gradescope: one test a checkpoint, and one a problem with what the suite said.
static void write_json(FILE *f)
{
    const score required = total(false), bonus = total(true);
    fprintf(f, "{\n  \"output\": \"Score: %d/%d (+ bonus %d/%d)\",\n  \"output_format\": \"text\",\n", required.earned,
            required.possible, bonus.earned, bonus.possible);
    fprintf(f, "  \"extra_data\": {\"speed_points\": %.1f},\n", all_speed_points());
    fprintf(f, "  \"score\": %d,\n  \"visibility\": \"visible\",\n  \"tests\": [", required.earned + bonus.earned);
    const char *comma = "";
    for (int n = 1; n < PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p) continue;
        for (int i = 0; i < checkpoints; i++) {
            const checkpoint *c = &table[i];
            if (c->number != n) continue;
            fprintf(f, "%s\n    {\"name\": \"%02d %s: %s\", \"number\": \"%d.%s\", \"score\": %d, \"max_score\": %d, ",
                    comma, n, p->name, c->title, n, c->name, c->earned ? c->points : 0, c->points);
            fprintf(f, "\"status\": \"%s\", \"visibility\": \"visible\", \"output\": \"%s\\n",
                    c->earned ? "passed" : "failed", records[n].state);
            each_test(c, write_json_test, f);
            if (strcmp(c->needs, "-") != 0) fprintf(f, "needs: %s\\n", c->needs);
            fprintf(f, "\"}");
            comma = ",";
        }
        if (!*records[n].report) continue;
        fprintf(f, ",\n    {\"name\": \"%02d %s: report\", \"number\": \"%d.report\", \"score\": 0, \"max_score\": 0, ",
                n, p->name, n);
        fprintf(f, "\"status\": \"%s\", \"visibility\": \"visible\", \"output\": \"",
                strcmp(records[n].state, "passed") == 0 ? "passed" : "failed");
        write_text(f, records[n].report, JSON);
        fprintf(f, "\"}");
    }
    fprintf(f, "\n  ]\n}\n");
}

static void write_junit_test(const char *test, const char *status, void *context)
{
    FILE *f = context;
    fputs("    <testcase name=\"", f);
    write_text(f, test, XML);
    fputs("\">", f);
    if (strcmp(status, "FAIL") == 0)
        fputs("<failure/>", f);
    else if (strcmp(status, "ok") != 0)
        fputs("<skipped/>", f);
    fputs("</testcase>\n", f);
}

// A problem that has not been started is skipped; what does not compile or could not run is an error.
static void write_junit(FILE *f)
{
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"workbook\">\n");
    for (int n = 1; n < PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p) continue;
        const char *state = records[n].state;
        fprintf(f, "  <testsuite name=\"%02d %s\">\n", n, p->name);
        if (strcmp(state, "passed") == 0 || strcmp(state, "failed") == 0) {
            for (int i = 0; i < checkpoints; i++)
                if (table[i].number == n) each_test(&table[i], write_junit_test, f);
        } else {
            const bool idle = strcmp(state, "not started") == 0 || strcmp(state, "not run") == 0;
            fprintf(f, "    <testcase name=\"all\"><%s message=\"", idle ? "skipped" : "error");
            write_text(f, state, XML);
            fprintf(f, "\"/></testcase>\n");
        }
        fputs("    <system-out>", f);
        write_text(f, records[n].report, XML);
        fputs("</system-out>\n  </testsuite>\n", f);
    }
    fprintf(f, "</testsuites>\n");
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: points FOLDER BACKEND NN...\n");
        return 2;
    }
    const char *folder = argv[1];
    backend = argv[2];
    read_table("workbook/checkpoints.txt");
    for (int i = 3; i < argc; i++) {
        const int number = atoi(argv[i]);
        if (number > 0 && number < PROBLEMS) records[number].asked = true;
    }
    for (int n = 1; n < PROBLEMS; n++)
        if (wb_problem_number(n)) read_record(folder, n);
    for (int i = 0; i < checkpoints; i++) is_earned(&table[i]);

    static const struct {
        const char *name;
        void (*write)(FILE *);
    } files[] = {{"scores.tsv", write_scores},
                 {"report.txt", write_report},
                 {"results.json", write_json},
                 {"junit.xml", write_junit}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *f = open_whole(folder, files[i].name);
        files[i].write(f);
        close_whole(f, folder, files[i].name);
    }
    write_table(stdout, false);
    return 0;
}
