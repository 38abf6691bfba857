// tile_kernels.cu - see tile_kernels.h.
#include "tile_kernels.h"
#include "on_device.cuh"

#include <stdio.h>
#include <stdlib.h>

static void no_such_size(const char *what, int rows, int cols, int depth)
{
    fprintf(stderr, "tile_kernels: %s of %d x %d x %d is not compiled in\n", what, rows, cols, depth);
    exit(1);
}

// Copies a whole tile element by element: the tests of products do not rest on load_async.
template <int Rows, int Cols> __device__ void copy(smem_tile<Rows, Cols> &tile, const bf16 *src)
{
    for (int i = threadIdx.x; i < Rows * Cols; i += blockDim.x) tile.at[i / Cols][i % Cols] = src[i];
}

// ------------------------------------------------------------------------------------------------------------- products

template <int Rows, int Cols, int Depth> struct product_tiles {
    smem_tile<2 * Rows, Depth> A_smem;
    smem_tile<Depth, Cols> B_smem;
    smem_tile<Cols, Depth> Bt_smem;
};

template <int Rows, int Cols, int Depth>
__global__ void product_kernel(tile_form form, const bf16 *A, const float *A_float, const bf16 *B, float *C)
{
    extern __shared__ uint4 shared[];
    auto &[A_smem, B_smem, Bt_smem] = *reinterpret_cast<product_tiles<Rows, Cols, Depth> *>(shared);
    const int row0 = warp_id() * Rows;
    if (form == TILE_ABt)
        copy(Bt_smem, B);
    else
        copy(B_smem, B);
    copy(A_smem, A);  // in every form, since it is loaded as an operand below
    __syncthreads();

    operand<Rows, Depth> A_reg;
    load(A_reg, A_smem, row0);
    reg_tile<Rows, Depth> A_tile;
    reg_tile<Rows, Cols> C_tile;
    each(A_tile, [&](float &x, element e) { x = A_float[(row0 + e.row) * Depth + e.col]; });
    each(C_tile, [&](float &x, element e) { x = C[(row0 + e.row) * Cols + e.col]; });
    switch (form) {
    case TILE_ABt: mma_ABt(C_tile, A_reg, Bt_smem); break;
    case TILE_AB_REGISTERS: mma_AB(C_tile, A_tile, B_smem); break;
    case TILE_AB_OPERAND: mma_AB(C_tile, A_reg, B_smem); break;
    }
    each(C_tile, [&](float &x, element e) { C[(row0 + e.row) * Cols + e.col] = x; });
}

template <int Rows, int Cols, int Depth> static bool product(tile_form form, int rows, int cols, int depth,
                                                             const uint16_t *a, const float *a_float, const uint16_t *b,
                                                             float *c)
{
    if (rows != Rows || cols != Cols || depth != Depth) return false;
    on_device<bf16> A = as_bf16(a, 2 * Rows * Depth), B = as_bf16(b, Cols * Depth);
    on_device<float> A_float(a_float, 2 * Rows * Depth), C(c, 2 * Rows * Cols);
    const auto kernel = product_kernel<Rows, Cols, Depth>;
    const size_t bytes = sizeof(product_tiles<Rows, Cols, Depth>);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "shared memory");
    kernel<<<1, 64, bytes>>>(form, A.at, A_float.at, B.at, C.at);
    return true;
}

void tile_product(tile_form form, int rows, int cols, int depth, const uint16_t *a, const float *a_float,
                  const uint16_t *b, float *c)
{
    if (!(product<16, 16, 16>(form, rows, cols, depth, a, a_float, b, c) ||
          product<16, 128, 16>(form, rows, cols, depth, a, a_float, b, c) ||
          product<16, 32, 128>(form, rows, cols, depth, a, a_float, b, c) ||
          product<32, 64, 64>(form, rows, cols, depth, a, a_float, b, c) ||
          product<32, 48, 128>(form, rows, cols, depth, a, a_float, b, c) ||
          product<32, 128, 48>(form, rows, cols, depth, a, a_float, b, c) ||
          product<48, 16, 80>(form, rows, cols, depth, a, a_float, b, c)))
        no_such_size("a product", rows, cols, depth);
}

// -------------------------------------------------------------------------------------------------------------- layouts

