// probes.c - the variable that a gap leaves wrong. What the two runs hold differs in what is wrong and in what a text
// is free to choose. So a variable is named only if the case is right once it alone has the reference solution's
// values; and of its values one that alone, left as it was, keeps the case wrong, as far as there is one.
#include "repair/probes.h"

#include "repair/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RETURNED = PROBE_WORDS, SHOWN = 5 };

static const probed *gap;
static repair_probes *shared;
static probe_log solution, student, edited;

// Whether the case is wrong, noted in log `note`, with the reference solution's values of variable `put` (-1: of none).
static bool is_wrong_with(int put, int note, bool theirs, int on)
{
    memset(shared->visits, 0, sizeof shared->visits), memset(shared->thread, 0, sizeof shared->thread);
    if (note >= 0) shared->log[note].events = shared->log[note].numbers = 0;
    shared->put = put, shared->note = note;
    return gap->is_wrong(theirs, on);
}
static bool is_wrong_given(int put) { return is_wrong_with(put, -1, false, 0); }

// What no probe writes may come from the function, which has the file as well.
static bool is_event(const probe_event *e)
{
    return e->id >= 0 && e->id <= RETURNED && e->count > 0 && e->count <= PROBE_BYTES && e->at >= 0 &&
           e->at <= PROBE_NUMBERS - e->count && (e->kind != PROBE_TILE || e->across > 0);
}
// Runs with one of the texts. False: that came to nothing.
static bool look(probe_log *own, bool theirs, int on)
{
    probe_log *const log = &shared->log[!theirs];
    const bool wrong = is_wrong_with(-1, !theirs, theirs, on);
    own->events = 0;
    if (wrong == (theirs || on) || log->events < 1 || log->events >= PROBE_EVENTS || log->numbers > PROBE_NUMBERS)
        return false;
    own->events = log->events;
    memcpy(own->event, log->event, (size_t)own->events * sizeof *own->event);
    memcpy(own->number, log->number, (size_t)log->numbers * sizeof *own->number);
    bool fine = true;
    for (int n = 0; n < own->events; n++) fine &= is_event(&own->event[n]);
    qsort(own->event, (size_t)own->events, sizeof *own->event, probe_order);
    for (int n = 1; n < own->events; n++) fine &= probe_order(&own->event[n - 1], &own->event[n]) != 0;  // of two ranks
    memcpy(log->event, own->event, (size_t)own->events * sizeof *own->event);
    return fine;
}

static const probe_event *that_of(const probe_log *log, const probe_event *e)
{
    const probe_event *const o = bsearch(e, log->event, (size_t)log->events, sizeof *e, probe_order);
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
        const probe_event *const e = &solution.event[n], *const o = e->id == id ? that_of(&student, e) : NULL;
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
        if (first_apart(id, &part) && is_wrong_given(id)) continue;
        range[0] = middle, range[1] = to;
        if (first_apart(id, &part) && is_wrong_given(id)) continue;
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
        const probe_event *const o = probe_order(&like, e) ? NULL : that_of(&student, e);
        if (!o || (e->kind != PROBE_WHOLE && e->kind != PROBE_ELEMENT) || e->count > 2 || e->id == of->id ||
            e->id == RETURNED)
            continue;
        bool same = true;
        for (int k = 0; k < e->count; k++) same &= solution.number[e->at + k] == student.number[o->at + k];
        for (int k = 0; k < e->count && same; k++)
            printf("%s %s%s = %.0f", shown++ ? "," : ";", gap->words[e->id],
                   member[e->kind == PROBE_ELEMENT ? 1 + k : 0], solution.number[e->at + k]);
    }
}

static const char *name_of(const probe_event *e)
{
    static char name[200];
    snprintf(name, sizeof name, e->id == RETURNED ? "what is returned" : "`%s`", gap->words[e->id]);
    return name;
}

