// compare.c - see compare.h.
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WQ, WK, WV, WO, WEIGHTS };
static const char *const names[WEIGHTS] = {"dWq", "dWk", "dWv", "dWo"};
static const double MARGIN = 2;  // rounding is no random draw: its errors may add up where those of a draw do not

// All gradients of one step, on the host.
static real *gradients(model *m, const attention *by, const unsigned char *text, const unsigned char *target, int B,
                       int T)
{
    const attention *const own = m->attention;
    real *const d = malloc(m->at.count * sizeof *d);
    if (!d) abort();
    m->attention = by;
    model_loss(m, text, target, B, T);
    model_backward(m, B, T);
    m->attention = own;
    from_array(d, m->dp, m->at.count * sizeof *d);
    return d;
}

static double distance(const real *got, const real *want, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) error += pow(got[i] - want[i], 2), size += pow(want[i], 2);
    return sqrt(error / size);
}

// In words: gradients are made from the last layer down, so what is wrong in the last layer is wrong by itself.
static void explain(const bool off[WEIGHTS], bool last)
{
    const char *const where = last ? "In the last layer" : "In this layer, with those after it right,";
    if (off[WO])
        printf("      %s dWo is off. It needs no gradient of attention, only O: the forward, problem 07, is wrong.\n",
               where);
    else
        printf("      %s dWo is right, and so O is: look at%s%s%s of the backward, problem 09, or at the L of 07.\n",
               where, off[WQ] ? " dQ" : "", off[WK] ? " dK" : "", off[WV] ? " dV" : "");
}

bool compare_gradients(model *m, const unsigned char *text, const unsigned char *target, int B, int T,
                       const char *table)
{
    const config *const c = &m->c;
    const size_t C = (size_t)c->width, QC = (size_t)c->q_heads * c->head_dim * C, KC = QC / c->q_heads * c->kv_heads;
    real *const got = gradients(m, m->attention, text, target, B, T);
    real *const want = gradients(m, &rounded_attention, text, target, B, T);
    real *const shaken = gradients(m, &shaken_attention, text, target, B, T);
    if (*kernel_failure()) {
        printf("FAIL  There are no gradients to compare. %s\n", kernel_failure());
        free(got), free(want), free(shaken);
        return false;
    }
    FILE *const file = table ? fopen(table, "w") : NULL;
    int wrong_layer = -1, wrong = 0, worst = 0;
    bool wrong_off[WEIGHTS] = {false};
    double error[WEIGHTS], bound[WEIGHTS], worst_error = 0, worst_bound = 0;

    printf("Gradients of one step on these weights: how far from those of naive attention / how far they may be\n");
    if (file) fprintf(file, "layer\tgradient\terror\tbound\n");
    for (int l = c->layers - 1; l >= 0; l--) {
        const size_t qkv = m->at.layer[l].qkv;
        const size_t begin[] = {qkv, qkv + QC, qkv + QC + KC, m->at.layer[l].out}, size[] = {QC, KC, KC, QC};
        bool off[WEIGHTS], any = false;
        printf("  layer %d ", l);
        for (int k = 0; k < WEIGHTS; k++) {
            error[k] = distance(got + begin[k], want + begin[k], size[k]);
            bound[k] = MARGIN * distance(shaken + begin[k], want + begin[k], size[k]);
            off[k] = !(error[k] <= bound[k]);
            any = any || off[k];
            printf("  %s %.4f / %.4f%s", names[k], error[k], bound[k], off[k] ? " OFF" : "    ");
            if (file) fprintf(file, "%d\t%s\t%.6f\t%.6f\n", l, names[k], error[k], bound[k]);
        }
        printf("\n");
        if (!any || wrong_layer >= 0) continue;
        wrong_layer = l;
        for (int k = 0; k < WEIGHTS; k++) {
            wrong_off[k] = off[k], wrong += off[k];
            if (!off[k] || (worst_bound > 0 && !(error[k] / bound[k] > worst_error / worst_bound))) continue;
            worst = k, worst_error = error[k], worst_bound = bound[k];
        }
    }
    if (file) fclose(file);
    if (wrong_layer < 0)
        printf("PASS  Every gradient of the attention weights is as near to that of naive attention as rounding lets "
               "it be.\n");
    else {
        printf("FAIL  %s of layer %d is off by %.2g of its size, and rounding explains %.2g%s.\n", names[worst],
               wrong_layer, worst_error, worst_bound, wrong > 1 ? "; it is not the only one" : "");
        explain(wrong_off, wrong_layer == c->layers - 1);
    }
    free(got), free(want), free(shaken);
    return wrong_layer < 0;
}
