// report.c - the page of `make report`: everything that is recorded of a student's work, as one HTML file that needs no other.
//
//   report FOLDER IMPL PLOTS > PAGE      run in the workbook's root, by report.sh
//
// Reads the records in FOLDER (grades.h), and beside them NN.run, where and when the suite ran (where.sh). PLOTS holds charts and masks,
// NN_name_KIND.svg and mask_NN.svg; recorded charts are in plots/. The page is well-formed XML too. A text that is not ours goes through
// write_text, and pictures are images, in which nothing runs: a page that an instructor is handed can do no more than be read.
#include "grades.h"
#include "problems.h"
#include "safe_text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IN_FULL = 2, FILE_LIMIT = 4 << 20, PATH = 4096 };

static const char *folder, *plots, *with_impl;  // with_impl: what a command needs to mean this implementation

static void text(const char *s) { write_text(stdout, s, XML); }

// ------------------------------------------------------------------------------------------------------------- what was run

enum { DATE, BACKEND, SEED, MACHINE, FIELDS };
static char runs[MAX_PROBLEMS][FIELDS][160];  // "" where it is not known

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
    printf("<div><dt>%s</dt><dd>", name);
    bool any = false;
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        bool said = !*runs[n][field] || is_idle(n);
        for (int earlier = 1; earlier < n; earlier++)
            if (!is_idle(earlier) && strcmp(runs[earlier][field], runs[n][field]) == 0) said = true;
        if (said) continue;
        if (any) printf("; ");
        text(runs[n][field]);
        any = true;
    }
    printf("%s</dd></div>\n", any ? "" : "not recorded");
}

// From the first run to the last.
static void list_dates(void)
{
    const char *first = "", *last = "";
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        const char *date = runs[n][DATE];
        if (is_idle(n) || !*date) continue;
        if (!*first || strcmp(date, first) < 0) first = date;
        if (strcmp(date, last) > 0) last = date;
    }
    printf("<div><dt>Tested</dt><dd>");
    text(*first ? first : "not recorded");
    if (strcmp(first, last) != 0) {
        printf(" to ");
        text(last);
    }
    printf("</dd></div>\n");
}

// --------------------------------------------------------------------------------------------------------- what the suite said

typedef struct verdict {
    char *test, *said;
} verdict;

// An NN.report, cut into its parts.
typedef struct said {
    char *before;  // by the compiler, or why there was no suite
    verdict failures[MAX_RESULTS], skips[MAX_RESULTS];
    int failed, skipped;
    char *after;     // the suite's sum: held-out cases
    char *findings;  // of the check build
    char *mistake;   // a known one, if the results look like it
} said;

// A line of suite.sh that ends what stood before it; 'F': a test failed, 'S': it has no verdict, '=': the sum, 'o': anything else.
static char kind_of(const char *line)
{
    int failed;
    if (strncmp(line, "  FAIL  ", 8) == 0 || strncmp(line, "  SKIP  ", 8) == 0) return line[2];
    if (strncmp(line, "  ok    ", 8) == 0 || strncmp(line, "  (the first two failures", 25) == 0) return 'o';
    return *line != ' ' && sscanf(line, "%*d passed, %d failed,", &failed) == 1 ? '=' : 0;
}

// Ends `*s` before the line that holds `mark`; returns that line and all that follows, or "".
static char *cut_before(char **s, const char *mark)
{
    char *at = strstr(*s, mark);
    if (!at) return "";
    while (at > *s && at[-1] != '\n') at--;
    if (at == *s)
        *s = "";
    else
        at[-1] = 0;
    return at;
}

static said cut(char *report)
{
    said s = {.before = report, .after = ""};
    char *line = report;
    while (*line && !*s.after) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        const char kind = kind_of(line);
        if (kind) line[line > report ? -1 : 0] = 0;
        if (kind == '=') s.after = next;
        if ((kind == 'F' && s.failed < MAX_RESULTS) || (kind == 'S' && s.skipped < MAX_RESULTS)) {
            *end = 0;
            *(kind == 'F' ? &s.failures[s.failed++] : &s.skips[s.skipped++]) =
                (verdict){line + 8, kind_of(next) ? "" : next};
        }
        line = next;
    }
    s.mistake = cut_before(&s.after, "your result matches ");
    s.findings = cut_before(&s.after, "check build");
    return s;
}

static const verdict *failure_of(const said *s, const char *test)
{
    for (int i = 0; i < s->failed; i++)
        if (strcmp(s->failures[i].test, test) == 0) return &s->failures[i];
    return NULL;
}

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
    text(s);
}

static void block(const char *kind, char *s, int indent)
{
    if (!*s) return;
    printf("<pre class=\"%s\" tabindex=\"0\">", kind);
    unindented(s, indent);
    printf("</pre>\n");
}

