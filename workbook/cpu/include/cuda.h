#error "cuda.h (the driver API, TMA descriptors) needs a GPU: put it under #ifdef __CUDACC__"
