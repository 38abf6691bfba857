// findings.c - what is kept of what was seen, and which relation explains it.
#include "evidence.h"

#include <float.h>
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

// The sentence of a function that is called as printf, into an array.
#define WRITE(text, format) \
    do { \
        va_list arguments; \
        va_start(arguments, format); \
        vsnprintf(text, sizeof(text), format, arguments); \
        va_end(arguments); \
    } while (0)

bool find(int rank, const char *id, const char *gaps, const char *format, ...)
{
    if ((rank < BY_WASTE ? !e.wrong : !has_gap(gaps)) || !worth_naming(gaps)) return false;
    if (!has_gap(gaps) && !*id) rank += BY_WASTE;  // rather a gap than what was given
    if (best.rank && (best.rank < rank || (best.rank == rank && (*best.id || !*id)))) return false;
    best.rank = rank, best.id = id, best.gaps = gaps, best.relation = false;
    WRITE(best.says, format);
    memcpy(best.shown, e.text, sizeof best.shown);
    return true;
}

void add_form(const fit *f, form *forms, int *count, double is, const char *format, ...)
{
    char text[300];
    if (*count == MAX_FORMS) return;
    if (*count >= f->count) WRITE(text, format);
    const char *says = *count < f->count ? f->forms[*count].says : strdup(text);
    forms[(*count)++] = (form){says, is};
}

static fit *noted[64];  // of which something was seen
static int fit_count;

// Whether the sentence of this observation is one to keep.
static bool add(fit *f, double seen, double tolerance, const form *forms, int count)
{
    bool wrong = count == 0;
    if (!f->known && fit_count < COUNT(noted)) noted[fit_count++] = f;
    f->known = true;
    if (count) memcpy(f->forms, forms, (size_t)count * sizeof *forms), f->count = count;
    for (int n = 0; n < count; n++) {
        const bool fits = isfinite(seen) ? fabs(seen - forms[n].is) <= tolerance
                                         : !isfinite(forms[n].is) && isnan(seen) == isnan(forms[n].is);
        f->misses[n] += !fits;
        if (n == 0) wrong = !fits;
    }
    f->wrong += wrong;
    if (!wrong || (*f->says && (!e.wrong || f->fails))) return false;
    memcpy(f->shown, e.text, sizeof f->shown), f->fails = e.wrong;
    return true;
}

void see(fit *f, double seen, double tolerance, const form *forms, int count, const char *format, ...)
{
    if (add(f, seen, tolerance, forms, count)) WRITE(f->says, format);
}

// Of a term: number scale^scale log2(e)^log2e.
typedef struct factor {
    double number;
    int scale, log2e;
} factor;

typedef struct term {
    const char *says;
    int length;
    double value;
    factor right;
} term;

static int add_sum(const fit *f, form *forms, int n, const term *terms, const factor *is, int count)
{
    static const char *const scales[] = {" / scale^2", " / scale", "", "scale ", "scale^2 "};
    static const char *const logs[] = {"ln(2)^2 ", "ln(2) ", "", "log2(e) ", "log2(e)^2 "};
    char text[300] = "", number[24];
    double sum = 0;
    for (int t = 0; t < count; t++) {
        const factor x = is[t];
        double value = x.number * terms[t].value;
        if (x.number == 0) continue;
        for (int k = 0; k < abs(x.scale); k++) value *= x.scale > 0 ? e.s->scale : 1 / (double)e.s->scale;
        for (int k = 0; k < abs(x.log2e); k++) value *= x.log2e > 0 ? LOG2E : LN2;
        sum += value;
        if (n < f->count) continue;  // it has been written
        *number = 0;
        if (fabs(x.number) != 1) snprintf(number, sizeof number, "%g ", fabs(x.number));
        const char *sign = x.number > 0 ? *text ? " + " : "" : *text ? " - " : "-";
        APPEND(text, "%s%s%s%s%.*s%s", sign, number, scales[max_int(2, x.scale + 2)], logs[x.log2e + 2],
               terms[t].length, terms[t].says, scales[min_int(2, x.scale + 2)]);
    }
    add_form(f, forms, &n, sum, "%s", *text ? text : "0");
    return n;
}

