// launches_kernels.cu - launches in the places where people write them: generic lambdas, templates, members. Valid CUDA; each kernel stores
// one number, and tests/launches.c knows which.
#include <cuda_runtime.h>

template <int ROWS_, int D_> struct tile_sizes {
    static constexpr int ROWS = ROWS_, D = D_;
    static constexpr int blocks() { return D / ROWS; }
};
template <class Body> static auto with_sizes(int D, Body body)
{
    if (D == 32) return body(tile_sizes<4, 32>{});
    return body(tile_sizes<8, 64>{});
}

template <int A, int B> __global__ void put_both(int *at) { *at = 100 * A + B; }
template <int A, class T> __global__ void put_sum(T *at, T b) { *at = A + b; }
__global__ void overloaded(int *at) { *at = 3; }
__global__ void overloaded(int *at, int value) { *at = value; }

// Kernels named by what the lambdas around the launch were called with, at three depths; overloaded, deduced, kept in a variable.
// Returns how many numbers it wrote.
extern "C" int launches_in_lambdas(int *device, int D)
{
    const int n = 7;
    return with_sizes(D, [&](auto s) {
        int *at = device;
        constexpr int next = s.ROWS + 1;
        put_both<s.ROWS, s.D><<<1, 1>>>(at++);
        put_both<decltype(s)::ROWS, s.blocks()><<<s.blocks(), 1>>>(at++);
        put_both<next, n><<<1, 1>>>(at++);
        put_sum<s.ROWS><<<1, 1>>>(at++, s.D);
        overloaded<<<1, 1>>>(at++);
        overloaded<<<1, 1>>>(at++, n);
        const auto kept = put_both<s.D, s.ROWS>;
        constexpr auto known = put_both<s.D, n>;
        kept<<<1, 1>>>(at++);
        known<<<1, 1>>>(at++);
        const auto inner = [&](auto t) {
            put_both<s.ROWS, t.D><<<1, 1>>>(at++);
            put_both<next, t.ROWS><<<1, 1>>>(at++);
            put_sum<t.ROWS><<<1, 1>>>(at++, s.D + n);
            overloaded<<<1, 1>>>(at++, t.D);
            kept<<<1, 1>>>(at++);
            const auto innermost = [=](auto u, int *x) {
                put_both<s.ROWS + t.ROWS, u.D><<<1, 1>>>(x);
                put_sum<u.D><<<1, 1>>>(x + 1, t.D);
            };
            innermost(s, at);
            at += 2;
            const auto plain = [&] { put_both<t.D, s.ROWS><<<1, 1>>>(at++); };
            plain();
        };
        inner(tile_sizes<2, 16>{});
        return int(at - device);
    });
}

template <class Sizes> struct launcher {
    int *at;
    int n;
    template <int A> void put(Sizes s)
    {
        put_both<A, s.D><<<1, 1>>>(at++);
        put_both<s.ROWS, Sizes::D><<<1, n - 8>>>(at++);
        put_sum<A><<<1, 1>>>(at++, n);
        overloaded<<<1, 1>>>(at++, n);
        const auto again = [=] { put_both<s.D, A><<<1, 1>>>(at); };
        again();
        at++;
    }
};
template <void (*Kernel)(int *)> static void launch_constant(int *at) { Kernel<<<1, 1>>>(at); }
template <class Kernel, class... Arguments> static void launch_any(Kernel kernel, Arguments... arguments)
{
    kernel<<<1, 1>>>(arguments...);
}

extern "C" int launches_in_templates(int *device)
{
    launcher<tile_sizes<4, 32>> l{device, 9};
    l.put<5>({});
    launch_constant<put_both<1, 2>>(l.at++);
    launch_any(put_both<3, 4>, l.at++);
    launch_any(put_sum<5, int>, l.at++, 6);
    return int(l.at - device);
}

// Before 17 clang finds no address of such a kernel (cudacpu/launch.h).
#if defined(__clang__) && __clang_major__ < 17
extern "C" int launches_know_their_kernels(void) { return 0; }
#else
extern "C" int launches_know_their_kernels(void) { return 1; }
#endif

// What is granted to one kernel that a lambda's parameter names is not granted to its neighbours: errors of the one that asked, and of
// two that did not.
template <int A, int B> __global__ void nothing() {}
extern "C" void launches_and_shared_memory(int *errors)
{
    with_sizes(64, [&](auto s) {
        cudaFuncSetAttribute(nothing<s.ROWS, s.D>, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
        nothing<s.ROWS, s.D><<<1, 1, 100000>>>();
        errors[0] = cudaGetLastError();
        nothing<s.D, s.ROWS><<<1, 1, 100000>>>();
        errors[1] = cudaGetLastError();
        const auto inner = [&](auto t) { nothing<s.ROWS, t.D><<<1, 1, 100000>>>(); };
        inner(tile_sizes<2, 16>{});
        errors[2] = cudaGetLastError();
        return 0;
    });
}

extern "C" void launches_results(const int *device, int *numbers, int count)
{
    cudaMemcpy(numbers, device, (size_t)count * sizeof *numbers, cudaMemcpyDeviceToHost);
}
extern "C" int *launches_memory(int count)
{
    int *device = nullptr;
    cudaMalloc(&device, (size_t)count * sizeof *device);
    return device;
}
