// findings.c - what is kept of what was seen, and which relation explains it.
#include "evidence.h"

#include <stdarg.h>
#include <stdio.h>

evidence e;
finding best;

void find(int rank, const char *id, const char *gaps, const char *format, ...)
{
    if (best.rank && (best.rank < rank || (best.rank == rank && (*best.id || !*id)))) return;
    if (!worth_naming(gaps)) return;
    best.rank = rank, best.gaps = gaps;
    snprintf(best.id, sizeof best.id, "%s", id);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(best.says, sizeof best.says, format, arguments);
    va_end(arguments);
}

void fit_add(fit *f, double seen, const double *values, int forms, double tolerance)
{
    f->count++;
    for (int n = 0; n < forms; n++) {
        const bool fits = isfinite(seen) ? fabs(seen - values[n]) <= tolerance
                                         : !isfinite(values[n]) && isnan(seen) == isnan(values[n]);
        f->misses[n] += !fits;
        if (n == 0) f->wrong += !fits;
    }
}

const form *fit_form(const fit *f, const form *forms, int count)
{
    for (int n = 1; n < count && f->wrong; n++)
        if (f->misses[n] <= f->count / 200) return &forms[n];
    return NULL;
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
