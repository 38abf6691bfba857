// e4m3_words.cu - words of e4m3.cuh against loops that anyone can check: numbers, tiles and products of each size that
// there may be; and what the CPU execution layer says of eight bits that are used too early. What the key of 16 does
// with them (weights, sums beside a product, powers of two) its suite proves. Elsewhere than on sm_90 and the layer
// every test is skipped.
#include "e4m3.cuh"
#include "on_hopper.cuh"

// Any e4m3 that is a number and none of the largest, so that sums are small.
static uint8_t noise(void)
{
    dice();
    return (uint8_t)(state >> 33 & 0x80) | (uint8_t)((state >> 40) % 0x50);
}

TestSuite(e4m3, .init = start);

static std::vector<uint8_t> numbers(size_t count)
{
    std::vector<uint8_t> x(count);
    for (uint8_t &each : x) each = noise();
    return x;
}

static tensor_map map_of(const uint8_t *x, int heads, int N, int cols, int rows)
{
    tensor_map map;
    must(describe_e4m3(map, x, heads, N, cols, rows));
    return map;
}

// ------------------------ numbers

__global__ void pack_kernel(uint32_t *out, const float *x)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = e4m3_machine::pack(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
}

// Every bf16 but NaN, and with it every e4m3 and every tie; beyond 448 to 448. As the definition has it
// (case/quantise.c).
Test(e4m3, floats_are_rounded)
{
    std::vector<float> x;
    for (int bits = 0; bits < 65536; bits++) x.push_back((bits & 0x7fff) > 0x7f80 ? 0 : wb_from_bf16((uint16_t)bits));
    std::vector<uint32_t> out(x.size() / 4);
    {
        const on_device<float> x_device(x);
        const on_device<uint32_t> out_device(out);
        pack_kernel<<<64, 256>>>(out_device.at, x_device.at);
    }
    for (size_t i = 0; i < x.size(); i++)
        cr_assert((uint8_t)(out[i / 4] >> 8 * (i % 4)) == wb_to_e4m3(x[i]), "%a became %02x, not %02x", x[i],
                  out[i / 4] >> 8 * (i % 4) & 255, wb_to_e4m3(x[i]));
}

// ------------------------ tiles

template <int Cols> static void check_loads_of()
{
    const auto load = [](uint8_t *out, const uint8_t *x, int row, int head) {
        const auto kernel = load_kernel<e4m3_tile<64, Cols>, uint8_t, Cols, e4m3_tile<64, Cols>::panel>;
        kernel<<<1, 128, sizeof(one_tile<e4m3_tile<64, Cols>>)>>>(out, map_of(x, LOAD_HEADS, LOAD_ROWS, Cols, 64), row,
                                                                  head);
    };
    check_loads<Cols>(numbers(LOAD_HEADS * LOAD_ROWS * Cols), load);
}
Test(e4m3, tiles_of_every_width)
{
    check_loads_of<32>(), check_loads_of<64>(), check_loads_of<96>(), check_loads_of<128>(), check_loads_of<256>();
}

// ------------------------ products

template <int Cols, int Depth> using factors = two_factors<e4m3_tile<64, Depth>, e4m3_tile<Cols, Depth>>;

// c = a b^T, then c += a b^T with a in registers, whose columns stand for others: so b has its own in that order there.
template <int Cols, int Depth> __global__ void product_kernel(float *c_out, float *more_out, const float *a,
                                                              const __grid_constant__ tensor_map a_map,
                                                              const __grid_constant__ tensor_map b_map)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<factors<Cols, Depth> *>(shared);
    fetch(x, a_map, b_map);
    const int row0 = 16 * warp_in_group();
    reg_tile<16, Cols> c;
    mma_ABt_async(c, x.a, x.b);
    products_done<0>(c);
    each(c, [&](float &v, element e) { c_out[(row0 + e.row) * Cols + e.col] = v; });
    reg_tile<16, Depth> left;
    each(left, [&](float &v, element e) { v = a[(row0 + e.row) * Depth + e.col]; });
    e4m3_weights<Depth> w, taken;
    round_to(w, left);
    take_over(taken, w);
    mma_ABt_more_async(c, taken, x.b);
    products_done<0>(c);
    each(c, [&](float &v, element e) { more_out[(row0 + e.row) * Cols + e.col] = v; });
}

