// probes.c - what a gap leaves: runs with the student's text, with an edit of that, and with the reference solution's
// are compared, number by number. Two right texts may leave other values, such as a maximum that lags.
#include "repair/probes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RETURNED = PROBE_WORDS, SHOWN = 5 };

static const probed *gap;
static repair_shared *shared;
static probe_log solution, student, edited;

// What no probe writes may come from the function, which has the file as well.
static bool is_event(const probe_event *e)
{
    return e->id >= 0 && e->id <= RETURNED && e->count > 0 && e->count <= PROBE_BYTES && e->at >= 0 &&
           e->at <= PROBE_NUMBERS - e->count && (e->kind != PROBE_TILE || e->across > 0);
}
// Runs with one of the texts. False: that came to nothing.
static bool look(probe_log *own, bool theirs, int on)
{
    memset(shared->visits, 0, sizeof shared->visits), memset(shared->thread, 0, sizeof shared->thread);
    shared->log.events = shared->log.numbers = 0, shared->notes = true;
    const bool wrong = gap->is_wrong(theirs, on);
    shared->notes = false;
    const int events = shared->log.events, numbers = shared->log.numbers;
    if (wrong == (theirs || on) || events < 1 || events >= PROBE_EVENTS || numbers > PROBE_NUMBERS) return false;
    own->events = events;
    memcpy(own->event, shared->log.event, (size_t)events * sizeof *own->event);
    memcpy(own->number, shared->log.number, (size_t)numbers * sizeof *own->number);
    bool fine = true;
    for (int n = 0; n < events; n++) fine &= is_event(&own->event[n]);
    qsort(own->event, (size_t)events, sizeof *own->event, probe_order);
    for (int n = 1; n < events; n++) fine &= probe_order(&own->event[n - 1], &own->event[n]) != 0;  // of two ranks
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
        bool same = o && e->kind >= PROBE_WHOLE && e->count <= 2 && e->id != of->id && e->id != RETURNED;
        for (int k = 0; k < e->count && same; k++) same = solution.number[e->at + k] == student.number[o->at + k];
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
    printf("). All else that the gap leaves is the same: %s\n", gap->the_case);
    fflush(stdout);
}

void probes_are_of(const probed *of, repair_shared *in) { gap = of, shared = in; }

// Both have run.
static bool are_known(void)
{
    static int known;  // 0: not yet; 1: they have; -1: in vain
    if (!known) known = look(&solution, true, 0) && look(&student, false, 0) ? 1 : -1;
    return known > 0;
}

// What a run leaves other than the reference solution's text does.
typedef struct differences {
    bool any, several;                 // numbers; variables
    const probe_event *first, *whole;  // of a variable; of a whole number
    int part, whole_part;
} differences;
static differences compare(const probe_log *with)
{
    differences d = {.any = with->events != solution.events};
    for (const probe_event *e = solution.event; e < solution.event + solution.events; e++) {
        const probe_event *const o = that_of(with, e);
        d.any |= !o;
        for (int k = 0; o && k < e->count; k++) {
            if (!are_apart(solution.number[e->at + k], with->number[o->at + k], e->kind)) continue;
            if (!d.first) d.first = e, d.part = k;
            if (!d.whole && e->kind >= PROBE_WHOLE) d.whole = e, d.whole_part = k;
            d.any = true, d.several |= d.first->id != e->id;
        }
    }
    return d;
}

probes_found probes_with(int on, char other[PROBES_OTHER_TEXT])
{
    if (!are_known() || !look(&edited, false, on)) return PROBES_UNKNOWN;
    const differences d = compare(&edited);
    if (!d.any) return compare(&student).first ? PROBES_SAME : PROBES_UNKNOWN;
    if (!d.whole) return PROBES_UNKNOWN;
    snprintf(other, PROBES_OTHER_TEXT, "; %s is then %.0f; with the reference solution's text it is %.0f",
             name_of(d.whole), edited.number[that_of(&edited, d.whole)->at + d.whole_part],
             solution.number[d.whole->at + d.whole_part]);
    return PROBES_OTHER;
}

bool probes_say(void)
{
    const differences d = are_known() ? compare(&student) : (differences){.first = NULL};
    if (d.first && !d.several) say(d.first, d.part);
    return d.first && !d.several;
}
