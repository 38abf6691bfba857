// points.c - points for what the suites found.
//
//   points FOLDER NN...    the problems of this run; the records of earlier runs in FOLDER (grades.h) count too
//
// Prints the score table, and writes into FOLDER scores.tsv, report.txt, results.json (Gradescope), classroom.json (GitHub Classroom)
// and junit.xml, each of them whole or not at all.
// Exit status: 0, or 2 if the table of checkpoints cannot be read or nothing can be written.
#include "grades.h"
#include "problems.h"
#include "safe_text.h"

#include <stdlib.h>
#include <string.h>

static bool asked[MAX_PROBLEMS];  // part of this run

static double all_speed_points(void)
{
    double sum = 0;
    for (int n = 1; n < MAX_PROBLEMS; n++)
        if (wb_problem_number(n)) sum += grades_speed_points(n);
    return sum;
}

// Opens FOLDER/NAME.new; close_whole gives it its name.
static FILE *open_whole(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.new", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) grades_give_up(path);
    return file;
}

static void close_whole(FILE *file, const char *folder, const char *name)
{
    char path[4096], final[4096];
    snprintf(path, sizeof path, "%s/%s.new", folder, name);
    snprintf(final, sizeof final, "%s/%s", folder, name);
    if (ferror(file) || fclose(file) || rename(path, final)) grades_give_up(final);
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
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p) continue;
        const score s = grades_of(n);
        char test[128] = "", again[256];
        if (s.next) grades_missing(s.next, test);
        case_to_type(grades_records[n].report, again);
        fprintf(f, "%02d\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", n, p->name, grades_records[n].state, s.earned,
                s.possible, p->bonus, s.next ? s.next->name : "-", s.next ? s.next->title : "-", *test ? test : "-",
                again);
    }
}

// Of what it needs, what is not earned yet.
static void print_needs(FILE *f, const checkpoint *c)
{
    char needs[sizeof c->needs + 2];
    const char *comma = ": needs ";
    snprintf(needs, sizeof needs, ",%s,", c->needs);
    for (int i = 0; i < grades_checkpoints; i++) {
        const checkpoint *other = &grades_table[i];
        char name[sizeof other->name + 2];
        snprintf(name, sizeof name, ",%s,", other->name);
        if (other->number != c->number || other->earned || !strstr(needs, name)) continue;
        fprintf(f, "%s%s", comma, other->name);
        comma = ", ";
    }
    fprintf(f, " first");
}

static void print_missing(FILE *f, const checkpoint *c)
{
    char missing[128];
    grades_missing(c, missing);
    if (*missing)
        fprintf(f, ": %s %s", missing, strcmp(grades_status(c->number, missing), "FAIL") ? "has not run" : "fails");
    else
        print_needs(f, c);
}

// The score table; with `all`, every problem's and not those of this run alone.
static void write_table(FILE *f, bool all)
{
    fprintf(f, "\n      %-22s %-15s  points\n", "problem", "state");
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p || !(all || asked[n])) continue;
        const score s = grades_of(n);
        fprintf(f, "  %02d  %-22s %-15s %3d / %d%s", n, p->name, grades_records[n].state, s.earned, s.possible,
                p->bonus ? "  bonus" : "");
        if (grades_records[n].speed > 0)
            fprintf(f, "  speed %.2f of the key's: %.1f of %.1f", grades_records[n].speed, grades_speed_points(n),
                    s.possible / 10.0);
        fprintf(f, "\n");
        const bool ran =
            strcmp(grades_records[n].state, "failed") == 0 || strcmp(grades_records[n].state, "passed") == 0;
        if (!ran || s.earned == s.possible) continue;
        for (int i = 0; i < grades_checkpoints; i++) {
            const checkpoint *c = &grades_table[i];
            if (c->number != n) continue;
            fprintf(f, "        %-7s %3d  %-12s %s", c->earned ? "won" : "not yet", c->points, c->name, c->title);
            if (!c->earned) print_missing(f, c);
            fprintf(f, "\n");
        }
    }
    const score required = grades_total(false), bonus = grades_total(true);
    fprintf(f, "\nScore: %d/%d (+ bonus %d/%d)\n", required.earned, required.possible, bonus.earned, bonus.possible);
}