// Sums of e4m3 products keep 14 bits of the largest term.
template <int Cols, int Depth> static void check_product(void)
{
    const auto a = numbers(64 * Depth), b = numbers(Cols * Depth);
    std::vector<float> c(64 * Cols), more(64 * Cols), plain;
    for (uint8_t x : a) plain.push_back(wb_from_e4m3(x));
    {
        const on_device<uint8_t> a_device(a.data(), a.size()), b_device(b.data(), b.size());
        const on_device<float> c_device(c), more_device(more), plain_device(plain);
        const auto kernel = product_kernel<Cols, Depth>;
        const size_t bytes = sizeof(factors<Cols, Depth>);
        allow(kernel, bytes);
        kernel<<<1, 128, bytes>>>(c_device.at, more_device.at, plain_device.at, map_of(a_device.at, 1, 64, Depth, 64),
                                  map_of(b_device.at, 1, Cols, Depth, Cols));
    }
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < Cols; j++) {
            double once = 0, again = 0, terms = 0;
            for (int k = 0; k < Depth; k++) {
                const double left = wb_from_e4m3(a[i * Depth + k]);
                const double of_place =
                    wb_from_e4m3(b[j * Depth + wb_fp8_place(k)]);  // column k of a is that of the product
                once += left * wb_from_e4m3(b[j * Depth + k]);
                again += left * of_place;
                terms += fabs(left) * (fabs(of_place) + fabs(wb_from_e4m3(b[j * Depth + k])));
            }
            expect(c[i * Cols + j], once, 0x1p-9 * terms, "C", i, j);
            expect(more[i * Cols + j], once + again, 0x1p-8 * terms, "more", i, j);
        }
}
Test(e4m3, products)
{
    check_product<64, 32>(), check_product<64, 64>(), check_product<64, 128>(), check_product<64, 256>();
    check_product<128, 64>(), check_product<128, 128>(), check_product<16, 128>(), check_product<96, 96>();
    check_product<256, 64>();
}

// ------------------------ what the CPU execution layer says of mistakes

#define HAZARDS(X)                                                                                                     \
    X(WEIGHTS_CHANGED_IN_FLIGHT, "registers changed in flight", "the weights of this product", "mma_ABt_more_async")   \
    X(TAKEN_OVER_IN_FLIGHT, "registers changed in flight", "the weights of this product", "mma_ABt_more_async")        \
    X(TILE_CHANGED_IN_FLIGHT, "tile changed in flight", "tile changed while this product", "mma_ABt_more_async")       \
    X(TILE_NOT_WAITED_FOR, "tile used before it arrived", "has not waited for it", "mma_ABt_more_async")
#define NAME(name, ...) name,
enum e4m3_hazard { NOTHING_WRONG, HAZARDS(NAME) };

struct hazard_tile {  // here, where reports take its names from
    e4m3_tile<64, 64> tile;
    struct signal full;
};

__global__ void hazard_kernel(float *out, const __grid_constant__ tensor_map map, e4m3_hazard chosen)
{
#ifdef __CUDACC__
    constexpr e4m3_hazard wrong = NOTHING_WRONG;  // a GPU is not asked
    (void)chosen;
#else
    const e4m3_hazard wrong = chosen;
#endif
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<hazard_tile *>(shared);
    begin(x.full, 1);
    if (threadIdx.x == 0) load_async(x.tile, map, 0, 0, x.full);
    __syncthreads();
    if (wrong != TILE_NOT_WAITED_FOR) x.full.wait(0);
    reg_tile<16, 64> S, c = {};
    each(S, [](float &v, element e) { v = (float)(e.col % 3); });
    e4m3_weights<64> P, next;
    row_vec<16> one, zero;
    fill(one, 1.0f);
    fill(zero, 0.0f);
    exponentials(P, S, one, zero);
    exponentials(next, S, one, one);
    mma_ABt_more_async(c, P, x.tile);
    if (wrong == WEIGHTS_CHANGED_IN_FLIGHT) exponentials(P, S, one, one);
    if (wrong == TAKEN_OVER_IN_FLIGHT) take_over(P, next);
    if (wrong == TILE_CHANGED_IN_FLIGHT && threadIdx.x == 0) x.tile.at[0][63][63].bits ^= 1;
    products_done<0>(c);
    each(c, [&](float &v, element e) { out[(16 * warp_in_group() + e.row) * 64 + e.col] = v; });
}

static int wrong;  // in what runs apart
static void run_hazard(void)
{
    const auto b = numbers(64 * 64);
    std::vector<float> out(64 * 64);
    {
        const on_device<uint8_t> b_device(b.data(), b.size());
        const on_device<float> out_device(out);
        hazard_kernel<<<1, 128, sizeof(hazard_tile)>>>(out_device.at, map_of(b_device.at, 1, 64, 64, 64),
                                                       (e4m3_hazard)wrong);
    }
    for (int i = 0; i < 64 * 64; i++) {
        double want = 0, terms = 0;
        for (int k = 0; k < 64; k++) {
            const double term = ldexp(1, k % 3) * wb_from_e4m3(b[i % 64 * 64 + wb_fp8_place(k)]);
            want += term, terms += fabs(term);
        }
        expect(out[i], want, 0x1p-9 * terms, "C", i / 64, i % 64);
    }
}

Test(e4m3, nothing_wrong)
{
    wrong = NOTHING_WRONG;
    run_hazard();
}

#define SAYS(hazard, kind, words, line)                                                                                \
    Test(e4m3, says_##hazard) { wrong = hazard, check_report(run_hazard, kind, words, line); }
HAZARDS(SAYS)
