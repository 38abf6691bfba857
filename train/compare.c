// compare.c - see model.h.
#include "model.h"

#include <math.h>

enum { WQ, WK, WV, WO, WEIGHTS };
static const char *const names[WEIGHTS] = {"dWq", "dWk", "dWv", "dWo"};
// A kernel's rounding is one draw more of those that measure it. In units of their root mean square right kernels came
// to 1.7 at most on twenty sets of weights, and a window that lacks one key of 32 to 3.9 at least
// (problems/capstone/README.md): the factor is the middle.
enum { DRAWS = 4 };
static const double MARGIN = 2.5;
// A bound above this part of a gradient's size says little: on weights that training has left it is 0.06 at most in the
// lesson's table.
static const double COARSE = 0.1;

typedef struct step {
    model *m;
    const unsigned char *text, *target;
    int B, T;
    FILE *table;
    real *want;  // the gradients of naive attention
    int bounds, coarse;
} step;

// All gradients of the step, on the host.
static real *gradients(const step *s, attention by, enum rounding rounding)
{
    model *const m = s->m;
    const attention *const own = m->attention;
    real *const d = malloc(m->at.count * sizeof *d);
    m->attention = &by, naive_rounding = rounding;
    model_loss(m, s->text, s->target, s->B, s->T);
    model_backward(m, s->B, s->T);
    m->attention = own;
    if (!d || *kernel_failure()) FAIL("there are no gradients to compare. %s", kernel_failure());
    from_array(d, m->dp, m->at.count * sizeof *d);
    return d;
}

static double distance(const real *got, const real *want, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) error += pow(got[i] - want[i], 2), size += pow(want[i], 2);
    return sqrt(error / size);
}

// Whether the gradients are right with this problem's kernel in place; says what is wrong otherwise, `culprits` being
// what of the kernel each gradient is made of. They are made from the last layer down, so in the last of the wrong
// layers it is wrong by itself.
static bool compare(step *s, attention by, enum rounding as_kernels, const char *const culprits[WEIGHTS])
{
    char fault[512] = "";
    real *const got = gradients(s, by, ROUNDED), *rounded[DRAWS];
    for (naive_draw = 0; naive_draw < DRAWS; naive_draw++)
        rounded[naive_draw] = gradients(s, naive_attention, as_kernels);
    for (int l = s->m->c.layers - 1; l >= 0; l--) {
        const struct layer_places *const at = &s->m->at.layer[l];
        const size_t begin[] = {at->q, at->k, at->v, at->out, at->up};  // each ends where the next begins
        double error[WEIGHTS], bound[WEIGHTS];
        int worst = -1;
        printf("  %s, layer %d ", by.name, l);
        for (int k = 0; k < WEIGHTS; k++) {
            const size_t n = begin[k + 1] - begin[k];
            error[k] = distance(got + begin[k], s->want + begin[k], n);
            double square = 0;
            for (int i = 0; i < DRAWS; i++) square += pow(distance(rounded[i] + begin[k], s->want + begin[k], n), 2);
            bound[k] = MARGIN * sqrt(square / DRAWS);
            s->bounds++, s->coarse += !(bound[k] <= COARSE);
            // where rounding explains all of a gradient, or it vanishes, none is off
            const bool off = bound[k] < 1 && !(error[k] <= bound[k]),
                       needs_no_backward = k == WO && as_kernels == P_ROUNDED;
            if (off && (worst < 0 || needs_no_backward || error[k] / bound[k] > error[worst] / bound[worst])) worst = k;
            printf("  %s %.4f / %.4f%s", names[k], error[k], bound[k], off ? " OFF" : "    ");
            if (s->table) fprintf(s->table, "%s\t%d\t%s\t%.6f\t%.6f\n", by.name, l, names[k], error[k], bound[k]);
        }
        printf("\n");
        if (worst >= 0 && !*fault)
            snprintf(fault, sizeof fault,
                     "FAIL  With %s, %s of layer %d has a relative error of %.2g; rounding explains at most %.2g: look "
                     "at %s.\n",
                     by.name, names[worst], l, error[worst], bound[worst], culprits[worst]);
    }
    printf("%s", fault);
    for (int i = 0; i < DRAWS; i++) free(rounded[i]);
    free(got);
    return !*fault;
}

bool compare_gradients(model *m, const unsigned char *text, const unsigned char *target, int B, int T,
                       const char *table)
{
    const attention naive = naive_attention, *const kernels = m->attention;
    step s = {m, text, target, B, T, table ? fopen(table, "w") : NULL, NULL, 0, 0};
    if (table && !s.table) FAIL("the table %s cannot be written", table);
    if (table) fprintf(s.table, "problem\tlayer\tgradient\terror\tbound\n");
    printf("Gradients of one step on these weights, with 07 or 09 in naive attention: error / "
           "limit\n");
    s.want = gradients(&s, naive, ROUNDED);
    bool right = compare(&s, (attention){"07", kernels->forward, naive.backward}, P_ROUNDED,
                         (const char *[]){"L", "L", "L", "O"});
    right &= compare(&s, (attention){"09", naive.forward, kernels->backward}, P_AND_DS_ROUNDED,
                     (const char *[]){"dQ", "dK", "dV", ""});
    if (right)
        printf("PASS  Every gradient of the attention weights is as close to that of naive attention as rounding "
               "allows.\n");
    if (s.coarse)
        printf(
            "But on these weights rounding alone may move %d of the %d by more than %g of their size, and hide a bug "
            "of that\nsize. Other weights tell more: train longer, or with another SEED.\n",
            s.coarse, s.bounds, COARSE);
    if (table) fclose(s.table);
    free(s.want);
    return right;
}
