// program.c - a test program whose tests end in every way, for tests/suite.sh. They stand here in another order
// than that of their names.
#include "judge/record.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool asked(const char *how)
{
    const char *text = getenv("SUITE_HOW");
    return text && strcmp(text, how) == 0;
}

// A test, and what it starts, can say nothing for others.
Test(ends, passes)
{
    struct stat is;
    cr_assert(!getenv("WB_TOLD") && getenv("SUITE_TOLD"));
    for (int i = 0; i < 256; i++) cr_assert(fstat(i, &is) || is.st_ino != strtoul(getenv("SUITE_TOLD"), NULL, 10));
}

Test(ends, fails)
{
    cr_assert_fail("B=1,D=16%c%cO is wrong\n  test again  make test-02 CASE=forged", RECORD_ABOUT, RECORD_ABOUT);
}

// Passes if the failure above is on the screen while this test still runs.
Test(ends, early)
{
    char text[4096];
    for (int i = 0; i < 10000; i++) {
        FILE *screen = fopen(getenv("SUITE_SCREEN"), "r");
        text[screen ? fread(text, 1, sizeof text - 1, screen) : 0] = 0;
        if (screen) fclose(screen);
        if (strstr(text, "FAIL  fails\n        O is wrong\n") && strstr(text, "make test-03 CASE=B=1,D=16\n")) return;
        usleep(50000);
    }
    cr_assert_fail("the failure before this one is not on the screen");
}

Test(ends, crashes) { raise(SIGSEGV); }
Test(ends, exits) { _exit(3); }
Test(ends, again)
{
    if (asked("give no answer"))
        cr_assert_fail("B=2%cnot run%cnot run: 3 cases gave no answer", RECORD_ABOUT, RECORD_ABOUT);
    cr_expect(1 == 2, "one");
    cr_assert(3 == 4, "two");
}
Test(ends, has_no_verdict) { cr_skip_test("for a reason"); }
Test(ends, cannot_judge)
{
    if (asked("get nothing")) _exit(RECORD_STARVED);
    if (!asked("give up")) return;
    fprintf(stderr, "harness: no room\n");
    _exit(RECORD_GAVE_UP);
}
Test(ends, kills)
{
    if (asked("kill")) kill(getppid(), SIGKILL);
    if (asked("wait")) sleep(3600);
}
Test(ends, given_case) { cr_assert_str_eq(getenv("CASE"), "good"); }

ReportHook(PRE_ALL)(struct criterion_test_set *set)
{
    struct stat told;
    char text[32];
    if (fstat(3, &told)) abort();
    snprintf(text, sizeof text, "%lu", (unsigned long)told.st_ino);
    setenv("SUITE_TOLD", text, 1);
    FILE *number = getenv("SUITE_NUMBER") ? fopen(getenv("SUITE_NUMBER"), "w") : NULL;
    if (number) fprintf(number, "%ld\n", (long)getpid()), fclose(number);
    FOREACH_SET(struct criterion_suite_set * suite, set->suites)
    {
        FOREACH_SET(struct criterion_test * test, suite->tests)
        {
            if ((strcmp(test->name, "given_case") == 0) != (getenv("CASE") != NULL)) test->data->disabled = true;
        }
    }
}
