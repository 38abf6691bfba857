// cuda_runtime.h - CUDA C++ for the host compiler, run by the CPU execution layer. See workbook/cpu/README.md.
#pragma once

#include "cudacpu/keywords.h"
#include "cudacpu/vectors.h"
#include "cudacpu/runtime_api.h"
#include "cudacpu/launch.h"
#include "cudacpu/sync.h"
#include "cudacpu/tensor_cores.h"
#include "cudacpu/pages.h"
#include "cudacpu/maths.h"
