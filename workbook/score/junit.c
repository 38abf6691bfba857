// junit.c - junit.xml: a suite a problem, a case a test.
#include "score/safe_text.h"
#include "score/score.h"

#include <stdlib.h>
#include <string.h>

static void write_case(const char *test, const result *r, void *context)
{
    FILE *f = context;
    write_form(f, XML, "    <testcase name=\"%s\" time=\"%.3f\">", test, r ? r->seconds : 0);
    if (r && r->status == RESULT_FAIL)
        write_form(f, XML, "<failure>%s</failure>", r->message);
    else if (!r || r->status != RESULT_OK)
        fprintf(f, "<skipped/>");
    fprintf(f, "</testcase>\n");
}

// A problem that has not been started is skipped; what does not compile or could not run is an error.
void score_write_junit(FILE *f, const char *folder)
{
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"workbook\">\n");
    EACH_PROBLEM (p) {
        const char *state = grades_records[p->number].state;
        char *const report = grades_read_file("%s/%02d.report", folder, p->number);
        fprintf(f, "  <testsuite name=\"%02d %s\">\n", p->number, p->name);
        if (grades_ran(p->number)) {
            EACH_CHECKPOINT (c, p->number) grades_each_test(c, write_case, f);
        } else {
            const bool idle = strcmp(state, "not started") == 0 || strcmp(state, "not run") == 0;
            fprintf(f, "    <testcase name=\"all\"><%s message=\"%s\"/></testcase>\n", idle ? "skipped" : "error",
                    state);
        }
        write_form(f, XML, "    <system-out>%s</system-out>\n  </testsuite>\n", report);
        free(report);
    }
    fprintf(f, "</testsuites>\n");
}
