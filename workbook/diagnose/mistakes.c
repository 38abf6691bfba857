// mistakes.c - what a kernel with a mistake returns: which of the models computes which row.
#include "mistakes_model.h"

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
    const attention_shape *s = in->shape;
    if (in->problem->signature == WB_BACKWARD && (output == 1 || output == 2)) {
        key_row(in, k, (int)(row / (size_t)s->kv_len), (int)(row % (size_t)s->kv_len),
                (output == 1) != k->dK_and_dV_swapped, out);
        return;
    }
    int i = (int)(row % (size_t)s->q_len), bh = (int)(row / (size_t)s->q_len), b = bh / s->q_heads, h = bh % s->q_heads;
    if (k->layout & (output == 0 ? LAYOUT_O : LAYOUT_L)) {  // what stands in row i of head h is of another
        const int n = h * s->q_len + i;
        i = n / s->q_heads, h = n % s->q_heads;
    }
    if (in->problem->signature == WB_FORWARD && k->parts)
        merge_row(in, k, b, h, i, output == 0, out);
    else if (in->problem->signature == WB_FORWARD)
        forward_rows(in, k, b, h, i, count, output == 0, out);
    else if (output == 0)
        query_row(in, k, b, h, i, out);
    else {
        double size;
        out->value[0] = delta_of(in, k, b, h, i, &size);
        out->tolerance[0] = k->writes == WRITES_NO_DELTA ? MODEL_UNWRITTEN : tolerance_delta(size, s->head_dim);
    }
}
