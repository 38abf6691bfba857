// findings.c - what is kept of what was seen, and which relation explains it.
#include "evidence.h"

#include <stdarg.h>

evidence e;
finding best;

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (memory) return memory;
    fprintf(stderr, "diagnose: no memory\n");
    exit(2);
}

// The sentence of a function that is called as printf is, into an array.
#define WRITE(text, format)                                                                                            \
    do {                                                                                                               \
        va_list arguments;                                                                                             \
        va_start(arguments, format);                                                                                   \
        vsnprintf(text, sizeof(text), format, arguments);                                                              \
        va_end(arguments);                                                                                             \
    } while (0)

void find(int rank, const char *id, const char *gaps, const char *format, ...)
{
    if (best.rank && (best.rank < rank || (best.rank == rank && (*best.id || !*id)))) return;
    if ((!e.wrong && rank < BY_WASTE) || !worth_naming(gaps)) return;
    best.rank = rank, best.id = id, best.gaps = gaps;
    WRITE(best.says, format);
    memcpy(best.shown, e.text, sizeof best.shown);
}

int copy_forms(form *to, const form *from, int count)
{
    memcpy(to, from, (size_t)count * sizeof *to);
    return count;
}

bool fit_add(fit *f, double seen, double tolerance, const form *forms, int count)
{
    f->count = copy_forms(f->forms, forms, count);
    bool wrong = false;
    for (int n = 0; n < count; n++) {
        const bool fits = isfinite(seen) ? fabs(seen - forms[n].is) <= tolerance
                                         : !isfinite(forms[n].is) && isnan(seen) == isnan(forms[n].is);
        f->misses[n] += !fits;
        if (n == 0) wrong = !fits;
    }
    f->wrong += wrong;
    return wrong && (!*f->says || (e.wrong && !f->fails));
}

void fit_says(fit *f, const char *format, ...)
{
    WRITE(f->says, format);
    memcpy(f->shown, e.text, sizeof f->shown), f->fails = e.wrong;
}

void fit_see(fit *f, double seen, double tolerance, const form *forms, int count, const char *format, ...)
{
    if (!fit_add(f, seen, tolerance, forms, count)) return;
    WRITE(f->says, format);
    memcpy(f->shown, e.text, sizeof f->shown), f->fails = e.wrong;
}

bool is_one_of(const form *is, const char *ids) { return is && strstr(ids, is->id); }

static bool explains(const fit *f, int n) { return n > 0 && n < f->count && f->misses[n] <= f->wrong / 50; }

const form *fit_form(const fit *f)
{
    int first = 0, second = 0;  // by their misses
    for (int n = 1; n < f->count && f->wrong; n++) {
        if (explains(f, n)) return &f->forms[n];
        if (!first || f->misses[n] < f->misses[first])
            second = first, first = n;
        else if (!second || f->misses[n] < f->misses[second])
            second = n;
    }
    return first && second && f->misses[first] <= f->wrong / 10 && f->misses[second] >= 8 * f->misses[first]
               ? &f->forms[first]
               : NULL;
}

// Two that explain the same are both said.
void fit_conclude(const fit *f, int rank, const char *gaps, const char *others, const char *joint)
{
    const form *is = fit_form(f), * or = NULL;
    if (!*f->says) return;
    for (int n = is ? (int)(is - f->forms) + 1 : f->count; n < f->count && ! or ; n++)
        if (explains(f, n)) or = &f->forms[n];
    memcpy(e.text, f->shown, sizeof e.text);
    find(rank, is ? is->id : "", is || !others ? gaps : others, "%s%s%s%s%s%s", f->says, is ? joint : "",
         is ? is->says : "", or ? "; or, which looks the same here" : "", or ? joint : "", or ? or->says : "");
}

line line_through(const double *x, const double *y, int count)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int n = 0; n < count; n++) sx += x[n], sy += y[n];
    sx /= count, sy /= count;
    for (int n = 0; n < count; n++) sxx += (x[n] - sx) * (x[n] - sx), sxy += (x[n] - sx) * (y[n] - sy);
    line l = {sxx > 0 ? sxy / sxx : 0, 0, 0};
    l.at = sy - l.slope * sx;
    for (int n = 0; n < count; n++) l.off = fmax(l.off, fabs(y[n] - l.slope * x[n] - l.at));
    return l;
}

exponent exponent_of(const double *S, const double *log2_weights, int count, double s2, double slack)
{
    exponent is = {.one = true};
    for (int n = 0; n < count; n++) is.m += (S[n] * s2 - log2_weights[n]) / count;
    is.close = slack + 1e-4 * fabs(is.m);
    for (int n = 0; n < count; n++) is.one &= fabs(S[n] * s2 - log2_weights[n] - is.m) <= is.close;
    if (!is.one) is.through = line_through(S, log2_weights, count);
    return is;
}

bool see_slope(fit *f, const exponent *is, double s2, int query, const char *where)
{
    const double slope = is->through.slope, scale = e.s->scale;
    if (!(fabs(slope) > 0.02 * s2 && is->through.off <= is->close)) return false;
    // clang-format off
    const form slopes[] = {
        {"", "", s2}, {"without_log2e", "scale, without log2(e)", scale},
        {"without_scale", "log2(e), without scale", LOG2E}};
    // clang-format on
    fit_see(f, slope, 0.015 * fabs(slope), FORMS(slopes),
            "the weights of query %d%s are 2^(%.4g S - ...), where scale * log2(e) = %.4g belongs before S = q k",
            query, where, slope, s2);
    return true;
}
