// on_device.cuh - host memory on the device while a kernel of a test runs.
#pragma once

#include "dice.h"
#include "tile.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <vector>

static inline void check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return;
    fprintf(stderr, "on_device: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

// Device memory with the contents of host memory; the contents go back when it ends, unless they are const.
template <class T> struct on_device {
    T *at;
    T *host;
    size_t bytes;
    bool back;
    on_device(T *of, size_t count) : host(of), bytes(count * sizeof(T)), back(true) { fetch(); }
    on_device(const T *of, size_t count) : host(const_cast<T *>(of)), bytes(count * sizeof(T)), back(false) { fetch(); }
    explicit on_device(std::vector<T> &of) : on_device(of.data(), of.size()) {}
    on_device(const on_device &) = delete;
    ~on_device()
    {
        check(cudaGetLastError(), "launch");
        check(cudaDeviceSynchronize(), "kernel");
        if (back) check(cudaMemcpy(host, at, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
        check(cudaFree(at), "cudaFree");
    }
    void fetch()
    {
        check(cudaMalloc((void **)&at, bytes ? bytes : 1), "cudaMalloc");
        if (bytes) check(cudaMemcpy(at, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    }
};

static inline on_device<bf16> as_bf16(const std::vector<uint16_t> &host)
{
    return on_device<bf16>(reinterpret_cast<const bf16 *>(host.data()), host.size());
}
static inline on_device<bf16> as_bf16(std::vector<uint16_t> &host)
{
    return on_device<bf16>(reinterpret_cast<bf16 *>(host.data()), host.size());
}
