// results.c - the record of a suite's run: what is written is read again, and what is damaged is left out.
#include "score/results.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER "status\ttest\tline\tseconds\tcase\tcheckpoint\tmessage\n"

static char path[] = "/tmp/results-XXXXXX";

static FILE *begin(void)
{
    FILE *file = fdopen(mkstemp(path), "w");
    cr_assert(file);
    return file;
}

static results read_again(void)
{
    results r;
    cr_assert(results_read(path, &r));
    unlink(path);
    return r;
}

static results read_text(const char *text)
{
    FILE *file = begin();
    fputs(text, file);
    fclose(file);
    return read_again();
}

Test(results, comes_back_as_it_was)
{
    static char *const texts[] = {
        "",    "a", "tab\there", "\nend\nok\tb\t1\t0\t\t\t\n\tx", "\\", "\\t\\n\\\\", "\n", "\t", "no \303\244scii",
        "\\\n"};
    enum { TEXTS = sizeof texts / sizeof *texts };
    FILE *file = begin();
    results_begin(file);
    for (int i = 0; i < TEXTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "test_%d", i);
        results_write(file, &(result){.status = i % RESULT_STATUSES,
                                      .test = name,
                                      .line = i,
                                      .seconds = i / 8.0,
                                      .given = texts[i],
                                      .checkpoint = texts[(i + 1) % TEXTS],
                                      .message = texts[(i + 2) % TEXTS]});
    }
    results_end(file, false);
    fclose(file);
    results r = read_again();
    cr_assert(r.ended && r.count == TEXTS);
    for (int i = 0; i < TEXTS; i++) {
        const result *row = &r.rows[i];
        cr_assert(row->status == (result_status)(i % RESULT_STATUSES) && row->line == i && row->seconds == i / 8.0);
        cr_assert_str_eq(row->given, texts[i]);
        cr_assert_str_eq(row->checkpoint, texts[(i + 1) % TEXTS]);
        cr_assert_str_eq(row->message, texts[(i + 2) % TEXTS]);
    }
    results_free(&r);
}

Test(results, controls_become_question_marks)
{
    FILE *file = begin();
    results_begin(file);
    results_write(file, &(result){.status = RESULT_FAIL, .test = "a", .message = "\033[1m\r\037\177"});
    fclose(file);
    results r = read_again();
    cr_assert(r.count == 1);
    cr_assert_str_eq(r.rows[0].message, "?[1m???");
}

Test(results, damaged_rows_are_left_out)
{
    results r = read_text(HEADER "ok\ttoo_few\t1\t0\t\t\n"
                                 "OK\tno_such_status\t1\t0\t\t\t\n"
                                 "ok\t\t1\t0\t\t\tno name\n"
                                 "\n"
                                 "ok\twhole\t7\t0.5\t\t\t\n"
                                 "ok\tcut_off\t1\t0\t\t\tmess");
    cr_assert(r.count == 1 && !r.ended);
    cr_assert_str_eq(r.rows[0].test, "whole");
    cr_assert(r.rows[0].line == 7);
}

Test(results, rows_behind_the_end_count)
{
    results r = read_text(HEADER "end\nFAIL\tcheck build\t0\t0\t\tpromises\t\n");
    cr_assert(r.ended && r.count == 1);
    cr_assert_str_eq(r.rows[0].checkpoint, "promises");
}

Test(results, files_without_rows)
{
    results r;
    cr_assert(!results_read("/nowhere/at/all", &r) && r.count == 0 && !r.ended);
    r = read_text("");
    cr_assert(r.count == 0 && !r.ended);
}

Test(results, sorted_by_line)
{
    results r = read_text(HEADER "ok\tnowhere_b\t0\t0\t\t\t\nok\tb\t20\t0\t\t\t\nok\tnowhere_a\t0\t0\t\t\t\n"
                                 "ok\tlast\t100\t0\t\t\t\nok\ta\t20\t0\t\t\t\nok\tfirst\t3\t0\t\t\t\n");
    static const char *const order[] = {"first", "a", "b", "last", "nowhere_a", "nowhere_b"};
    results_sort(&r);
    cr_assert(r.count == 6);
    for (int i = 0; i < r.count; i++) cr_assert_str_eq(r.rows[i].test, order[i]);
}
