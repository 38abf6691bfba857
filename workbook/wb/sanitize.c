// sanitize.c - wb sanitize: runs each problem on a few small cases in a build that looks at every access, and prints
// the first report. CASE names one case instead. Exit status: 0 nothing found, 1 something found, or it does not
// compile; 2 if CASE is none; 3 if the machine was too busy to tell, or, after a failure, it took too long.
//
// .cu: the check build of workbook/cpu, whatever the backend.   .c: AddressSanitizer with UBSan, then ThreadSanitizer
#include "wb/wb.h"

#include "judge/spent.h"
#include "layer_requests.h"

#include <fcntl.h>
#include <sha256.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *limit;         // of a case, in seconds of its own
static bool after;                // a failure: the report alone is printed, and soon
static bool headed;               // by each problem's name
static int told;                  // where a worker, or awk, says what a report is of (layer_requests.h), and
static char found[WB_FINDING];    // what it was
static bool busy;                 // the machine was, for the last case
static char *printed, *raw = "";  // by the last worker on its two descriptors, and
static const char *report = "";   // what is said of that; "": nothing was found

// Looks at one case, and leaves a report, or none.
typedef void look_with(const wb_problem *p, const char *file, const char *worker, const char *given);

#define tell(...) (after ? 0 : printf(__VA_ARGS__))

static void begin(const char *seconds, FILE *file)
{
    if (!file) grades_give_up("a report");
    limit = seconds, told = fileno(file);
}

static void look_what_was_told(void)
{
    const ssize_t n = pread(told, found, sizeof found - 1, 0);
    found[n > 0 ? n : 0] = 0;
}

// Runs words for so long, and returns how that ended (spent_within).
static int try(char *const words[])
{
    char *all[16] = {(char *)limit};
    FILE *const errors = tmpfile();
    int status;
    if (!errors || fcntl(fileno(errors), F_SETFD, FD_CLOEXEC) || ftruncate(told, 0) || lseek(told, 0, SEEK_SET))
        grades_give_up("a report");
    for (int i = 0; words[i]; i++) all[i + 1] = words[i];
    printed = child_output(&(child){.call = spent_within, .words = all, .error = fileno(errors)}, &status);
    rewind(errors);
    raw = child_read(dup(fileno(errors)), NULL);
    fclose(errors);
    look_what_was_told();
    return status;
}

static int try_worker(const char *worker, const char *given)
{
    char *const to = text_of("%d", told);
    return try((char *[]){(char *)worker, "--report", to, "--case", (char *)given, "--guard", "0", NULL});
}

// What an awk program of this room makes of a text, with this variable.
static char *awk(const char *program, const char *text, char *variable)
{
    char *const record = text_of("record=/dev/fd/%d", told);
    char *const file = text_of("workbook/sanitize/%s.awk", program);
    char *const words[] = {"awk", "-v", variable, "-v", record, "-f", file, NULL};
    char *const made = child_output(&(child){.words = words, .text = text}, NULL);
    look_what_was_told();
    return made;
}

// The first lines of a text, each behind this.
static char *lines_of(const char *text, int most, const char *before)
{
    char *all = "";
    for (; *text && most-- > 0; text = next_line(text))
        all = text_of("%s%s%.*s\n", all, before, (int)strcspn(text, "\n"), text);
    return all;
}