void see_sum(fit *f, double seen, double tolerance, const char *names, const double *values, const char *format, ...)
{
    enum { MOST = 20 };
    static const factor changes[] = {{1, 0, 0},  {0, 0, 0}, {-1, 0, 0}, {2, 0, 0}, {0.5, 0, 0}, {4, 0, 0}, {32, 0, 0},
                                     {1, -1, 0}, {1, 1, 0}, {1, 0, -1}, {1, 0, 1}, {1, -1, -1}, {1, 1, 1}};
    static term terms[MOST];
    factor is[MOST], first = {1, 0, 0};
    form forms[MAX_FORMS];
    int count = 0, rights = 0;
    for (const char *at = names; *at && count < MOST; count++) {
        term *t = &terms[count];
        t->right = (factor){0, 0, 0}, t->value = values[count];
        for (; *at != ' '; at++) {
            t->right.number += *at == '+' ? 1 : *at == '-' ? -1 : 0, t->right.scale += *at == 's';
            t->right.log2e += *at == 'l' ? 1 : *at == 'n' ? -1 : 0;
        }
        t->says = at + 1, t->length = (int)strcspn(at + 1, "|");
        at += 1 + t->length, at += *at == '|';
        is[count] = t->right;
        if (t->right.number != 0 && rights++ == 0) first = (factor){1, t->right.scale, t->right.log2e};
    }
    int n = add_sum(f, forms, 0, terms, is, count);
    const bool right = fabs(seen - forms[0].is) <= tolerance;
    const int each = f->looks < 2000 ? 8 : 61;  // some of them will do
    if ((right || f->wrong > 500) && f->count && f->looks++ % each) return;
    // Of the right ones none, one, or all are gone; and another has come, or one or all have another factor.
    for (int gone = -1; gone <= count - (rights < 2); gone++)
        EACH_PAIR (turn, count + (rights > 1), change, COUNT(changes)) {
            const int t = (turn + count) % (count + (rights > 1));  // first that all have another factor
            const bool is_right = t == count || terms[t].right.number != 0;
            const bool goes = gone >= 0 && gone < count, all = gone == count;
            if ((gone >= 0 && is_right) || (goes && terms[gone].right.number == 0) || change == !is_right) continue;
            for (int k = 0; k < count; k++) {
                const bool comes = k == t && !is_right, left_out = !comes && (k == gone || all);
                const factor x = !comes ? terms[k].right : goes ? terms[gone].right : first;
                const factor by = changes[k == t || t == count ? change : 0];
                is[k] = (factor){left_out ? 0 : x.number * by.number, x.scale + by.scale, x.log2e + by.log2e};
            }
            n = add_sum(f, forms, n, terms, is, count);
        }
    if (add(f, seen, tolerance, forms, n)) WRITE(f->says, format);
}

// One of many sums may fit a few numbers by chance.
static bool explains(const fit *f, int n)
{
    const bool any = n > 0 && n < f->count && (f->count < 16 || f->wrong > 5);
    return any && f->misses[n] <= f->wrong / (f->exact ? 1000 : 50);
}

const form *fit_form(const fit *f)
{
    int first = 0, second = 0;  // by their misses
    for (int n = 1; n < f->count && f->wrong; n++)
        if (!first || f->misses[n] < f->misses[first])
            second = first, first = n;
        else if (!second || f->misses[n] < f->misses[second])
            second = n;
    const bool far = first && second && f->misses[first] <= f->wrong / 10 && f->misses[second] >= 8 * f->misses[first];
    return first && ((far && !f->exact) || explains(f, first)) ? &f->forms[first] : NULL;
}

static void conclude_fit(const fit *f)
{
    const form *is = fit_form(f);
    if (f->pinned && !is) return;
    const bool zero = is && f->zero && strcmp(is->says, "0") == 0;
    const char *gaps = is || !f->others ? f->gaps : f->others;
    for (int n = COUNT(f->by); is && n-- > 0;)
        if (f->by[n][0] && (*f->by[n][0] == '=' ? !strcmp(is->says, f->by[n][0] + 1) : !!strstr(is->says, f->by[n][0])))
            gaps = f->by[n][1];
    const char *const joint = !is ? f->none ? f->none : "" : zero ? f->zero : f->joint ? f->joint : ", which equals ";
    memcpy(e.text, f->shown, sizeof e.text);
    best.relation |=
        find(f->rank, is ? is->says : "", gaps, "%s%s%s", f->says, joint, is && !zero ? is->says : "") && is;
}

void conclude(void)
{
    settle_masks(), settle_softmax(), settle_backward();
    for (int n = 0; n < fit_count; n++)
        if (!noted[n]->mute && *noted[n]->says) conclude_fit(noted[n]);
}

double shares_in(const double *y, double *const *terms, int count, size_t length, double *share)
{
    static double A[MOST_TERMS][MOST_TERMS + 1];
    double left = 0, whole = 1e-300;
    memset(A, 0, sizeof A);
    for (int i = 0; i < count; i++)
        for (size_t n = 0; n < length; n++)
            for (int j = 0; j <= count; j++) A[i][j] += terms[i][n] * (j < count ? terms[j][n] : y[n]);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) {
            const double f = k == i || A[i][i] < 1e-12 ? 0 : A[k][i] / A[i][i];
            for (int j = i; j <= count && f != 0; j++) A[k][j] -= f * A[i][j];
        }
    for (int i = 0; i < count; i++) share[i] = A[i][i] < 1e-12 ? 0 : A[i][count] / A[i][i];
    for (size_t n = 0; n < length; n++) {
        double is = y[n];
        for (int i = 0; i < count; i++) is -= share[i] * terms[i][n];
        left += is * is, whole += y[n] * y[n];
    }
    return sqrt(left / whole);
}

