// errors.cpp - the CUDA runtime's errors: their names, and the last one of this thread.
#include "layer.h"

namespace cudacpu
{
static __thread cudaError_t last_error;

cudaError_t set_error(cudaError_t error)
{
    if (error != cudaSuccess) last_error = error;
    return error;
}
}

using namespace cudacpu;

struct error_text {
    cudaError_t error;
    const char *name, *text;
};

#define ROW(name, number, text) {name, #name, text},
static const error_text error_texts[] = {CUDACPU_ERRORS(ROW)};

static const error_text &text_of(cudaError_t error)
{
    static const error_text unknown = {cudaErrorUnknown, "unrecognized error code", "unrecognized error code"};
    for (const error_text &x : error_texts)
        if (x.error == error) return x;
    return unknown;
}

const char *cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char *cudaGetErrorString(cudaError_t error) { return text_of(error).text; }

cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetLastError()
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
