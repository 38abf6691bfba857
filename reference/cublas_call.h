// cublas_call.h - cuBLAS, and WB_CUDA's twin for its calls.
#pragma once

#include "workbook.h"

#include <cublas_v2.h>

// Leaves the surrounding function with a status if a call of cuBLAS fails.
#define WB_CUBLAS(call) \
    do { \
        const cublasStatus_t wb_status_ = (call); \
        if (wb_status_ != CUBLAS_STATUS_SUCCESS) \
            return wb_fail(WB_DEVICE_ERROR, "%s:%d: %s: %s", __FILE__, __LINE__, #call, \
                           cublasGetStatusString(wb_status_)); \
    } while (0)
