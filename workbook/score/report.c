// report.c - the page of `make report`: everything that is recorded of a student's work, as one HTML file that needs no other.
//
// Reads the records in a folder (grades.h), and beside them NN.run, where and when the suite ran (suite.c). `plots` holds charts and
// masks (report_pictures.c). The page is well-formed XML too. A text that is not ours goes through write_text, and pictures are images, in
// which nothing runs: a page that an instructor is handed can do no more than be read.
#include "score/safe_text.h"
#include "score/score.h"
#include "score/standing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IN_FULL = 2 };

static const char *folder, *plots, *with_impl;  // with_impl: what a command needs to mean this implementation

#define html(...) write_form(stdout, XML, __VA_ARGS__)  // each %s is text, no markup

// ------------------------------------------------------------------------------------------------------------- what was run

enum { DATE, BACKEND, SEED, MACHINE, FIELDS };
static char runs[WB_PROBLEMS][FIELDS][160];  // "" where it is not known

static void read_run(int number)
{
    static const char *const names[FIELDS] = {"date\t", "backend\t", "seed\t", "machine\t"};
    char *const run = grades_read_file("%s/%02d.run", folder, number);
    for (char *line = strtok(run, "\n"); line; line = strtok(NULL, "\n"))
        for (int k = 0; k < FIELDS; k++)
            if (strncmp(line, names[k], strlen(names[k])) == 0)
                snprintf(runs[number][k], sizeof runs[number][k], "%s", line + strlen(names[k]));
    free(run);
}

static bool is_idle(int number)
{
    const char *state = grades_records[number].state;
    return strcmp(state, "not started") == 0 || strcmp(state, "not run") == 0;
}

// The values that the runs have, each once.
static void list_field(const char *name, int field)
{
    bool any = false;
    html("<div><dt>%s</dt><dd>", name);
    EACH_PROBLEM (p) {
        const char *value = runs[p->number][field];
        bool said = !*value || is_idle(p->number);
        EACH_PROBLEM (earlier)
            if (earlier < p && !is_idle(earlier->number) && strcmp(runs[earlier->number][field], value) == 0)
                said = true;
        if (!said) html("%s%s", any ? "; " : "", value);
        any |= !said;
    }
    html("%s</dd></div>\n", any ? "" : "not recorded");
}

// From the first run to the last.
static void list_dates(void)
{
    const char *first = "", *last = "";
    EACH_PROBLEM (p) {
        const char *date = runs[p->number][DATE];
        if (is_idle(p->number) || !*date) continue;
        if (!*first || strcmp(date, first) < 0) first = date;
        if (strcmp(date, last) > 0) last = date;
    }
    const bool several = strcmp(first, last) != 0;
    html("<div><dt>Tested</dt><dd>%s%s%s</dd></div>\n", *first ? first : "not recorded", several ? " to " : "",
         several ? last : "");
}

// --------------------------------------------------------------------------------------------------------- what the suite said

// Text as it was, without the indentation that all its lines have.
static void unindented(char *s, int indent)
{
    char *to = s;
    for (const char *from = s; *from; from++) {
        if (from == s || from[-1] == '\n') {
            const int spaces = (int)strspn(from, " ");
            from += spaces < indent ? spaces : indent;
            if (!*from) break;
        }
        *to++ = *from;
    }
    *to = 0;
    html("%s", s);
}

static void block(const char *kind, char *s, int indent)
{
    if (!*s) return;
    html("<pre class=\"%s\" tabindex=\"0\">", kind);
    unindented(s, indent);
    html("</pre>\n");
}

// A file of the record, under a heading if it says anything.
static void show_file(const char *kind, const char *heading, int number, const char *ending)
{
    char *const said = grades_read_file("%s/%02d.%s", folder, number, ending);
    if (*said) html("<h3>%s</h3>\n", heading);
    block(kind, said, 2);
    free(said);
}

// The tests that came to this; the first two open, the others folded.
static void show_results(const results *all, result_status status, const char *one, const char *many)
{
    int count = 0, shown = 0;
    for (int i = 0; i < all->count; i++) count += all->rows[i].status == status && !*all->rows[i].checkpoint;
    if (count == 0) return;
    html("<h3>%d %s</h3>\n", count, count == 1 ? one : many);
    for (int i = 0; i < all->count; i++) {
        const result *r = &all->rows[i];
        if (r->status != status || *r->checkpoint) continue;
        if (shown++ == IN_FULL) html("<details>\n<summary>%d more</summary>\n", count - IN_FULL);
        html("<h4><code>%s</code></h4>\n", r->test);
        block("aligned", r->message, 0);
    }
    if (count > IN_FULL) html("</details>\n");
}

