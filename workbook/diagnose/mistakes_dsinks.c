// mistakes_dsinks.c - what the sum of a sink logit's gradient becomes by a mistake: over the rows of a head in all batches, the weight of the
// sink times delta.
#include "mistakes_model.h"

// exp(s - L) of a row, as this kernel takes it.
static double weight(const kernel *k, const attention_shape *shape, double s, double L)
{
    switch (k->dsinks) {
    case DSINKS_BASE_2: return exp((s - L) * LN2);
    case DSINKS_L_BASE_E: return exp(s - L * LN2);
    case DSINKS_S_BASE_E: return exp(s * LN2 - L);
    case DSINKS_LOG2E: return exp((s - L) * LOG2E);
    case DSINKS_SCALED: return exp(s * shape->scale - L);
    case DSINKS_BOTH_SCALED: return exp((s - L) * shape->scale);
    case DSINKS_APART: return as_float(exp(s)) / as_float(exp(L));
    case DSINKS_NO_L: return as_float(exp(s));
    case DSINKS_NO_S: return as_float(exp(-L));
    case DSINKS_IN_FRONT: return as_float(exp(s)) * as_float(exp(-L));
    case DSINKS_NO_WEIGHT: return 1;
    case DSINKS_REST: return 1 - exp(s - L);
    case DSINKS_OVER_REST: return exp(s - L) / (1 - exp(s - L));
    case DSINKS_EXPONENT: return s - L;
    default: return exp(s - L);
    }
}

// Whether the kernel takes row i of batch b; thread i % threads does.
static bool takes(const kernel *k, const attention_shape *s, int b, int i)
{
    const int thread = i % k->BC;
    switch (k->dsinks) {
    case DSINKS_FIRST_BATCH: return b == 0;
    case DSINKS_LAST_BATCH: return b == s->batch - 1;
    case DSINKS_FIRST_ROWS: return i < k->BC;
    case DSINKS_LAST_ROWS: return i >= (s->q_len - 1) / k->BC * k->BC;
    case DSINKS_WHOLE_ROUNDS: return i < s->q_len / k->BC * k->BC;
    case DSINKS_FIRST_THREAD: return thread == 0;
    case DSINKS_FIRST_WARP: return thread < 32;
    case DSINKS_ONE_LANE: return thread % 32 == 0;
    case DSINKS_HALF_WARPS: return thread % 32 < 16;
    case DSINKS_HALF_OF_WARPS: return thread < k->BC / 2;
    case DSINKS_EVEN_LANES: return thread % 2 == 0;
    case DSINKS_LAST_ROW_LOST: return i < s->q_len - 1;
    case DSINKS_FIRST_ROW_LOST: return i > 0;
    default: return true;
    }
}

void dsinks_row(const model_inputs *in, const kernel *k, int h, model_row *out)
{
    const attention_shape *shape = in->shape;
    const int Hq = shape->q_heads, Hkv = shape->kv_heads, N = shape->q_len, group = Hq / Hkv;
    const int logit = k->dsinks == DSINKS_OF_KEY_HEAD ? h / group : k->dsinks == DSINKS_OF_FIRST_HEAD ? 0 : h;
    const double s = in->sink_logits[logit];
    double sum = 0, size = 0, exponent = 0, cancel = 0, of_threads[1024] = {0};  // the last of DSINKS_SUM_IN_BF16
    out->tolerance[0] = MODEL_UNWRITTEN;
    if (k->dsinks == DSINKS_KEY_HEADS && h >= Hkv) return;
    for (int b = 0; b < shape->batch; b++)
        for (int i = 0; i < N; i++) {
            const int heads = k->dsinks == DSINKS_BATCH_OF_KEY_HEADS || k->dsinks == DSINKS_KEY_HEADS ? Hkv : Hq;
            const int batch = k->dsinks == DSINKS_ROWS_OF_FIRST_BATCH ? 0 : b;
            const long long row = ((long long)batch * heads + h) * N + i;
            double terms, delta = delta_of(in, k, row, &terms);
            model_pairs++;
            if (!takes(k, shape, b, i)) continue;
            if (k->dsinks == DSINKS_NO_DELTA) delta = terms = 1;
            const double L = in->L[row], P = weight(k, shape, s, L);
            double *thread = &of_threads[i % 1024];
            *thread = as_bf16(*thread - P * delta);
            sum -= P * delta;
            size += fabs(P * delta);
            exponent += s == -INFINITY ? 0 : fabs(P * delta) * (fabs(s) + fabs(L));
            cancel += fabs(P) * terms;
        }
    if (k->dsinks == DSINKS_SUM_IN_BF16) {
        sum = 0;
        for (int t = 0; t < 1024; t++) sum += of_threads[t];
    }
    double factor = 1;
    switch (k->dsinks) {
    case DSINKS_PLUS: factor = -1; break;
    case DSINKS_TIMES_SCALE: factor = shape->scale; break;
    case DSINKS_TIMES_LOG2E: factor = LOG2E; break;
    case DSINKS_TIMES_LN2: factor = LN2; break;
    case DSINKS_MEAN: factor = 1.0 / shape->batch / N; break;
    case DSINKS_MEAN_OF_ROWS: factor = 1.0 / N; break;
    case DSINKS_MEAN_OF_BATCHES: factor = 1.0 / shape->batch; break;
    case DSINKS_32_TIMES: factor = 32; break;
    case DSINKS_0_IS_NONE: factor = s != 0; break;
    default: break;
    }
    out->value[0] = as_float(sum * factor);
    out->tolerance[0] =
        fabs(factor) * tolerance_dsink(size, exponent, cancel, shape->head_dim, (double)shape->batch * N);
    if (k->dsinks == DSINKS_BF16) out->value[0] = as_bf16(out->value[0]), out->tolerance[0] += U_BF16 * fabs(sum);
}
