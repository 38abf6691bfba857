// mistakes.c - what a kernel with a mistake returns: which of the models computes which row.
#include "mistakes_model.h"

_Thread_local long long model_pairs;

int model_group(const model_inputs *in, const kernel *k)
{
    return in->problem->signature == WB_FORWARD && k->slack > 0 ? k->ROWS : 1;
}

void model_rows(const model_inputs *in, const kernel *k, int output, size_t row, int count, model_row *out)
{
    if (in->problem->signature == WB_ROW_SUM) {
        sum_row(in, k, (int)row, out);
        return;
    }
    if (in->problem->signature == WB_DECODE || in->problem->signature == WB_BLOCK_MASK) {
        (in->problem->signature == WB_DECODE ? decode_row : listed_row)(in, k, row, output == 0, out);
        return;
    }
    const attention_shape *s = in->shape;
    if (in->problem->signature == WB_BACKWARD && (output == 1 || output == 2)) {
        key_row(in, k, (int)(row / (size_t)s->kv_len), (int)(row % (size_t)s->kv_len), output == 1, out);
        return;
    }
    if (in->problem->signature == WB_BACKWARD && in->problem->sink_logits && output == 3) {
        dsinks_row(in, k, (int)row, out);
        return;
    }
    const int i = (int)(row % (size_t)s->q_len), head = (int)(row / (size_t)s->q_len);
    if (in->problem->signature == WB_FORWARD)
        forward_rows(in, k, head / s->q_heads, head % s->q_heads, i, count, output == 0, out);
    else if (output == 0)
        query_row(in, k, head / s->q_heads, head % s->q_heads, i, out);
    else {
        double size;
        out->value[0] = delta_of(in, k, (long long)row, &size);
        out->tolerance[0] = tolerance_delta(size, s->head_dim);
    }
}
