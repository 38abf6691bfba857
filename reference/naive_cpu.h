// naive_cpu.h - attention as it is written without tiling: the baseline of problem 01.
#pragma once

#include "workbook.h"

// Same arguments, results and errors as tiled_attention. Holds one head's whole score matrix, 4 Nq Nk bytes, in memory;
// WB_OUT_OF_MEMORY if there is no room for it. OpenBLAS and the softmax use all threads.
wb_status naive_cpu(float *O, float *L, const float *Q, const float *K, const float *V, const attention_shape *shape);