// In the check build a local variable without a value has another one than in the worker: does what comes out differ?
static void look_at_values(const wb_problem *p, const char *file, const char *ordinary, const char *given)
{
    struct stat source, built;
    if (stat(file, &source) || stat(ordinary, &built)) return;
    if (seconds_of(source.st_mtim) > seconds_of(built.st_mtim)) return;  // saved meanwhile
    const char *const here = printed;
    try_worker(ordinary, given);
    const char *const there = printed;
    if (strcmp(here, there) == 0) return;
    const char *unset = awk("unset", grades_read_file("%s", file), text_of("skeleton=%s", gaps_skeleton(p)));
    if (!*unset) try_worker(ordinary, given);  // the order of atomics is a matter of chance, too
    if (!*unset && strcmp(there, printed) != 0) return;
    char *places = "", *record = "an uninitialised variable\t";
    for (int n = 0; n < 4 && *unset; n++, unset = next_line(unset)) {
        const int number = (int)strcspn(unset, " "), length = (int)strcspn(unset, "\n");
        places = text_of("%s   declared without a value at %s:%.*s\n               |%.*s\n", places, file, number,
                         unset, length - number, unset + number);
        record = text_of("%s %s:%.*s", record, strrchr(file, '/') + 1, number, unset);
    }
    if (ftruncate(told, 0) == 0 && lseek(told, 0, SEEK_SET) == 0) dprintf(told, "%s\tNobody wrote it", record);
    report = text_of("sanitize: an uninitialised variable in %s\n"
                     "   The results depend on the value of a local variable before its first assignment.\n%s"
                     "   missing  a first value: 0 for a sum, -infinity for a maximum\n"
                     "   read     problems/when-it-is-wrong-but-runs.md, \"Nobody wrote it\"\n",
                     p->name, places);
}

static void look_at_kernel(const wb_problem *p, const char *file, const char *worker, const char *given)
{
    const int status = try_worker(worker, given);
    char *const by_kernel = strdup(found);
    busy = status == SPENT_STARVED || (after && status == SPENT_LATE);
    if (busy) return;
    for (const char *line = raw; *line; line = next_line(line)) {
        const char *const at = strncmp(line, "cudacpu: ", 9) == 0 ? line + 9 : line;
        report = text_of("%s%s%.*s\n", report, at > line ? "sanitize: " : "", (int)strcspn(at, "\n"), at);
    }
    if (status == SPENT_LATE)
        report = text_of("%ssanitize: no answer in %s s\n", report, limit);
    else if (status && !*report)
        report = text_of("sanitize: the worker ended with status %d\n", status);
    if (*report) return;
    look_at_values(p, file, text_of("build/cpu/%s", worker + strlen("build/cpu/check/")), given);
    if (!*report) strcpy(found, by_kernel);
}

static char *threads_of(const char *worker)
{
    return text_of("%.*s_threads_worker", (int)(strlen(worker) - strlen("_worker")), worker);
}

static void look_at_c(const wb_problem *p, const char *file, const char *worker, const char *given)
{
    static char here[4096];
    char *const programs[] = {(char *)worker, threads_of(worker)};
    (void)p, (void)file;
    if (!getcwd(here, sizeof here)) grades_give_up("a report");
    for (int i = 0; i < 2 && !*report; i++) {
        if (access(programs[i], X_OK)) continue;
        int status = try_worker(programs[i], given);
        // ThreadSanitizer of older compilers cannot live with all ways of placing memory.
        if (strstr(raw, "FATAL: ThreadSanitizer"))
            status = try((char *[]){"setarch", "-R", programs[i], "--case", (char *)given, "--guard", "0", NULL});
        busy = status == SPENT_STARVED;
        if (busy) return;
        report = awk("report", raw, text_of("pwd=%s", here));
        if (status && !*report)
            report = text_of("sanitize: %s ended with status %d\n%s", strrchr(programs[i], '/') + 1, status,
                             lines_of(raw, 20, ""));
    }
}