// The first `in_full` open, the others folded.
static void show_verdicts(const char *what, const verdict *verdicts, int count, int in_full)
{
    if (count == 0) return;
    printf("<h3>%d %s</h3>\n", count, what);
    for (int i = 0; i < count; i++) {
        if (i == in_full) printf("<details>\n<summary>%d more</summary>\n", count - i);
        char *const said = verdicts[i].said;
        const bool brief = i >= in_full && !strchr(said, '\n');
        printf(brief ? "<p><code>" : "<h4><code>");
        text(verdicts[i].test);
        printf(brief ? "</code> " : "</code></h4>\n");
        if (brief) {
            text(said);
            printf("</p>\n");
        } else {
            block("aligned", said, 8);
        }
    }
    if (count > in_full) printf("</details>\n");
}

// ----------------------------------------------------------------------------------------------------------------- pictures

static void write_base64(const char *content)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t left = strlen(content); left > 0; content += 3, left = left > 3 ? left - 3 : 0) {
        unsigned group = 0;
        for (size_t k = 0; k < 3; k++) group = group << 8 | (k < left ? (unsigned char)content[k] : 0);
        for (size_t k = 0; k < 4; k++) putchar(k <= left ? digits[group >> (18 - 6 * k) & 63] : '=');
    }
}

// Copies the picture's first text that begins with `begin`, and the one that stands before it; "" if there is none.
static void find_text(const char *svg, const char *begin, char found[256], char before[256])
{
    *found = *before = 0;
    for (const char *at = strstr(svg, "<text"); at; at = strchr(at, '<')) {
        if (!(at = strchr(at, '>'))) break;
        const size_t length = strcspn(++at, "<");
        if (length == 0 || length > 255 || *at == '\n') continue;
        if (strncmp(at, begin, strlen(begin)) == 0) {
            snprintf(found, 256, "%.*s", (int)length, at);
            return;
        }
        snprintf(before, 256, "%.*s", (int)length, at);
    }
    *before = 0;
}

// A picture with its words; false if there is no such file. As an image it is no part of the page: its ids cannot collide with those
// of other pictures, no script in it runs, and it loads nothing.
static bool picture(const char *kind, const char *what, const char *path)
{
    char *const svg = grades_read_file("%s", path), source[256], title[256], nothing[256];
    const bool there = *svg && strlen(svg) < FILE_LIMIT;
    if (there) {
        find_text(svg, "measured here: ", source, title);
        if (!*source) find_text(svg, "recorded: ", source, title);
        if (!*source) find_text(svg, "", title, nothing);  // a mask begins with its title
        printf("<figure class=\"%s\"><div><img alt=\"%s. ", kind, what);
        text(title);
        printf("\" src=\"data:image/svg+xml;base64,");
        write_base64(svg);
        printf("\"/></div>\n<figcaption>%s", what);
        if (*source) printf(strncmp(source, "recorded: ", 10) == 0 ? ". Not measured here; " : ", ");
        text(source);
        printf("</figcaption></figure>\n");
    }
    free(svg);
    return there;
}

static void show_pictures(const wb_problem *p)
{
    static const char *const kinds[][2] = {
        {"speed", "Speed against size"}, {"time", "Time against size"}, {"memory", "Memory against size"}};
    char path[PATH];
    bool any = false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        snprintf(path, sizeof path, "%s/%02d_%s_%s.svg", plots, p->number, p->name, kinds[k][0]);
        any |= picture("chart", kinds[k][1], path);
    }
    snprintf(path, sizeof path, "plots/%02d_%s.svg", p->number, p->name);
    if (!any) picture("chart", "Speed against size", path);
    snprintf(path, sizeof path, "%s/mask_%02d.svg", plots, p->number);
    if (p->mask == WB_CAUSAL) picture("mask", "Mask: which query sees which key, and the tiles that are visited", path);
}

// -------------------------------------------------------------------------------------------------------------- one problem

static const char *state_class(const char *state)
{
    return strcmp(state, "passed") == 0 ? "passed" : strncmp(state, "not ", 4) == 0 ? "idle" : "failed";
}

static void badge(const char *state)
{
    printf("<span class=\"state %s\">", state_class(state));
    text(state);
    printf("</span>");
}

