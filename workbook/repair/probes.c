// probes.c - the variable that a gap leaves wrong. What the two runs hold differs in what is wrong and in what a text
// is free to choose. So a variable is named only if the case is right once it alone has the reference solution's
// values; and of its values one that alone, left as it was, keeps the case wrong, as far as there is one.
#include "repair/probes.h"

#include "repair/probe.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORDS = 60, RETURNED = WORDS, SHOWN = 5 };

static const probed *gap;
static repair_probes *shared;
static bool theirs;  // the text that is compiled
static char *words[WORDS + 1] = {[RETURNED] = "what is returned"};
static bool dropped[WORDS];
static int count, first_line;  // of the words; where they are probed
static probe_log solution, student;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// The words of a text that may be variables.
static void find_words(const char *at, const char *end)
{
    for (int size; at < end; at += size) {
        size = strncmp(at, "//", 2) == 0 ? (int)strcspn(at, "\n") : 1;
        if (!is_word(*at)) continue;
        while (is_word(at[size])) size++;
        char *const word = strndup(at, (size_t)size);
        bool other = isdigit((unsigned char)*at) || at[-1] == '.' || strncmp(at - 2, "->", 2) == 0;
        for (int n = 0; n < count; n++) other |= strcmp(words[n], word) == 0;
        if (!other && !strchr("(:", at[size]) && count < WORDS) words[count++] = word;
    }
}

// The source with probes at the gap's end: each word has a line. What its last line returns is probed as well.
static void write_probed(FILE *to)
{
    const char *const begin = theirs ? gap->text : gap->source + gap->at;
    const char *last = begin + (theirs ? gap->length : gap->end - gap->at), *const end = last;
    while (last > begin && isspace((unsigned char)last[-1])) last--;
    while (last > begin && last[-1] != '\n') last--;
    last += strspn(last, " ");
    const int size = strncmp(last, "return ", 7) == 0 ? (int)strcspn(last, ";") : 0;
    char *text;
    const char *const head = "#define REPAIR_NONE\n#include \"repair/choice.h\"\n#include \"repair/probe.h\"\n";
    if (asprintf(&text, "%s%.*s%.*s\n::wb_repair::arrive();\n", head, gap->at, gap->source,
                 (int)((size ? last : end) - begin), begin) < 0)
        abort();
    fputs(text, to);
    first_line = 1;
    for (const char *c = text; *c; c++) first_line += *c == '\n';
    free(text);
    for (int n = 0; n < count; n++) fprintf(to, dropped[n] ? "\n" : "::wb_repair::probe(%d, %s);\n", n, words[n]);
    if (size) fprintf(to, "return ::wb_repair::returned(%d, %.*s);\n", RETURNED, size - 7, last + 7);
    fputs(gap->source + gap->end, to);
}
static bool drop(int line)
{
    const int n = line - first_line;
    return n >= 0 && n < count && !dropped[n] && (dropped[n] = true);
}

// Whether the case is wrong if `put` has the reference solution's values; the other run is noted in `note`.
static bool is_wrong_with(int put, int note)
{
    memset(shared->visits, 0, sizeof shared->visits), memset(shared->thread, 0, sizeof shared->thread);
    shared->put = put, shared->note = note;
    return gap->is_wrong();
}
// What no probe writes may come from the function, which has the file as well.
static bool is_event(const probe_event *e)
{
    return e->id >= 0 && e->id <= WORDS && e->count > 0 && e->count <= PROBE_BYTES && e->at >= 0 &&
           e->at <= PROBE_NUMBERS - e->count && (e->kind != PROBE_TILE || e->across > 0);
}
// Compiles and runs with one of the texts. False: that came to nothing.
static bool look(bool at_theirs)
{
    probe_log *const log = &shared->log[!at_theirs], *const own = at_theirs ? &solution : &student;
    theirs = at_theirs;
    if (!gap->build(write_probed, drop) || is_wrong_with(-1, !at_theirs) == theirs) return false;
    memcpy(own, log, sizeof *own);
    if (own->events < 0 || own->events >= PROBE_EVENTS) return false;
    for (int n = 0; n < own->events; n++)
        if (!is_event(&own->event[n])) return false;
    qsort(own->event, (size_t)own->events, sizeof *own->event, probe_order);
    for (int n = 1; n < own->events; n++)
        if (probe_order(&own->event[n - 1], &own->event[n]) == 0) return false;  // of two ranks
    memcpy(log->event, own->event, sizeof log->event);
    return true;
}

static const probe_event *students(const probe_event *e)
{
    const probe_event *const o = bsearch(e, student.event, (size_t)student.events, sizeof *e, probe_order);
    return o && o->count == e->count ? o : NULL;
}
static bool are_apart(double a, double b, probe_kind kind)
{
    if (isnan(a) || isnan(b)) return isnan(a) != isnan(b);
    if (kind >= PROBE_WHOLE || isinf(a) || isinf(b)) return a != b;
    return fabs(a - b) > 1e-5 + fmax(fabs(a), fabs(b)) / 256;  // rounding, in another order
}

