#error "cuda_fp16.h (__half) needs a GPU: put it under #ifdef __CUDACC__, or use cuda_bf16.h: tensors are bf16 here"
