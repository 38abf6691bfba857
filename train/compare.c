// compare.c - see model.h.
#include "model.h"

#include <math.h>

static const double MARGIN = 2;  // rounding is no random draw: its errors may add up where those of a draw do not

// All gradients of one step, on the host.
static real *gradients(model *m, const attention *by, const unsigned char *text, const unsigned char *target, int B,
                       int T)
{
    real *const d = malloc(m->at.count * sizeof *d);
    m->attention = by;
    model_loss(m, text, target, B, T);
    model_backward(m, B, T);
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

bool compare_gradients(model *m, const unsigned char *text, const unsigned char *target, int B, int T,
                       const char *table)
{
    enum { WQ, WK, WV, WO, WEIGHTS };
    static const char *const names[WEIGHTS] = {"dWq", "dWk", "dWv", "dWo"};
    const attention *const kernels = m->attention;
    naive_rounding = ROUNDED;
    real *const want = gradients(m, &naive_attention, text, target, B, T);
    naive_rounding = SHAKEN;
    real *const shaken = gradients(m, &naive_attention, text, target, B, T);
    real *const got = gradients(m, kernels, text, target, B, T);
    FILE *const file = table ? fopen(table, "w") : NULL;
    if (table && !file) FAIL("the table %s cannot be written", table);
    char verdict[1024] = "PASS  Every gradient of the attention weights is as near to that of naive attention as "
                         "rounding lets it be.\n";
    bool right = true;

    printf("Gradients of one step on these weights: how far from those of naive attention / how far they may be\n");
    if (file) fprintf(file, "layer\tgradient\terror\tbound\n");
    // Gradients are made from the last layer down, so what is wrong in the last layer is wrong by itself.
    for (int l = m->c.layers - 1; l >= 0; l--) {
        const struct layer_places *const at = &m->at.layer[l];
        const size_t begin[] = {at->q, at->k, at->v, at->out, at->up};  // each ends where the next begins
        double error[WEIGHTS], bound[WEIGHTS];
        bool off[WEIGHTS];
        int worst = -1, wrong = 0;
        printf("  layer %d ", l);
        for (int k = 0; k < WEIGHTS; k++) {
            error[k] = distance(got + begin[k], want + begin[k], begin[k + 1] - begin[k]);
            bound[k] = MARGIN * distance(shaken + begin[k], want + begin[k], begin[k + 1] - begin[k]);
            off[k] = !(error[k] <= bound[k]);
            wrong += off[k];
            if (off[k] && (worst < 0 || error[k] / bound[k] > error[worst] / bound[worst])) worst = k;
            printf("  %s %.4f / %.4f%s", names[k], error[k], bound[k], off[k] ? " OFF" : "    ");
            if (file) fprintf(file, "%d\t%s\t%.6f\t%.6f\n", l, names[k], error[k], bound[k]);
        }
        printf("\n");
        if (!wrong || !right) continue;
        right = false;
        const int n =
            snprintf(verdict, sizeof verdict,
                     "FAIL  %s of layer %d is off by %.2g of its size, and rounding explains %.2g%s.\n"
                     "      %s dWo is ",
                     names[worst], l, error[worst], bound[worst], wrong > 1 ? "; it is not the only one" : "",
                     l == m->c.layers - 1 ? "In the last layer" : "In this layer, with those after it right,");
        if (off[WO])
            snprintf(verdict + n, sizeof verdict - n,
                     "off. It needs no gradient of attention, only O: the forward, problem 07, is wrong.\n");
        else
            snprintf(verdict + n, sizeof verdict - n,
                     "right, and so O is: look at%s%s%s of the backward, problem 09, or at the L of 07.\n",
                     off[WQ] ? " dQ" : "", off[WK] ? " dK" : "", off[WV] ? " dV" : "");
    }
    if (file) fclose(file);
    free(got), free(want), free(shaken);
    printf("%s", verdict);
    return right;
}