static void show_held_out(const results *all)
{
    int count = 0, right = 0;
    for (int i = 0; i < all->count; i++) {
        if (strncmp(all->rows[i].test, "held-out case ", 14) != 0) continue;
        count++;
        right += all->rows[i].status == RESULT_OK;
    }
    if (count > 0) html("<p>Held-out cases: %d of %d right</p>\n", right, count);
}

// -------------------------------------------------------------------------------------------------------------- one problem

static void badge(const char *state)
{
    const char *class = strcmp(state, "passed") == 0 ? "passed" : strncmp(state, "not ", 4) == 0 ? "idle" : "failed";
    html("<span class=\"state %s\">%s</span>", class, state);
}

// A part of the bar for each checkpoint, as long as its points, filled if it is won.
static void bar(int number)
{
    const score s = grades_of(number);
    html("<svg class=\"bar\" viewBox=\"0 0 %d 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">", s.possible);
    int x = 0;
    EACH_CHECKPOINT (c, number) {
        html("<rect x=\"%d\" width=\"%d\" height=\"10\" class=\"%s\"/>", x, c->points, c->earned ? "won" : "open");
        x += c->points;
    }
    html("</svg>");
}

static void missing(const checkpoint *c)
{
    char why[256];
    const char *test, *said = grades_why(c, &test, why);
    if (test) html("<code>%s</code> ", test);
    html("%s", said);
}

static void next_step(const wb_problem *p)
{
    const char *state = grades_records[p->number].state;
    const checkpoint *next = grades_of(p->number).next;
    const result *r = NULL;
    const int n = p->number;
    html("<b>Next step:</b> ");
    if (strcmp(state, "passed") == 0 && !next) {
        const bool emulated = strcmp(runs[n][BACKEND], "cpu") == 0 && !p->on_host;  // whose times are the emulator's
        html("all points are won. <code>make bench-%02d%s</code> and <code>make plot-%02d%s</code> show %s.", n,
             with_impl, n, with_impl,
             emulated ? "how much memory it takes; how fast it is shows on a GPU" : "how fast it is");
        return;
    }
    if (next && grades_ran(n)) {
        grades_missing(next, &r);
        html("%s (", next->title);
        missing(next);
        html("): ");
    } else if (strcmp(state, "compile error") == 0) {
        html("mend the first error that the compiler names, then ");
    } else if (strcmp(state, "not started") == 0) {
        html("read <code>problems/%02d/README.md</code>, then ", n);
    }
    html("<code>make test-%02d%s%s%s</code>", n, with_impl, r && *r->given ? " CASE=" : "", r ? r->given : "");
    if (next && grades_ran(n)) html("; <code>make hint-%02d%s</code> helps.", n, with_impl);
}

// Folded where there is nothing to learn from: all won, or nothing has run.
static void show_checkpoints(int number)
{
    const score s = grades_of(number);
    const bool folded = !s.next || strcmp(grades_records[number].state, "failed") != 0;
    if (folded) html("<details>\n<summary>Checkpoints: %s</summary>\n", s.next ? "what it takes" : "all won");
    html("<table class=\"checkpoints\">\n");
    if (!folded) html("<caption>Checkpoints</caption>\n");
    html("<thead><tr><th scope=\"col\">State</th><th scope=\"col\" class=\"number\">Points</th>"
         "<th scope=\"col\">What it takes</th></tr></thead>\n<tbody>\n");
    EACH_CHECKPOINT (c, number) {
        html("<tr class=\"%s\"><td>%s</td><td class=\"number\">%d</td><td><code>%s</code>: %s",
             c->earned ? "won" : "open", c->earned ? "won" : "not yet", c->points, c->name, c->title);
        if (!c->earned) {
            html("<br/><small>");
            missing(c);
            html("</small>");
        }
        html("</td></tr>\n");
    }
    html("</tbody></table>\n");
    if (folded) html("</details>\n");
}

static void show_run(int number)
{
    const char *separator = "";
    html("<p class=\"run\">");
    for (int k = 0; k < MACHINE; k++) {
        if (!*runs[number][k]) continue;
        html("%s%s%s", separator, (const char *[]){"Tested ", "backend ", "seed "}[k], runs[number][k]);
        separator = ", ";
    }
    const record *r = &grades_records[number];
    if (r->speed > 0)
        html("%sspeed %.2f of the answer key's: %.1f of %.1f speed points", separator, r->speed,
             grades_speed_points(number), grades_of(number).possible / 10.0);
    html("</p>\n");
}

static void show_points(const wb_problem *p)
{
    const score s = grades_of(p->number);
    const char *group = grades_group_name(p->group);
    html("%d / %d%s%s", s.earned, s.possible, *group ? " " : "", group);
}

static void show_problem(const wb_problem *p)
{
    const record *r = &grades_records[p->number];
    char *const mistake = grades_read_file("%s/%02d.mistake", folder, p->number);
    html("<section id=\"p%02d\">\n<h2>%02d %s ", p->number, p->number, p->name);
    badge(r->state);
    html(" <span class=\"points\">");
    show_points(p);
    html("</span></h2>\n");
    show_run(p->number);
    html("<p class=\"next\">");
    next_step(p);
    html("</p>\n");
    if (*mistake) {
        html("<p class=\"next mistake\"><b>A likely mistake:</b> ");
        unindented(mistake, 2);
        html("</p>\n");
    }
    free(mistake);
    show_checkpoints(p->number);
    show_file("aligned", "What the compiler said", p->number, "compiler");
    if (grades_ran(p->number)) {
        show_results(&r->results, RESULT_FAIL, "failing test", "failing tests");
        show_results(&r->results, RESULT_SKIP, "test without a verdict", "tests without a verdict");
        show_held_out(&r->results);
        show_file("wrapped", "What the check build found", p->number, "sanitize");
    } else if (strcmp(r->state, "compile error") != 0) {
        show_file("wrapped", "Why there are no results", p->number, "report");
    }
    score_show_pictures(p, plots);
    html("</section>\n");
}

// ----------------------------------------------------------------------------------------------------------------- the page

static void show_head(const char *impl)
{
    char now[64];
    const time_t seconds = time(NULL);
    strftime(now, sizeof now, "%Y-%m-%d %H:%M UTC", gmtime(&seconds));
    // Even if a text did get out of its place: nothing runs and nothing is loaded.
    html("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
         "'unsafe-inline'\"/>\n<meta name=\"generator\" content=\"FlashAttention workbook, make report\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>FlashAttention workbook: report</title>\n"
         "<style>\n");
    char *const style = grades_read_file("workbook/score/report.css");
    if (!*style) grades_give_up("workbook/score/report.css");
    fputs(style, stdout);
    free(style);
    html("</style>\n</head>\n<body>\n<main>\n<h1>FlashAttention workbook: "
         "report</h1>\n<dl>\n<div><dt>Code</dt><dd>%s/</dd></div>\n",
         impl);
    list_field("Machine", MACHINE);
    list_field("Backend", BACKEND);
    list_field("Seed", SEED);
    list_dates();
    html("<div><dt>Page made</dt><dd>%s</dd></div>\n</dl>\n", now);
}

static void show_scores(void)
{
    html("<p id=\"score\">");
    grades_print_total(stdout);
    html("</p>\n");
    html("<table class=\"scores\">\n<caption>The problems</caption>\n<thead><tr><th scope=\"col\">Problem</th>"
         "<th scope=\"col\">State</th><th scope=\"col\">Points</th></tr></thead>\n<tbody>\n");
    EACH_PROBLEM (p) {
        const int n = p->number;
        html("<tr><th scope=\"row\"><a href=\"#p%02d\">%02d %s</a></th><td>", n, n, p->name);
        badge(grades_records[n].state);
        html("</td><td class=\"points\"><span>");
        show_points(p);
        html("</span> ");
        bar(n);
        html("</td></tr>\n");
    }
    html("</tbody></table>\n");
    EACH_PROBLEM (p)
        if (grades_of(p->number).next) {
            html("<p>Go on with <a href=\"#p%02d\">%02d %s</a>.</p>\n", p->number, p->number, p->name);
            break;
        }
}

static void show_idle(void)
{
    bool any = false;
    EACH_PROBLEM (p) {
        const int n = p->number;
        if (!is_idle(n)) continue;
        if (!any) html("<section>\n<h2>Not started</h2>\n<ul>\n");
        any = true;
        html("<li id=\"p%02d\">%02d %s: %s. ", n, n, p->name, grades_records[n].state);
        next_step(p);
        html("</li>\n");
    }
    if (any) html("</ul>\n</section>\n");
}

int score_report(char **given)
{
    char ending[128];
    const char *impl = given[1];
    folder = given[0], plots = given[2], with_impl = strcmp(impl, "problems") ? ending : "";
    snprintf(ending, sizeof ending, " IMPL=%s", impl);
    if (strcmp(folder, OWN_RECORDS) == 0)
        standing_read(folder);
    else
        grades_read(folder);
    EACH_PROBLEM (p) read_run(p->number);
    show_head(impl);
    show_scores();
    EACH_PROBLEM (p)
        if (!is_idle(p->number)) show_problem(p);
    show_idle();
    score_show_roofline(plots);
    html("</main>\n</body>\n</html>\n");
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
