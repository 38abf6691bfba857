// show.c - what scripts ask: of a suite, of the record of a run, of a text.
#include "wb/child.h"
#include "wb/say.h"
#include "wb/suite.h"
#include "wb/test.h"
#include "wb/wb.h"

#include <unistd.h>

int wb_list(char **given)
{
    results r;
    suite_names(given[0], &r);
    for (int i = 0; i < r.count; i++) printf("%s\n", r.rows[i].test);
    return r.count && r.ended ? 0 : 2;
}

static bool show_text(const outcome *o, const char *what)
{
    const result *const failure = suite_failure(&o->results, strcmp(what, "case") == 0);
    const struct {
        const char *name, *text;
    } texts[] = {{"case", failure ? failure->given : ""},
                 {"message", failure ? failure->message : ""},
                 {"state", o->state},
                 {"report", o->report},
                 {"coverage", o->coverage},
                 {"run", text_of("%s %s %s %s", o->date, o->backend, o->seed, o->machine)}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(what, texts[i].name) != 0) continue;
        const size_t length = strlen(texts[i].text);
        if (length) printf("%s%s", texts[i].text, texts[i].text[length - 1] == '\n' ? "" : "\n");
        return true;
    }
    return false;
}

int wb_show(char **given)
{
    outcome o;
    const char *const what = given[1];
    if (!outcome_read(given[0], &o)) return fprintf(stderr, "wb: there is no record %s\n", given[0]), 2;
    const results *const r = &o.results;
    const result_status status = results_status(what);
    const bool rows = strcmp(what, "rows") == 0, all = rows || strcmp(what, "tests") == 0;
    results_sort(&o.results);
    if (show_text(&o, what)) return 0;
    if (strcmp(what, "counts") == 0) return suite_say_counts(r), 0;
    if (status == RESULT_STATUSES && !all) return fprintf(stderr, "wb: show RECORD %s: unknown word\n", what), 2;
    for (int i = 0; i < r->count; i++) {
        const result *const row = &r->rows[i];
        if (rows)
            printf("%s\t%s\t%.3f\t%s\n", result_words[row->status], row->test, row->seconds, row->checkpoint);
        else if (all || row->status == status)
            printf("%s\n", row->test);
    }
    return 0;
}

int wb_plain(char **given)
{
    (void)given;
    say_plain("", child_read(dup(0), NULL));
    return 0;
}