template <int Rows, int Cols> __global__ void each_kernel(const float *row_values, int rows_there,
                                                          const float *col_values, int cols_there, tile_visit *visits)
{
    row_vec<Rows> of_row;
    col_vec<Cols> of_col;
    load(of_row, row_values, rows_there, -1);
    load(of_col, col_values, cols_there, -1);
    reg_tile<Rows, Cols> tile;
    each(tile, [&](float &x, element e) { x = e.row * Cols + e.col; });
    each(tile, [&](float &x, element e) {
        tile_visit &visit = visits[e.row * Cols + e.col];
        atomicAdd(&visit.times, 1);
        visit.lane = lane_id();
        visit.self = tile[e] == x && x == e.row * Cols + e.col;
        visit.row_value = of_row[e];
        visit.col_value = of_col[e];
    });
}

template <int Rows, int Cols> static bool each_of(int rows, int cols, const float *row_values, int rows_there,
                                                  const float *col_values, int cols_there, tile_visit *visits)
{
    if (rows != Rows || cols != Cols) return false;
    on_device<float> of_row(row_values, rows_there), of_col(col_values, cols_there);
    on_device<tile_visit> out(visits, Rows * Cols);
    each_kernel<Rows, Cols><<<1, 32>>>(of_row.at, rows_there, of_col.at, cols_there, out.at);
    return true;
}

void tile_each(int rows, int cols, const float *row_values, int rows_there, const float *col_values, int cols_there,
               tile_visit *visits)
{
    if (!(each_of<16, 16>(rows, cols, row_values, rows_there, col_values, cols_there, visits) ||
          each_of<32, 48>(rows, cols, row_values, rows_there, col_values, cols_there, visits) ||
          each_of<16, 128>(rows, cols, row_values, rows_there, col_values, cols_there, visits)))
        no_such_size("each", rows, cols, 0);
}

// ----------------------------------------------------------------------------------------------------- loads and stores

template <int Threads, int Rows, int Cols> __global__ void load_kernel(const bf16 *src, int rows_there, bf16 *dst)
{
    __shared__ smem_tile<Rows, Cols> tile;
    for (int i = threadIdx.x; i < Rows * Cols; i += Threads) tile.at[i / Cols][i % Cols] = __float2bfloat16(NAN);
    __syncthreads();  // the NaNs are there before any load
    load_async<Threads>(tile, src, rows_there);
    loads_issued();
    loads_arrived<0>();
    __syncthreads();  // everybody's part has arrived
    for (int i = threadIdx.x; i < Rows * Cols; i += Threads) dst[i] = tile.at[i / Cols][i % Cols];
}

template <int Threads, int Rows, int Cols>
static bool load_of(int threads, int rows, int cols, const uint16_t *src, int rows_there, uint16_t *dst)
{
    if (threads != Threads || rows != Rows || cols != Cols) return false;
    const int rows_in_src = rows_there < 0 ? 0 : rows_there;
    on_device<bf16> in = as_bf16(src, (size_t)rows_in_src * Cols), out = as_bf16(dst, Rows * Cols);
    load_kernel<Threads, Rows, Cols><<<1, Threads>>>(in.at, rows_there, out.at);
    return true;
}

void tile_load(int threads, int rows, int cols, const uint16_t *src, int rows_there, uint16_t *dst)
{
    if (!(load_of<32, 16, 16>(threads, rows, cols, src, rows_there, dst) ||
          load_of<128, 48, 128>(threads, rows, cols, src, rows_there, dst) ||
          load_of<128, 64, 64>(threads, rows, cols, src, rows_there, dst) ||
          load_of<128, 128, 16>(threads, rows, cols, src, rows_there, dst) ||
          load_of<256, 16, 32>(threads, rows, cols, src, rows_there, dst) ||
          load_of<64, 48, 32>(threads, rows, cols, src, rows_there, dst)))
        no_such_size("load_async", rows, cols, threads);
}

template <int Rows, int Cols> __global__ void store_kernel(const float *tile, const float *values, int rows_there,
                                                           int row0, bf16 *dst, bf16 *smem, float *vec)
{
    __shared__ smem_tile<2 * Rows, Cols> S_smem;
    copy(S_smem, smem);
    __syncthreads();  // its first contents are there
    reg_tile<Rows, Cols> T;
    row_vec<Rows> v;
    each(T, [&](float &x, element e) { x = tile[e.row * Cols + e.col]; });
    load(v, values, Rows, 0);
    store(dst, T, rows_there);
    store(S_smem, row0, T);
    store(vec, v, rows_there);
    __syncthreads();  // all lanes have stored
    for (int i = threadIdx.x; i < 2 * Rows * Cols; i += 32) smem[i] = S_smem.at[i / Cols][i % Cols];
}