double power(int n, double x, double y)
{
    static const double of[POWERS][2] = {{1, -1},     {LN2, -LN2}, {1, -LN2}, {LN2, -1},
                                         {1, -LOG2E}, {LOG2E, -1}, {-1, 1},   {1, 0}};
    return exp(of[n][0] * x + of[n][1] * y);
}

bool in_bf16(const float *x, size_t count)
{
    bool some = false;
    for (size_t n = 0; n < count; some |= x[n++] != 0)
        if (cut(x[n]) != x[n]) return false;
    return some;
}

double nearly(double seen, double right, double size, bool rounded)
{
    return fabs(seen - right) <= size / 128 && (!rounded || cut(seen) == seen) ? seen : 1e300;
}

const char *overflow_of(double L, double exponent)
{
    const bool is = isinf(L) && L * exponent > 0 && fabs(exponent) > 88 && isfinite(exponent);
    return !is ? ""
               : ": in float32, exp(x) is infinite above 88.7, and 0 below -103.9; subtract the largest exponent first";
}

// Whether O is, but for a factor, the sum of parts with the weights exp(by (L - m)). Lanes may have every n-th part,
// and m of these, and rescale their first part rightly, or so; what they have is merged rightly.
static bool is_merged(double by, double *const *O_of, const double *L_of, double most, int parts, const float *O)
{
    for (int way = 0; way < 12; way++) {
        const int lanes = 1 << way / 2;
        const double of_first = way % 2 ? 1 : by;
        double m[32], xx = 1e-300, xy = 0, yy = 0;
        for (int n = 0; n < parts; n++) m[n % lanes] = n < lanes ? L_of[n] : fmax(m[n % lanes], L_of[n]);
        for (int d = 0; d < e.s->head_dim; d++) {
            double x = 0;
            for (int n = 0; n < parts; n++) {
                const double to = m[n % lanes], weight = (n < lanes ? of_first : by) * (L_of[n] - to);
                x += isfinite(L_of[n]) ? exp(weight + to - most) * O_of[n][d] : 0;
            }
            xx += x * x, xy += x * O[d], yy += pow(O[d], 2);
        }
        if (xy > 0.01 * xx && yy - xy * xy / xx <= 1e-4 * yy) return true;
    }
    return false;
}

static fit fit_parts[2] = {FIT(BY_SUM, "finalize"),
                           FIT(BY_END, "merge", .others = "merge|finalize|weights", .joint = "; ")};
static fit fit_logs[2] = {FIT(BY_SUM, "finalize"), FIT(BY_END, "merge|finalize|weights")};

void mute_merge(void) { fit_parts[0].mute = fit_parts[1].mute = fit_logs[0].mute = fit_logs[1].mute = true; }

bool see_merge(double *const *O_of, const double *L_of, double kept, int parts, const float *O, double L, double slack,
               const char *where)
{
    fit *const sums = &fit_parts[parts > 1], *const logs = &fit_logs[parts > 1];
    if (!has_gap("finalize")) sums->gaps = logs->gaps = "merge";
    double m = -INFINITY, l = 0, off = 0, size = 1e-300;
    for (int n = 0; n < parts; n++) m = fmax(m, L_of[n]);
    if (!isfinite(m)) return true;
    for (int n = 0; n < parts; n++) l += exp(L_of[n] - m);
    for (int d = 0; d < e.s->head_dim; d++) {
        double x = 0;
        for (int n = 0; n < parts; n++) x += exp(L_of[n] - m) / l * O_of[n][d];
        if (fabs(x) < FLT_MAX) off += pow(O[d] - x, 2), size += pow(O[d], 2) + pow(x, 2);
    }
    if (*overflow_of(L, m + log(l)))
        find(logs->rank, "exp(L)", logs->gaps, "L of %s should be %.4g, but is %g%s", where, m + log(l), L,
             overflow_of(L, m + log(l)));
    const bool O_off = !(sqrt(off / size) <= 0.02), L_off = !(fabs(L - m - log(l)) <= slack);
    if (parts == 1 && O_off && L_off) return false;
    if (parts > 2 && wb_has_ranks(e.problem)) return true;  // it may be rounded after each
    const bool of_2 = O_off && parts > 1 && is_merged(LN2, O_of, L_of, m, parts, O);
    const form forms[] = {
        {"", 0},
        {"2^(its L - m) takes the place of exp(its L - m)", of_2},
        {"all parts have the same weight", O_off && parts > 1 && !of_2 && is_merged(0, O_of, L_of, m, parts, O)}};
    see(sums, O_off, 0, forms, COUNT(forms),
        "O of %s is not the sum of its %d partial result%s, each multiplied by exp(its L - m) / l", where, parts,
        parts > 1 ? "s" : "");
    if (O_off && parts > 1) return true;  // what they were merged with was wrong, it may be
    if (parts > 1 || !isfinite(kept)) kept = m;
    see_sum(logs, L, slack, "+ m|+ log(l)", (double[]){kept, m - kept + log(l)},
            "L of %s, merged from %d partial result%s, should be %.4g, but is %.4g", where, parts, parts > 1 ? "s" : "",
            m + log(l), L);
    return true;
}
