// products.cpp - writes down products of matrices: of warps, of warpgroups, and OpenBLAS's, which pass through here.
#include "flight.h"

#include <dlfcn.h>

namespace cudacpu
{
static float *record;  // null: nobody wants to know
static size_t room;
static std::atomic<size_t> used;

static float *room_for(size_t numbers)
{
    if (!record) return nullptr;
    const size_t at = used.fetch_add(numbers);
    if (at + numbers <= room) return record + at;
    record[0] = 1;
    return nullptr;
}
char *record_room(size_t bytes) { return reinterpret_cast<char *>(room_for((bytes + 3) / 4)); }

// Room for one more product; null if there is none.
static float *new_product(int walker, const matrices &m)
{
    const size_t rows = m.rows, cols = m.cols;
    const size_t depth = m.depth, length = WB_PRODUCT_HEAD + (rows + cols) * depth + 2 * rows * cols;
    float *to = room_for(length);
    if (!to) return nullptr;
    const float head[WB_PRODUCT_HEAD] = {float(walker), float(m.rows), float(m.cols), float(m.depth)};
    return static_cast<float *>(memcpy(to, head, sizeof head)) + WB_PRODUCT_HEAD;
}

static float *copy(float *to, const float *from, int count)
{
    memcpy(to, from, sizeof *to * size_t(count));
    return to + count;
}

std::atomic<uint64_t> multiplied;

float *product_begins(const matrices &m)
{
    if (current) multiplied += uint64_t(m.rows) * uint64_t(m.cols * m.depth);
    if (!record || !current || !current->running) return nullptr;
    const dim3 &grid = current->config->grid;
    const unsigned at = (current->index.z * grid.y + current->index.y) * grid.x + current->index.x;
    float *to = new_product(at * MAX_THREADS / WARP + current->running->number / WARP, m);
    if (!to) return nullptr;
    to = copy(copy(to, m.a, m.rows * m.depth), m.b, m.depth * m.cols);
    return copy(to, m.c, m.rows * m.cols);
}

void product_ends(float *to, const matrices &m)
{
    if (to) copy(to, m.c, m.rows * m.cols);
}

extern "C" void wb_record_products(float *at, size_t count)
{
    record = at, room = count, used = 1;
    if (at) at[0] = 0;
}

// As in cblas.h, whose enumerations are ints. What is not row major, with a left factor as it is, is passed on unseen.
extern "C" __attribute__((weak, visibility("default"))) void cblas_sgemm(int layout, int transA, int transB, int rows,
                                                                         int cols, int depth, float alpha,
                                                                         const float *A, int lda, const float *B,
                                                                         int ldb, float beta, float *C, int ldc)
{
    typedef void sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                       int);
    static sgemm *const next = reinterpret_cast<sgemm *>(dlsym(RTLD_NEXT, "cblas_sgemm"));
    static std::atomic<int> threads;
    static thread_local int walker = -1;
    if (walker < 0) {
        walker = threads++;
        if (strict && gettid() != getpid()) usleep(3000);  // who is not waited for is late every time
    }
    enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };
    matrices m = {};
    m.rows = rows, m.cols = cols, m.depth = depth;
    float *to = nullptr;
    if (layout == ROW_MAJOR && transA == AS_IT_IS && rows > 0 && cols > 0 && depth > 0) {
        to = new_product(walker, m);
        multiplied += uint64_t(rows) * uint64_t(cols) * uint64_t(depth);
    }
    if (to) {
        for (int i = 0; i < rows; i++) to = copy(to, A + ptrdiff_t(i) * lda, depth);
        for (int k = 0; k < depth; k++)
            for (int j = 0; j < cols; j++)
                *to++ = transB == TRANSPOSED ? B[ptrdiff_t(j) * ldb + k] : B[ptrdiff_t(k) * ldb + j];
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < cols; j++) *to++ = beta != 0 ? C[ptrdiff_t(i) * ldc + j] : 0;
    }
    next(layout, transA, transB, rows, cols, depth, alpha, A, lda, B, ldb, beta, C, ldc);
    for (int i = 0; to && i < rows; i++) to = copy(to, C + ptrdiff_t(i) * ldc, cols);
}
}
