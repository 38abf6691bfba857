// criterion.h - what tests/tile_words.cu asks of Criterion, for a program of the check build, which looks at the
// kernels: nothing is judged.   --case all, or how the names of tests begin: --case load
#pragma once

#include <stdio.h>
#include <string.h>

struct test {
    const char *name;
    void (*run)();
    test *next;
    static test *&first()
    {
        static test *of_all;
        return of_all;
    }
    test(const char *as, void (*what)()) : name(as), run(what), next(first()) { first() = this; }
};

#define TestSuite(...)
#define Test(suite, as)                                                                                                \
    static void run_##as();                                                                                            \
    static test test_##as(#as, run_##as);                                                                              \
    static void run_##as()
int unjudged(bool condition, ...);  // nowhere
#define cr_assert(...) ((void)sizeof unjudged(__VA_ARGS__))

int main(int argc, char **argv)
{
    const char *word = argc > 2 ? argv[2] : "all";
    int called = 0;
    for (const test *t = test::first(); t; t = t->next)
        if (strcmp(word, "all") == 0 || strncmp(t->name, word, strlen(word)) == 0) t->run(), called++;
    if (!called) fprintf(stderr, "%s: no such case\n", word);
    return called ? 0 : 2;
}