template <int Rows, int Cols> static bool store_of(int rows, int cols, const float *tile, const float *values,
                                                   int rows_there, int row0, uint16_t *dst, uint16_t *smem, float *vec)
{
    if (rows != Rows || cols != Cols) return false;
    on_device<float> T(tile, Rows * Cols), v(values, Rows), vec_out(vec, Rows);
    on_device<bf16> out = as_bf16(dst, Rows * Cols), smem_out = as_bf16(smem, 2 * Rows * Cols);
    store_kernel<Rows, Cols><<<1, 32>>>(T.at, v.at, rows_there, row0, out.at, smem_out.at, vec_out.at);
    return true;
}

void tile_store(int rows, int cols, const float *tile, const float *values, int rows_there, int row0, uint16_t *dst,
                uint16_t *smem, float *vec)
{
    if (!(store_of<16, 16>(rows, cols, tile, values, rows_there, row0, dst, smem, vec) ||
          store_of<32, 64>(rows, cols, tile, values, rows_there, row0, dst, smem, vec) ||
          store_of<32, 128>(rows, cols, tile, values, rows_there, row0, dst, smem, vec)))
        no_such_size("store", rows, cols, 0);
}

// ----------------------------------------------------------------------------------------------------------------- rows

// y[row, lane] = v, for the rows that this lane holds.
template <int Rows> __device__ void by_lane(float *y, const row_vec<Rows> &v)
{
    reg_tile<Rows, 16> rows;
    each(rows, [&](float &, element e) { y[e.row * 32 + lane_id()] = v[e]; });
}

template <int Rows, int Cols> __global__ void rows_kernel(const float *tile, const float *factors, float *max,
                                                          float *sum, float *parts_max, float *parts_sum, float *scaled)
{
    reg_tile<Rows, Cols> T;
    row_vec<Rows> f;
    each(T, [&](float &x, element e) { x = tile[e.row * Cols + e.col]; });
    load(f, factors, Rows, 0);
    by_lane(max, row_max(T));
    by_lane(sum, row_sum(T));
    by_lane(parts_max, row_max_part(T));
    by_lane(parts_sum, row_sum_part(T));
    reg_tile<Rows, Cols> divided = T;
    scale_rows(T, f);
    each(T, [&](float &x, element e) { scaled[e.row * Cols + e.col] = x; });
    divide_rows(divided, f);
    each(divided, [&](float &x, element e) { scaled[(Rows + e.row) * Cols + e.col] = x; });
}

template <int Rows, int Cols> static bool rows_of(int rows, int cols, const float *tile, const float *factors,
                                                  float *max, float *sum, float *parts_max, float *parts_sum,
                                                  float *scaled)
{
    if (rows != Rows || cols != Cols) return false;
    on_device<float> T(tile, Rows * Cols), f(factors, Rows), scaled_out(scaled, 2 * Rows * Cols);
    on_device<float> max_out(max, Rows * 32), sum_out(sum, Rows * 32);
    on_device<float> parts_max_out(parts_max, Rows * 32), parts_sum_out(parts_sum, Rows * 32);
    rows_kernel<Rows, Cols>
        <<<1, 32>>>(T.at, f.at, max_out.at, sum_out.at, parts_max_out.at, parts_sum_out.at, scaled_out.at);
    return true;
}

void tile_rows(int rows, int cols, const float *tile, const float *factors, float *max, float *sum, float *parts_max,
               float *parts_sum, float *scaled)
{
    if (!(rows_of<16, 16>(rows, cols, tile, factors, max, sum, parts_max, parts_sum, scaled) ||
          rows_of<32, 48>(rows, cols, tile, factors, max, sum, parts_max, parts_sum, scaled) ||
          rows_of<16, 128>(rows, cols, tile, factors, max, sum, parts_max, parts_sum, scaled)))
        no_such_size("rows", rows, cols, 0);
}

__global__ void algebra_kernel(const float *a, const float *b, float *y, int *above)
{
    row_vec<16> p, q, constant;
    load(p, a, 16, 0);
    load(q, b, 16, 0);
    fill(constant, 3);
    store(y, p + q, 16);
    store(y + 16, p - q, 16);
    store(y + 32, p * q, 16);
    store(y + 48, p * 3.0f, 16);
    store(y + 64, p + constant, 16);
    store(y + 80, max(p, q), 16);
    store(y + 96, exp2(p), 16);
    store(y + 112, log2(q), 16);
    above[lane_id()] = any_above(p, q);
}

void tile_algebra(const float *a, const float *b, float *y, int *above)
{
    on_device<float> p(a, 16), q(b, 16), out(y, 8 * 16);
    on_device<int> above_out(above, 32);
    algebra_kernel<<<1, 32>>>(p.at, q.at, out.at, above_out.at);
}
