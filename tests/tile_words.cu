// tile_words.cu - products and layouts of the tile vocabulary against loops that anyone can check. Loads, stores and what
// is made of rows the suites of the reference solutions prove.
#include "case/case.h"
#include "on_device.cuh"

#include <criterion/criterion.h>
#include <math.h>

// Copies a whole tile element by element: the tests of products do not rest on load_async.
template <int Rows, int Cols> __device__ void copy(smem_tile<Rows, Cols> &tile, const bf16 *src)
{
    for (int i = threadIdx.x; i < Rows * Cols; i += blockDim.x) tile.at[i / Cols][i % Cols] = src[i];
}

// ------------------------ products

enum tile_form {
    TILE_ABt,           // A an operand
    TILE_AB_REGISTERS,  // A a register tile, filled from A_float
    TILE_AB_OPERAND     // A an operand
};

template <int Rows, int Cols, int Depth> struct product_tiles {
    smem_tile<2 * Rows, Depth> A_smem;
    smem_tile<Depth, Cols> B_smem;
    smem_tile<Cols, Depth> Bt_smem;
};

// C += A B with two warps, each with its own half of C [2 Rows, Cols]. A is [2 Rows, Depth], B [Cols, Depth] in ABt,
// else [Depth, Cols].
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

template <int Rows, int Cols, int Depth> static void check_product(tile_form form, const char *name)
{
    std::vector<uint16_t> a(2 * Rows * Depth), b(Cols * Depth);
    std::vector<float> a_float(a.size()), before(2 * Rows * Cols), c;
    for (size_t i = 0; i < a.size(); i++) a_float[i] = (float)noise(), a[i] = wb_to_bf16(a_float[i]);
    for (uint16_t &x : b) x = wb_to_bf16((float)noise());
    for (float &x : before) x = (float)noise();
    c = before;
    {
        const on_device A = as_bf16(a), B = as_bf16(b);
        const on_device A_float(a_float), C(c);
        const auto kernel = product_kernel<Rows, Cols, Depth>;
        const size_t bytes = sizeof(product_tiles<Rows, Cols, Depth>);
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "shared memory");
        kernel<<<1, 64, bytes>>>(form, A.at, A_float.at, B.at, C.at);
    }
    for (int i = 0; i < 2 * Rows; i++)
        for (int j = 0; j < Cols; j++) {
            double want = before[i * Cols + j], terms = fabs(want);
            for (int k = 0; k < Depth; k++) {
                // Registers hold floats and are rounded to bf16 on the way: a holds what they must become.
                const double x = (double)wb_from_bf16(a[i * Depth + k]) *
                                 wb_from_bf16(b[form == TILE_ABt ? j * Depth + k : k * Cols + j]);
                want += x;
                terms += fabs(x);
            }
            const double got = c[i * Cols + j], tolerance = 0x1p-23 * (Depth + 2) * terms;
            cr_assert(isfinite(got) && fabs(got - want) <= tolerance,
                      "%s, %d x %d x %d: element (%d, %d) is %.9g, should be %.9g within %.1e", name, Rows, Cols, Depth,
                      i, j, got, want, tolerance);
        }
}

static void check_products(tile_form form, const char *name)
{
    // 16 x 128 and less stay in registers as operands; 32 x 128 and 48 x 80 are read from shared memory.
    check_product<16, 128, 16>(form, name);
    check_product<16, 32, 128>(form, name);
    check_product<32, 48, 128>(form, name);
    check_product<48, 16, 80>(form, name);
}

Test(tile, mma_ABt) { check_products(TILE_ABt, "A B^T"); }

Test(tile, mma_AB_registers) { check_products(TILE_AB_REGISTERS, "A B, A a register tile"); }

Test(tile, mma_AB_operand) { check_products(TILE_AB_OPERAND, "A B, A an operand"); }

// ------------------------ layouts

// What `each` reports of a tile, one entry per element [Rows, Cols]: how often it was visited, by which lane, whether
// tile[e] was the element itself, and the values that a row_vec loaded from row_values (rows_there of them) and a
// col_vec loaded from col_values (cols_there) have there. Values beyond are -1.
struct tile_visit {
    int times, lane, self;
    float row_value, col_value;
};

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

