// launch_forms.cu - kernel<<<...>>>(...) compiles wherever nvcc takes it, by every compiler that the workbook knows,
// and starts the right kernel with the right arguments: in the places where people write launches, generic lambdas,
// templates, members. Valid CUDA; each kernel stores one number.
#include <criterion/criterion.h>
#include <cuda_runtime.h>
#include <vector>

// That f, given an array on the device, writes these numbers, and says how many.
template <class F> static void expect_numbers(F f, const std::vector<int> &want)
{
    int *device = nullptr;
    std::vector<int> got(want.size());
    cudaMalloc(&device, 32 * sizeof *device);
    cr_assert(f(device) == (int)want.size(), "other than %zu launches", want.size());
    cudaMemcpy(got.data(), device, got.size() * sizeof(int), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < want.size(); i++) cr_expect(got[i] == want[i], "launch %zu stored %d", i, got[i]);
    cudaFree(device);
}

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

// Kernels named by what the lambdas around the launch were called with, at three depths; overloaded, deduced, kept in a
// variable. Returns how many numbers it wrote.
static int launches_in_lambdas(int *device, int D)
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
        overloaded  // over many lines, with words
            <<<1,   // >>> is not the end
               1>>>(at++, /* of two, */ n);
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

Test(launches, kernels_named_by_parameters_of_the_lambdas_around_them)
{
    expect_numbers([](int *device) { return launches_in_lambdas(device, 32); },
                   {432, 408, 507, 36, 3, 7, 3204, 3207, 416, 502, 41, 16, 3204, 632, 48, 1604});
    expect_numbers([](int *device) { return launches_in_lambdas(device, 64); },
                   {864, 808, 907, 72, 3, 7, 6408, 6407, 816, 902, 73, 16, 6408, 1064, 80, 1608});
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

namespace inner
{
template <int VALUE, class T> __global__ void put(T *at) { *at = T(VALUE); }
}  // namespace inner
template <int VALUE> static void launch_dependent(int *at)
{
    void (*kernel)(int *) = inner::put<VALUE + 1, int>;
    inner::put<VALUE><<<1, 1>>>(at);  // T is deduced
    kernel<<<1, 1>>>(at + 1);
}
#define PUT(at, value) overloaded<<<1, 1, 0>>>(at, value)

static int launches_by_any_name(int *device)
{
    void (*kernels[2])(int *) = {put_both<0, 2>, inner::put<(8 >> 1), int>};
    launch_dependent<5>(device);
    PUT(device + 2, 7);
    kernels[0]<<<1, 1>>>(device + 3);
    (device ? kernels[1] : kernels[0])<<<1, 1>>>(device + 4);
    return 5;
}

Test(launches, of_a_namespace_a_macro_an_array) { expect_numbers(launches_by_any_name, {5, 6, 7, 2, 4}); }

static int launches_in_templates(int *device)
{
    launcher<tile_sizes<4, 32>> l{device, 9};
    l.put<5>({});
    launch_constant<put_both<1, 2>>(l.at++);
    launch_any(put_both<3, 4>, l.at++);
    launch_any(put_sum<5, int>, l.at++, 6);
    return int(l.at - device);
}

Test(launches, in_templates_and_members)
{
    expect_numbers(launches_in_templates, {532, 432, 14, 9, 3205, 102, 304, 11});
}

// What is granted to one kernel that a lambda's parameter names is not granted to its neighbours.
template <int A, int B> __global__ void nothing() {}

Test(launches, are_told_apart_by_the_kernel_that_they_name)
{
    int errors[3];  // of the one that asked, and of two that did not
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
    cr_expect(errors[0] == cudaSuccess, "requested its shared memory, and got error %d", errors[0]);
#if !defined(__clang__) || __clang_major__ >= 17  // before, clang finds no address of such a kernel (cudacpu/launch.h)
    for (int i = 1; i < 3; i++)
        cr_expect(errors[i] == cudaErrorInvalidValue, "kernel %d never requested shared memory, and got error %d", i,
                  errors[i]);
#endif
}