// Of variable id the first event, and its part, that differs in what is left as it was; NULL: none does.
static const probe_event *first_apart(int id, int *part)
{
    for (int n = shared->leave[0]; n < shared->leave[1]; n++) {
        const probe_event *const e = &solution.event[n], *const o = e->id == id ? students(e) : NULL;
        for (*part = shared->leave_parts[0]; o && *part < e->count && *part < shared->leave_parts[1]; ++*part)
            if (are_apart(solution.number[e->at + *part], student.number[o->at + *part], e->kind)) return e;
    }
    return NULL;
}

// Halves what is left as it was, as long as that alone keeps the case wrong.
static void narrow(int range[2], int id)
{
    int part;
    while (range[1] - range[0] > 1) {
        const int from = range[0], to = range[1], middle = from + (to - from) / 2;
        range[1] = middle;
        if (first_apart(id, &part) && is_wrong_with(id, -1)) continue;
        range[0] = middle, range[1] = to;
        if (first_apart(id, &part) && is_wrong_with(id, -1)) continue;
        range[0] = from;
        return;
    }
}

static void say_number(probe_kind kind, double x)
{
    if (isnan(x) || isinf(x))
        printf(isnan(x) ? "NaN" : x < 0 ? "-infinity" : "infinity");
    else
        printf(kind < PROBE_WHOLE ? "%.5g" : "%.0f", x);
}

// Whole numbers that are the same in both.
static void say_others(const probe_event *of)
{
    static const char *const member[] = {"", ".row", ".col"};
    int shown = 0;
    for (const probe_event *e = solution.event; e < solution.event + solution.events && shown < SHOWN; e++) {
        const probe_event like = {.block = {of->block[0], of->block[1], of->block[2]}, of->thread, of->visit, e->id};
        const probe_event *const o = probe_order(&like, e) ? NULL : students(e);
        if (!o || (e->kind != PROBE_WHOLE && e->kind != PROBE_ELEMENT) || e->count > 2 || e->id == of->id) continue;
        bool same = true;
        for (int k = 0; k < e->count; k++) same &= solution.number[e->at + k] == student.number[o->at + k];
        for (int k = 0; k < e->count && same; k++)
            printf("%s %s%s = %.0f", shown++ ? "," : ";", words[e->id], member[e->kind == PROBE_ELEMENT ? 1 + k : 0],
                   solution.number[e->at + k]);
    }
}

static void say(const probe_event *e, int part)
{
    const double is = student.number[students(e)->at + part], other = solution.number[e->at + part];
    const int lane = e->thread % 32, block = part / 4;
    const char *const name = words[e->id];
    printf("at the end of gap %s, ", gap->names);
    printf(e->id == RETURNED ? "%s" : "`%s`", name);
    if (e->kind == PROBE_ROWS) printf(" of row %d of the warp", 8 * part + lane / 4);
    if (e->kind == PROBE_TILE)
        printf(" in row %d, column %d of the warp's tile", block / e->across * 16 + part % 4 / 2 * 8 + lane / 4,
               block % e->across * 8 + lane % 4 * 2 + part % 2);
    printf(" is "), say_number(e->kind, is);
    printf("; with the reference solution's text it is "), say_number(e->kind, other);
    printf(" (block (%u,%u,%u), thread %d", e->block[0], e->block[1], e->block[2], e->thread);
    if (e->visit) printf(", visit %d", e->visit + 1);
    say_others(e);
    printf("). If %s alone has that text's values, this case is right: %s\n", name, gap->the_case);
    fflush(stdout);
}

probes_found probes_say(const probed *of)
{
    char name[40];
    int sizes[WORDS + 1] = {0}, part;
    const int file = memfd_create("probes", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof *shared)) return PROBES_NONE;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) return PROBES_NONE;
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), file);
    setenv("WB_PROBES", name, 1);
    gap = of;
    find_words(of->source + of->at, of->source + of->end), find_words(of->text, of->text + of->length);
    if (!look(true) || !look(false)) return PROBES_NONE;
    for (int n = 0; n < solution.events; n++) sizes[solution.event[n].id] = solution.event[n].count;
    for (int size = 1; size <= PROBE_BYTES; size *= 2)  // a single number says more than a tile
        for (int id = 0; id <= WORDS; id++) {
            if (sizes[id] > size || sizes[id] <= size / 2) continue;
            shared->leave[0] = shared->leave_parts[0] = 0;
            shared->leave[1] = solution.events, shared->leave_parts[1] = PROBE_BYTES;
            if (!first_apart(id, &part)) continue;
            shared->leave[1] = 0;
            if (is_wrong_with(id, -1)) continue;
            shared->leave[1] = solution.events;
            narrow(shared->leave, id), narrow(shared->leave_parts, id);
            const probe_event *const e = first_apart(id, &part);
            if (e) return say(e, part), e->kind < PROBE_WHOLE ? PROBES_NUMBER : PROBES_INDEX;
        }
    return PROBES_NONE;
}