static void write_report(FILE *f)
{
    write_text(f, grades_note, PLAIN);
    write_table(f, true);
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        if (!wb_problem_number(n) || !*grades_records[n].report) continue;
        fprintf(f, "\n== %02d %s: %s\n", n, wb_problem_number(n)->name, grades_records[n].state);
        write_text(f, grades_records[n].report, PLAIN);
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
    const score required = grades_total(false), bonus = grades_total(true);
    fprintf(f, "{\n  \"output\": \"");
    write_text(f, grades_note, JSON);
    fprintf(f, "Score: %d/%d (+ bonus %d/%d)\",\n  \"output_format\": \"text\",\n", required.earned, required.possible,
            bonus.earned, bonus.possible);
    fprintf(f, "  \"extra_data\": {\"speed_points\": %.1f},\n", all_speed_points());
    fprintf(f, "  \"score\": %d,\n  \"visibility\": \"visible\",\n  \"tests\": [", required.earned + bonus.earned);
    const char *comma = "";
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p) continue;
        for (int i = 0; i < grades_checkpoints; i++) {
            const checkpoint *c = &grades_table[i];
            if (c->number != n) continue;
            fprintf(f, "%s\n    {\"name\": \"%02d %s: %s\", \"number\": \"%d.%s\", \"score\": %d, \"max_score\": %d, ",
                    comma, n, p->name, c->title, n, c->name, c->earned ? c->points : 0, c->points);
            fprintf(f, "\"status\": \"%s\", \"visibility\": \"visible\", \"output\": \"%s\\n",
                    c->earned ? "passed" : "failed", grades_records[n].state);
            grades_each_test(c, write_json_test, f);
            if (strcmp(c->needs, "-") != 0) fprintf(f, "needs: %s\\n", c->needs);
            fprintf(f, "\"}");
            comma = ",";
        }
        if (!*grades_records[n].report) continue;
        fprintf(f, ",\n    {\"name\": \"%02d %s: report\", \"number\": \"%d.report\", \"score\": 0, \"max_score\": 0, ",
                n, p->name, n);
        fprintf(f, "\"status\": \"%s\", \"visibility\": \"visible\", \"output\": \"",
                strcmp(grades_records[n].state, "passed") == 0 ? "passed" : "failed");
        write_text(f, grades_records[n].report, JSON);
        fprintf(f, "\"}");
    }
    fprintf(f, "\n  ]\n}\n");
}

// GitHub Classroom: what its grading reporter expects of a step that graded (autograding-grading-reporter, base64 of this file).
static void write_classroom(FILE *f)
{
    const score required = grades_total(false);
    fprintf(f, "{\"version\": 1, \"status\": \"%s\", \"max_score\": %d, \"tests\": [",
            required.earned == required.possible ? "pass" : "fail", required.possible);
    const char *comma = "";
    for (int i = 0; i < grades_checkpoints; i++) {
        const checkpoint *c = &grades_table[i];
        fprintf(f, "%s\n  {\"name\": \"%02d %s: %s (%d)\", \"status\": \"%s\", \"score\": %d, \"message\": \"%s\", ",
                comma, c->number, wb_problem_number(c->number)->name, c->title, c->points, c->earned ? "pass" : "fail",
                c->earned ? c->points : 0, grades_records[c->number].state);
        fprintf(f, "\"test_code\": \"make test-%02d\", \"filename\": \"\", \"line_no\": 0, \"execution_time\": 0}",
                c->number);
        comma = ",";
    }
    fprintf(f, "\n]}\n");
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
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p) continue;
        const char *state = grades_records[n].state;
        fprintf(f, "  <testsuite name=\"%02d %s\">\n", n, p->name);
        if (strcmp(state, "passed") == 0 || strcmp(state, "failed") == 0) {
            for (int i = 0; i < grades_checkpoints; i++)
                if (grades_table[i].number == n) grades_each_test(&grades_table[i], write_junit_test, f);
        } else {
            const bool idle = strcmp(state, "not started") == 0 || strcmp(state, "not run") == 0;
            fprintf(f, "    <testcase name=\"all\"><%s message=\"", idle ? "skipped" : "error");
            write_text(f, state, XML);
            fprintf(f, "\"/></testcase>\n");
        }
        fputs("    <system-out>", f);
        write_text(f, grades_records[n].report, XML);
        fputs("</system-out>\n  </testsuite>\n", f);
    }
    fprintf(f, "</testsuites>\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: points FOLDER NN...\n");
        return 2;
    }
    const char *folder = argv[1];
    grades_read("workbook/checkpoints.txt", folder);
    for (int i = 2; i < argc; i++) {
        const int number = atoi(argv[i]);
        if (number > 0 && number < MAX_PROBLEMS) asked[number] = true;
    }

    static const struct {
        const char *name;
        void (*write)(FILE *);
    } files[] = {{"scores.tsv", write_scores},
                 {"report.txt", write_report},
                 {"results.json", write_json},
                 {"classroom.json", write_classroom},
                 {"junit.xml", write_junit}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *f = open_whole(folder, files[i].name);
        files[i].write(f);
        close_whole(f, folder, files[i].name);
    }
    write_table(stdout, false);
    return 0;
}