// A part of the bar for each checkpoint, as long as its points, filled if it is won.
static void bar(int number)
{
    const score s = grades_of(number);
    printf("<svg class=\"bar\" viewBox=\"0 0 %d 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">", s.possible);
    for (int i = 0, x = 0; i < grades_checkpoints; i++) {
        const checkpoint *c = &grades_table[i];
        if (c->number != number) continue;
        printf("<rect x=\"%d\" width=\"%d\" height=\"10\" class=\"%s\"/>", x, c->points, c->earned ? "won" : "open");
        x += c->points;
    }
    printf("</svg>");
}

static void command(const char *target, int number, const char *more)
{
    printf("<code>make %s%02d", target, number);
    text(with_impl);
    text(more);
    printf("</code>");
}

// The case that a failure asks to be run again, as " CASE=...".
static void case_of(const char *said, char more[256])
{
    const char *at = strstr(said, "  make test-"), *given = at ? strstr(at, " CASE=") : NULL;
    snprintf(more, 256, "%.*s", given ? (int)(1 + strcspn(given + 1, " \n")) : 0, given ? given : "");
}

static void missing(const checkpoint *c)
{
    char test[128];
    grades_missing(c, test);
    if (*test) {
        printf("<code>");
        text(test);
        printf("</code> %s", strcmp(grades_status(c->number, test), "FAIL") == 0 ? "fails" : "has not run");
    } else {
        printf("needs ");
        for (const char *need = c->needs; *need; need++) *need == ',' ? fputs(", ", stdout) : putchar(*need);
        printf(" first");
    }
}

static void next_step(const wb_problem *p, const said *s)
{
    const char *state = grades_records[p->number].state;
    const checkpoint *next = grades_of(p->number).next;
    char test[128] = "", more[256] = "";
    printf("<b>Next step:</b> ");
    if (strcmp(state, "passed") == 0 && !next) {
        printf("all points are won. ");
        command("bench-", p->number, "");
        printf(" and ");
        command("plot-", p->number, "");
        printf(" show how fast it is.");
    } else if (next && (strcmp(state, "passed") == 0 || strcmp(state, "failed") == 0)) {
        grades_missing(next, test);
        const verdict *f = failure_of(s, test);
        if (f) case_of(f->said, more);
        text(next->title);
        printf(" (");
        missing(next);
        printf("): ");
        command("test-", p->number, more);
        printf("; ");
        command("hint-", p->number, "");
        printf(" helps.");
    } else if (strcmp(state, "compile error") == 0) {
        printf("mend the first error that the compiler names, then ");
        command("test-", p->number, "");
    } else if (strcmp(state, "not started") == 0) {
        printf("read <code>problems/%02d/README.md</code>, then ", p->number);
        command("test-", p->number, "");
    } else {
        command("test-", p->number, "");
    }
}

// Folded where there is nothing to learn from: all won, or nothing has run.
static void show_checkpoints(int number)
{
    const score s = grades_of(number);
    const bool folded = !s.next || strcmp(grades_records[number].state, "failed") != 0;
    if (folded) printf("<details>\n<summary>Checkpoints: %s</summary>\n", s.next ? "what it takes" : "all won");
    printf("<table class=\"checkpoints\">\n%s<thead><tr><th scope=\"col\">State</th>"
           "<th scope=\"col\" class=\"number\">Points</th><th scope=\"col\">What it takes</th></tr></thead>\n<tbody>\n",
           folded ? "" : "<caption>Checkpoints</caption>\n");
    for (int i = 0; i < grades_checkpoints; i++) {
        const checkpoint *c = &grades_table[i];
        if (c->number != number) continue;
        printf("<tr class=\"%s\"><td>%s</td><td class=\"number\">%d</td><td><code>", c->earned ? "won" : "open",
               c->earned ? "won" : "not yet", c->points);
        text(c->name);
        printf("</code>: ");
        text(c->title);
        if (!c->earned) {
            printf("<br/><small>");
            missing(c);
            printf("</small>");
        }
        printf("</td></tr>\n");
    }
    printf("</tbody></table>\n%s", folded ? "</details>\n" : "");
}

static void show_run(int number)
{
    const char *separator = "";
    printf("<p class=\"run\">");
    for (int k = 0; k < MACHINE; k++) {
        if (!*runs[number][k]) continue;
        printf("%s%s", separator, (const char *[]){"Tested ", "backend ", "seed "}[k]);
        text(runs[number][k]);
        separator = ", ";
    }
    const record *r = &grades_records[number];
    if (r->speed > 0)
        printf("%sspeed %.2f of the answer key's: %.1f of %.1f speed points", separator, r->speed,
               grades_speed_points(number), grades_of(number).possible / 10.0);
    printf("</p>\n");
}

static void show_problem(const wb_problem *p)
{
    const record *r = &grades_records[p->number];
    const score points = grades_of(p->number);
    char *const report = strndup(r->report, FILE_LIMIT);
    if (!report) grades_give_up("report");
    said s = cut(report);
    printf("<section id=\"p%02d\">\n<h2>%02d %s ", p->number, p->number, p->name);
    badge(r->state);
    printf(" <span class=\"points\">%d / %d%s</span></h2>\n", points.earned, points.possible, p->bonus ? " bonus" : "");
    show_run(p->number);
    printf("<p class=\"next\">");
    next_step(p, &s);
    printf("</p>\n");
    if (*s.mistake) {
        printf("<p class=\"next mistake\"><b>A likely mistake:</b> ");
        unindented(s.mistake, 2);
        printf("</p>\n");
    }
    show_checkpoints(p->number);
    if (*s.before)
        printf("<h3>%s</h3>\n", strcmp(r->state, "compile error") == 0 ? "What the compiler said" : "Before the tests");
    block("aligned", s.before, 2);
    show_verdicts(s.failed == 1 ? "failing test" : "failing tests", s.failures, s.failed, IN_FULL);
    show_verdicts(s.skipped == 1 ? "test without a verdict" : "tests without a verdict", s.skips, s.skipped, IN_FULL);
    block("wrapped", s.after, 2);
    if (*s.findings) printf("<h3>What the check build found</h3>\n");
    block("wrapped", s.findings, 2);
    show_pictures(p);
    printf("</section>\n");
    free(report);
}

// ----------------------------------------------------------------------------------------------------------------- the page

static void show_head(const char *impl)
{
    char now[64];
    const time_t seconds = time(NULL);
    strftime(now, sizeof now, "%Y-%m-%d %H:%M UTC", gmtime(&seconds));
    // Even if a text did get out of its place: nothing runs and nothing is loaded.
    printf("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
           "'unsafe-inline'\"/>\n<meta name=\"generator\" content=\"FlashAttention workbook, make report\"/>\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
           "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>FlashAttention workbook: report</title>\n"
           "<style>\n");
    char *const style = grades_read_file("workbook/report.css");
    if (!*style) grades_give_up("workbook/report.css");
    fputs(style, stdout);
    free(style);
    printf("</style>\n</head>\n<body>\n<main>\n<h1>FlashAttention workbook: report</h1>\n<dl>\n<div><dt>Code</dt><dd>");
    text(impl);
    printf("/</dd></div>\n");
    list_field("Machine", MACHINE);
    list_field("Backend", BACKEND);
    list_field("Seed", SEED);
    list_dates();
    printf("<div><dt>Page made</dt><dd>%s</dd></div>\n</dl>\n", now);
}

static void show_scores(void)
{
    const score required = grades_total(false), bonus = grades_total(true);
    printf("<p id=\"score\">Score: %d/%d (+ bonus %d/%d)</p>\n", required.earned, required.possible, bonus.earned,
           bonus.possible);
    printf("<table class=\"scores\">\n<caption>The nine problems</caption>\n<thead><tr><th scope=\"col\">Problem</th>"
           "<th scope=\"col\">State</th><th scope=\"col\">Points</th></tr></thead>\n<tbody>\n");
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p) continue;
        const score s = grades_of(n);
        printf("<tr><th scope=\"row\"><a href=\"#p%02d\">%02d %s</a></th><td>", n, n, p->name);
        badge(grades_records[n].state);
        printf("</td><td class=\"points\"><span>%d / %d%s</span> ", s.earned, s.possible, p->bonus ? " bonus" : "");
        bar(n);
        printf("</td></tr>\n");
    }
    printf("</tbody></table>\n");
    for (int n = 1; n < MAX_PROBLEMS; n++)
        if (wb_problem_number(n) && grades_of(n).next) {
            printf("<p>Go on with <a href=\"#p%02d\">%02d %s</a>.</p>\n", n, n, wb_problem_number(n)->name);
            break;
        }
}