static int look_at_cases(const wb_problem *p, const char *file, const char *worker, look_with *look, const char *given)
{
    const char *unseen = "";
    char *said = (char *)given;
    int fits = 0, tried = 0, errors = 0;  // fits: 1 the function has to refuse it, 2 it is no case
    char *const ask[] = {(char *)worker, "--cases", (char *)(given ? given : "list"), NULL};
    if (!after) said = child_output(&(child){.words = ask}, &fits);
    if (given && fits == 2) return tell("  CASE: %s", said), 2;
    for (char *left = strdup(given ? given : fits ? "" : said), *one; (one = strsep(&left, "\n"));) {
        if (!*one) continue;
        tried++;
        report = "", busy = false;
        look(p, file, worker, one);
        if (busy) unseen = text_of("%s %s", unseen, one);
        // A gap is open, or all of it is blank; a function that gave up did nothing that could be looked at.
        const int kind = *report ? 0 : (int)strcspn(found, "\t");
        const char *const error = kind ? text_of("%.*s: %s", kind, found, found + kind + 1) : "";
        if (*error && wb_finding_is(found, "not implemented"))
            return tell("  nothing to check yet: %.*s\n", (int)strcspn(error, "\n"), error), 1;
        if (*error && fits == 1)
            return tell("  CASE: nothing to check; the function rejects this case, as it must: %s", said), 2;
        if (*error) report = text_of("sanitize: the function returned an error: %s\n", error);
        if (!*report || errors++) continue;
        tell("  case %s\n", one);
        printf("%s", lines_of(report, 1 << 20, "  "));
        tell("     again    make sanitize-%02d CASE=%s\n", p->number, one);
    }
    if (tried == 0) return tell("  %s lists no cases\n", worker), 1;
    if (errors) return tried == 1 || tell("  errors in %d of %d cases\n", errors, tried), 1;
    if (*unseen) return tell("  the machine was too busy to check%s: try again when it is less busy\n", unseen), 3;
    return tell("  no errors in %d case%s\n", tried, tried > 1 ? "s" : ""), 0;
}

static int look_at(const char *impl, const wb_problem *p, const char *given)
{
    int status;
    char file[256];
    if (!gaps_file_in(impl, p, file, sizeof file)) return 0;  // no reference solution yet
    look_with *look = file[strlen(file) - 1] == 'c' ? look_at_c : look_at_kernel;
    if (headed) printf("\n== %02d %s\n", p->number, p->name);
    if (strcmp(impl, "problems") == 0 && !after && gaps_are_shipped(file))
        return tell("  not started: open %s, and read problems/%02d/README.md\n", file, p->number), 0;
    if (look == look_at_kernel && strstr(setting("CXX", ""), "clang"))
        tell("  clang++ instruments fewer accesses than g++, so a misaligned vector load may go unnoticed\n");
    char *const worker = text_of("build/cpu/check/%s/%02d_worker", impl, p->number),
                *const programs[] = {worker, look == look_at_c ? threads_of(worker) : NULL, NULL};
    char *const log = build_programs("cpu", programs, after, &status);
    if (status) return tell("  %s does not compile\n%s", file, after ? "" : build_brief(log, true)), 1;
    status = look_at_cases(p, file, worker, look, given);
    if (status || given || strcmp(impl, "problems") != 0) return status;
    outcome known;
    char sum[SHA256_DIGEST_STRING_LENGTH], *const record = text_of("%s/%02d.json", OWN_RECORDS, p->number);
    mkdir(OWN_RECORDS, 0777);
    outcome_read(record, &known);
    known.clean = SHA256File(file, sum);
    outcome_write(record, &known);
    return 0;
}

int sanitize_after(char **given)
{
    begin("10", fdopen(atoi(given[3]), "r+"));
    after = true;
    setenv("CUDACPU_TIMEOUT", "5", 1);
    return look_at(given[0], wb_problem_number(atoi(given[1])), given[2]);
}

int sanitize_ends(char **given)
{
    begin("5", fdopen(atoi(given[2]), "r+"));
    try_worker(given[0], given[1]);
    const char *const at = strstr(raw, "   at ");
    if (at && wb_finding_is(found, "illegal address")) printf("%s", at);
    return 0;
}

int sanitize_one(char **given)
{
    const wb_problem *const p = wb_problem_number(atoi(given[1]));
    begin(setting("WB_TIMEOUT", "60"), tmpfile());
    setenv("CUDACPU_TIMEOUT", "", 1);
    return p ? look_at(given[0], p, setting("CASE", NULL)) : 2;
}

int wb_sanitize(char **given)
{
    int all = 0;
    headed = true;
    child_interrupted(NULL);
    for (char **number = given + 1; *number; number++) {
        const int one = sanitize_one((char *[]){given[0], *number});
        if (one && (all == 0 || all > one)) all = one;
    }
    return all;
}

int wb_look(char **given)
{
    begin(setting("WB_TIMEOUT", "60"), tmpfile());
    look_at_c(NULL, NULL, given[0], given[1]);
    printf("%s", report);
    return busy ? SPENT_STARVED : *report != 0;
}
