// on_hopper.cuh - what the tests of hopper.cuh's and e4m3.cuh's words share. Include it after these: it includes
// Criterion, which includes <csignal>, and from there on the word signal is `struct signal`.
#pragma once

#include "hopper.cuh"
#include "in_a_child.h"
#include "case/case.h"
#include "on_device.cuh"

#include <math.h>

// Every test starts from the same numbers.
static uint64_t state;
static inline uint64_t dice(void) { return state = state * 6364136223846793005u + 1442695040888963407u; }

static inline void start(void)
{
    state = 1;
    if (check_hopper("this word") != WB_OK) cr_skip_test("sm_90 or the CPU execution layer is needed");
}

static inline void expect(double got, double want, double tolerance, const char *what, int row, int col)
{
    cr_assert(isfinite(got) && fabs(got - want) <= tolerance, "%s [%d][%d] is %.9g, should be %.9g", what, row, col,
              got, want);
}

static inline void must(wb_status status)
{
    if (status == WB_OK) return;
    fprintf(stderr, "on_hopper: %s\n", wb_last_message());
    exit(1);
}

template <class Kernel> static void allow(Kernel kernel, size_t bytes)
{
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "shared memory");
}

// All threads: this many loads will end in the signal.
TILE_FN void begin(struct signal &full, int loads)
{
    if (threadIdx.x == 0) {
        full.init(loads);
        signals_ready();
    }
    __syncthreads();
}

// ------------------------ tiles as they come

template <class Tile> struct one_tile {
    Tile tile;
    struct signal full;
};
template <class A, class B> struct two_factors {
    A a;
    B b;
    struct signal full;
};

// All threads: both factors, from the first row of the first head on.
template <class A, class B> TILE_FN void fetch(two_factors<A, B> &x, const tensor_map &a_map, const tensor_map &b_map)
{
    begin(x.full, 2);
    if (threadIdx.x == 0) {
        load_async(x.a, a_map, 0, 0, x.full);
        load_async(x.b, b_map, 0, 0, x.full);
    }
    x.full.wait(0);
}

// As the hardware has it: the bits of an address from 16 bytes to a row are exchanged by as many from 128 bytes on.
// A tile is panels side by side, whose rows have Line bytes.
template <class Element, int Line> TILE_FN const Element &element_of(const void *tile, int rows, int row, int col)
{
    const int byte = col * (int)sizeof(Element), at = row * Line + byte % Line;
    const char *panel = reinterpret_cast<const char *>(tile) + byte / Line * rows * Line;
    return *reinterpret_cast<const Element *>(panel + (at ^ (at >> 3 & (Line - 16))));
}

template <class Tile, class Element, int Cols, int Line>
__global__ void load_kernel(Element *out, const __grid_constant__ tensor_map map, int row, int head)
{
    auto &x = shared_memory<one_tile<Tile>>();
    begin(x.full, 1);
    if (threadIdx.x == 0) load_async(x.tile, map, row, head, x.full);
    x.full.wait(0);
    for (int i = threadIdx.x; i < 64 * Cols; i += blockDim.x)
        out[i] = element_of<Element, Line>(&x.tile, 64, i / Cols, i % Cols);
}

// A tile of 64 rows anywhere in x [LOAD_HEADS, LOAD_ROWS, Cols], as shared memory has it, unexchanged: zeros beyond the
// ends of the head. load: launches the kernel above.
enum { LOAD_HEADS = 3, LOAD_ROWS = 100 };
template <int Cols, class Element, class Load> static void check_loads(const std::vector<Element> &x, Load load)
{
    std::vector<Element> out(64 * Cols);
    for (const int first : {0, 36, 37, 99, 100, 1000, -5})
        for (int head = 0; head < LOAD_HEADS; head++) {
            {
                const on_device<Element> x_device(x.data(), x.size()), out_device(out);
                load(out_device.at, x_device.at, first, head);
            }
            for (int i = 0; i < 64 * Cols; i++) {
                const int row = first + i / Cols;
                expect(out[i], row < 0 || row >= LOAD_ROWS ? 0 : x[(head * LOAD_ROWS + row) * Cols + i % Cols], 0,
                       "tile", i / Cols, i % Cols);
            }
        }
}

// ------------------------ what the CPU execution layer says of mistakes

// A report, exit status 66, with this kind, these words, and this line of the kernel.
static inline void check_report(void (*run)(void), const char *kind, const char *words, const char *line)
{
    if (getenv("WB_BACKEND") && strcmp(getenv("WB_BACKEND"), "cuda") == 0)
        cr_skip_test("a GPU says nothing of this: it hangs, or computes");
    check_reported(run_in_a_child(run));
    char first[128];
    snprintf(first, sizeof first, "cudacpu: %s in kernel", kind);
    cr_assert(strstr(printed, first) == printed, "not \"%s\":\n%s", first, printed);
    check_printed(words);
    check_printed(line);
    cr_assert(!strstr(printed, ".cuh:"), "a line of a word, and not the kernel's:\n%s", printed);
}