static void show_idle(void)
{
    bool any = false;
    for (int n = 1; n < MAX_PROBLEMS; n++) {
        const wb_problem *p = wb_problem_number(n);
        if (!p || !is_idle(n)) continue;
        if (!any) printf("<section>\n<h2>Not started</h2>\n<ul>\n");
        any = true;
        printf("<li id=\"p%02d\">%02d %s: ", n, n, p->name);
        text(grades_records[n].state);
        printf(". ");
        next_step(p, NULL);
        printf("</li>\n");
    }
    if (any) printf("</ul>\n</section>\n");
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: report FOLDER IMPL PLOTS\n");
        return 2;
    }
    folder = argv[1], plots = argv[3];
    char command_ending[128] = "", roofline[PATH];
    if (strcmp(argv[2], "problems") != 0) snprintf(command_ending, sizeof command_ending, " IMPL=%s", argv[2]);
    with_impl = command_ending;
    grades_read("workbook/checkpoints.txt", folder);
    for (int n = 1; n < MAX_PROBLEMS; n++)
        if (wb_problem_number(n)) read_run(n);

    show_head(argv[2]);
    show_scores();
    for (int n = 1; n < MAX_PROBLEMS; n++)
        if (wb_problem_number(n) && !is_idle(n)) show_problem(wb_problem_number(n));
    show_idle();
    snprintf(roofline, sizeof roofline, "%s/roofline_chart.svg", plots);
    picture("chart", "Roofline of all problems", roofline);
    printf("</main>\n</body>\n</html>\n");
    return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
