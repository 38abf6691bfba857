// quantise.c - a row of floats as int8 and a scale: the definition that problem 14 goes by. See workbook.h.
#include "workbook.h"

#include <float.h>
#include <math.h>

float wb_quantise_row(int8_t *q, const float *x, int count)
{
    float a = 0;
    for (int d = 0; d < count; d++) a = fmaxf(a, fabsf(x[d]));
    const float scale = a / 127;
    const int normal = scale >= FLT_MIN;
    for (int d = 0; d < count; d++) q[d] = normal ? (int8_t)nearbyintf(x[d] / scale) : 0;
    return normal ? scale : 0;
}