template <int Rows, int Cols> static void check_each(int rows_there, int cols_there)
{
    std::vector<float> row_values(rows_there), col_values(cols_there);
    std::vector<tile_visit> visits(Rows * Cols);
    for (int i = 0; i < rows_there; i++) row_values[i] = 1000 + i;
    for (int i = 0; i < cols_there; i++) col_values[i] = 2000 + i;
    {
        const on_device of_row(row_values), of_col(col_values);
        const on_device out(visits);
        each_kernel<Rows, Cols><<<1, 32>>>(of_row.at, rows_there, of_col.at, cols_there, out.at);
    }
    for (int row = 0; row < Rows; row++)
        for (int col = 0; col < Cols; col++) {
            const tile_visit v = visits[row * Cols + col];
            cr_assert(v.times == 1, "(%d, %d) of %d x %d was visited %d times", row, col, Rows, Cols, v.times);
            const int lane = row % 8 * 4 + col % 8 / 2;
            cr_assert(v.lane == lane, "(%d, %d) is held by lane %d, should be %d", row, col, v.lane, lane);
            cr_assert(v.self, "tile[e] at (%d, %d) is not the element that each() visits", row, col);
            const float of_row = row < rows_there ? 1000 + row : -1, of_col = col < cols_there ? 2000 + col : -1;
            cr_assert(v.row_value == of_row, "row_vec at (%d, %d) is %g, should be %g", row, col, v.row_value, of_row);
            cr_assert(v.col_value == of_col, "col_vec at (%d, %d) is %g, should be %g", row, col, v.col_value, of_col);
        }
}

Test(tile, vectors_and_their_ragged_ends)
{
    check_each<16, 128>(16, 128);
    check_each<16, 16>(0, 1);
    check_each<32, 48>(13, 33);
    check_each<16, 128>(15, 127);
}

// ------------------------ fragments.cuh

// Lane l hands in row l of 32; each writes what it received, plain and transposed. Then C += A B of one block each, A
// rows 0 ... 15 and B^T rows 16 ... 23, fetched as 16 x 16 and as the left half of 16 x 16.
__global__ void fragment_kernel(const bf16 *rows, bf16 *plain, bf16 *transposed, float *C)
{
    using namespace tile_machine;
    __shared__ smem_tile<32, 16> tile;
    copy(tile, rows);
    __syncthreads();
    const int l = lane_id(), g = l / 4, t = l % 4;
    uint32_t f[4], a[4], b[4];
    ldmatrix_x4(f, tile.at[l]);
    memcpy(plain + 8 * l, f, sizeof f);
    ldmatrix_x4_trans(f, tile.at[l]);
    memcpy(transposed + 8 * l, f, sizeof f);
    ldmatrix_x4(a, &tile.at[l % 16][l / 16 * 8]);
    ldmatrix_x4(b, &tile.at[16 + l / 16 * 8 + l % 8][l / 8 % 2 * 8]);
    float c[4] = {1, 2, 3, 4};
    mma_m16n8k16(c, a, b);
    for (int i = 0; i < 4; i++) C[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}

Test(tile, fragments)
{
    std::vector<uint16_t> rows(32 * 16), plain(256), transposed(256);
    std::vector<float> c(16 * 8);
    for (uint16_t &x : rows) x = wb_to_bf16((float)noise());
    {
        const on_device in = as_bf16(rows), out = as_bf16(plain), out_transposed = as_bf16(transposed);
        const on_device C(c);
        fragment_kernel<<<1, 32>>>(in.at, out.at, out_transposed.at, C.at);
    }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 8; i++) {  // register i / 2, its half i % 2
            const int g = l / 4, at = l % 4 * 2 + i % 2, row0 = i / 2 * 8;
            cr_assert(plain[8 * l + i] == rows[(row0 + g) * 16 + at], "ldmatrix: lane %d, element %d", l, i);
            cr_assert(transposed[8 * l + i] == rows[(row0 + at) * 16 + g], "ldmatrix.trans: lane %d, element %d", l, i);
        }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double want = 1 + i / 8 * 2 + j % 2;
            for (int k = 0; k < 16; k++)
                want += (double)wb_from_bf16(rows[i * 16 + k]) * wb_from_bf16(rows[(16 + j) * 16 + k]);
            cr_assert(fabs(c[i * 8 + j] - want) <= 1e-4, "mma: (%d, %d) is %g, not %g", i, j, c[i * 8 + j], want);
        }
}