static void say(const probe_event *e, int part)
{
    const double is = student.number[that_of(&student, e)->at + part], other = solution.number[e->at + part];
    const int lane = e->thread % 32, block = part / 4;
    printf("at the end of gap %s, %s", gap->names, name_of(e));
    if (e->kind == PROBE_ROWS) printf(" of row %d of the warp", 8 * part + lane / 4);
    if (e->kind == PROBE_TILE)
        printf(" in row %d, column %d of the warp's tile", block / e->across * 16 + part % 4 / 2 * 8 + lane / 4,
               block % e->across * 8 + lane % 4 * 2 + part % 2);
    printf(" is "), say_number(e->kind, is);
    printf("; with the reference solution's text it is "), say_number(e->kind, other);
    printf(" (block (%u,%u,%u), thread %d", e->block[0], e->block[1], e->block[2], e->thread);
    if (e->visit) printf(", visit %d", e->visit + 1);
    say_others(e);
    printf("). If it alone has that text's values, this case is right: %s\n", gap->the_case);
    fflush(stdout);
}

bool probes_begin(const probed *of)
{
    char name[40];
    const int file = memfd_create("probes", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof *shared)) return false;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), file);
    setenv("WB_PROBES", name, 1);
    gap = of;
    return shared != MAP_FAILED;
}

// Both have run.
static bool are_known(void)
{
    static int known;  // 0: not yet; 1: they have; -1: in vain
    if (!known) known = look(&solution, true, 0) && look(&student, false, 0) ? 1 : -1;
    return known > 0;
}

static char other[300];
const char *probes_other(void) { return other; }

// How many of all numbers differ in a run from the reference solution's, or have none there: *whole is a whole one.
static int count_apart(const probe_log *in, const probe_event **whole)
{
    int apart = abs(in->events - solution.events);
    for (const probe_event *e = solution.event; e < solution.event + solution.events; e++) {
        const probe_event *const o = that_of(in, e);
        for (int k = 0; o && k < e->count; k++)
            if (are_apart(solution.number[e->at + k], in->number[o->at + k], e->kind)) {
                if (e->kind >= PROBE_WHOLE && !*whole) *whole = e;
                apart++;
            }
        apart += !o;
    }
    return apart;
}

probes_found probes_with(int on)
{
    const probe_event *whole = NULL, *before = NULL;
    if (!are_known() || !look(&edited, false, on)) return PROBES_UNKNOWN;
    if (!count_apart(&edited, &whole)) return count_apart(&student, &before) ? PROBES_SAME : PROBES_UNKNOWN;
    if (!whole) return PROBES_UNKNOWN;
    const probe_event *const is = that_of(&edited, whole);
    int k = 0;
    while (edited.number[is->at + k] == solution.number[whole->at + k]) k++;
    snprintf(other, sizeof other, "%s is then %.0f; with the reference solution's text it is %.0f", name_of(whole),
             edited.number[is->at + k], solution.number[whole->at + k]);
    return PROBES_OTHER;
}

bool probes_say(void)
{
    int sizes[PROBE_WORDS + 1] = {0}, part;
    if (!are_known()) return false;
    for (int n = 0; n < solution.events; n++) sizes[solution.event[n].id] = solution.event[n].count;
    for (int size = 1; size <= PROBE_BYTES; size *= 2)  // a single number says more than a tile
        for (int id = 0; id <= RETURNED; id++) {
            if (sizes[id] > size || sizes[id] <= size / 2) continue;
            shared->leave[0] = shared->leave_parts[0] = 0;
            shared->leave[1] = solution.events, shared->leave_parts[1] = PROBE_BYTES;
            if (!first_apart(id, &part)) continue;
            shared->leave[1] = 0;
            if (is_wrong_given(id)) continue;
            shared->leave[1] = solution.events;
            narrow(shared->leave, id), narrow(shared->leave_parts, id);
            const probe_event *const e = first_apart(id, &part);
            if (e) return say(e, part), true;
        }
    return false;
}
