#error "mma.h (wmma) needs a GPU: put it under #ifdef __CUDACC__, or use the matrix products of workbook/words/tile.cuh"
