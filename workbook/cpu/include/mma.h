#error "mma.h (wmma) needs a GPU: put it under #ifdef __CUDACC__, or use the products of workbook/words/tile.cuh"
