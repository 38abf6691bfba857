// hopper_words.cu - the words of hopper.cuh, one by one, against loops that anyone can check; and on the CPU execution
// layer what it says of a pipeline in which one thing is wrong, once for each sentence. Elsewhere than on sm_90 and the
// layer every test is skipped.
#include "hopper.cuh"
#include "on_hopper.cuh"

// Uniform between -1 and 1, rounded to bf16.
static uint16_t noise(void) { return wb_to_bf16((float)((double)(int32_t)(dice() >> 32) / 0x1p31)); }

TestSuite(hopper, .init = start);

static std::vector<uint16_t> numbers(size_t count)
{
    std::vector<uint16_t> x(count);
    for (uint16_t &each : x) each = noise();
    return x;
}

static tensor_map map_of(const bf16 *x, int heads, int N, int D, int rows, int box_heads = 1)
{
    tensor_map map;
    must(describe(map, x, heads, N, D, rows, box_heads));
    return map;
}

// ------------------------ copies

template <int D> constexpr int line_of = D < 64 ? 2 * D : 128;
template <int D> TILE_FN float element_of(const tma_tile<64, D> &tile, int row, int col)
{
    return __bfloat162float(element_of<bf16, line_of<D>>(&tile, 64, row, col));
}

template <int D> static void check_loads_of()
{
    const auto load = [](uint16_t *out, const uint16_t *x, int row, int head) {
        const tensor_map map = map_of(reinterpret_cast<const bf16 *>(x), LOAD_HEADS, LOAD_ROWS, D, 64);
        const auto kernel = load_kernel<tma_tile<64, D>, uint16_t, D, line_of<D>>;
        kernel<<<1, 128, sizeof(one_tile<tma_tile<64, D>>)>>>(out, map, row, head);
    };
    check_loads<D>(numbers(LOAD_HEADS * LOAD_ROWS * D), load);
}
Test(hopper, a_tile_ends_with_zeros_where_the_head_ends)
{
    check_loads_of<128>(), check_loads_of<32>(), check_loads_of<16>();
}

// ------------------------ products

enum hopper_form {
    HOPPER_ABt,
    HOPPER_ABt_REGISTERS,
    HOPPER_ABt_MORE,
    HOPPER_AB_REGISTERS,
    HOPPER_AB_SHARED,
    HOPPER_AB_FIRST
};

template <hopper_form form> constexpr bool is_ABt = form <= HOPPER_ABt_MORE;
template <hopper_form form, int Depth, int Cols> using factors =
    two_factors<tma_tile<64, Depth>, tma_tile<is_ABt<form> ? Cols : Depth, is_ABt<form> ? Depth : Cols>>;

template <hopper_form form, int Depth, int Cols>
__global__ void product_kernel(float *c_out, const bf16 *a, const __grid_constant__ tensor_map a_map,
                               const __grid_constant__ tensor_map b_map)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<factors<form, Depth, Cols> *>(shared);
    fetch(x, a_map, b_map);
    reg_tile<16, Cols> c;
    const int row0 = 16 * warp_in_group();
    each(c, [&](float &v, element e) { v = c_out[(row0 + e.row) * Cols + e.col]; });
    weights<Depth> w;
    if constexpr (form == HOPPER_ABt) {
        mma_ABt_async(c, x.a, x.b);
    } else if constexpr (form == HOPPER_ABt_MORE) {
        mma_ABt_more_async(c, x.a, x.b);
    } else if constexpr (form == HOPPER_AB_SHARED) {
        mma_AB_async(c, x.a, x.b);
    } else if constexpr (form == HOPPER_AB_FIRST) {
        mma_AB_first_async(c, x.a, x.b);
    } else {
        reg_tile<16, Depth> left;
        each(left, [&](float &v, element e) { v = __bfloat162float(a[(row0 + e.row) * Depth + e.col]); });
        round_to(w, left);
        if constexpr (form == HOPPER_ABt_REGISTERS)
            mma_ABt_async(c, w, x.b);
        else
            mma_AB_async(c, w, x.b);
    }
    products_done<0>(c);
    each(c, [&](float &v, element e) { c_out[(row0 + e.row) * Cols + e.col] = v; });
}

// c [64, Cols] = a b^T for ABt, c += a b^T for MORE, b [Cols, Depth]; c += a b for AB, = a b for FIRST,
// b [Depth, Cols]; a [64, Depth].
template <hopper_form form, int Depth, int Cols> static void check_product()
{
    constexpr int rows = is_ABt<form> ? Cols : Depth, cols = is_ABt<form> ? Depth : Cols;
    const auto a = numbers(64 * Depth), b = numbers(rows * cols);
    std::vector<float> before(64 * Cols), c;
    for (float &x : before) x = wb_from_bf16(noise());
    c = before;
    {
        const auto a_device = as_bf16(a), b_device = as_bf16(b);
        const on_device c_device(c);
        const auto kernel = product_kernel<form, Depth, Cols>;
        const size_t bytes = sizeof(factors<form, Depth, Cols>);
        allow(kernel, bytes);
        kernel<<<1, 128, bytes>>>(c_device.at, a_device.at, map_of(a_device.at, 1, 64, Depth, 64),
                                  map_of(b_device.at, 1, rows, cols, rows));
    }
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < Cols; j++) {
            double want = form <= HOPPER_ABt_REGISTERS || form == HOPPER_AB_FIRST ? 0 : before[i * Cols + j];
            for (int k = 0; k < Depth; k++)
                want += (double)wb_from_bf16(a[i * Depth + k]) *
                        wb_from_bf16(b[is_ABt<form> ? j * Depth + k : k * Cols + j]);
            expect(c[i * Cols + j], want, 1e-4, "C", i, j);
        }
}
template <hopper_form form, int... Cols> static void check_products() { (check_product<form, 128, Cols>(), ...); }
// The factors of heads of D = 16 and 32: as both, and as the right one.
template <int D> static void check_narrow_ABt()
{
    check_product<HOPPER_ABt, D, 64>(), check_product<HOPPER_ABt, D, 128>(), check_product<HOPPER_ABt, D, 192>();
    check_product<HOPPER_ABt_MORE, D, 64>();
}
template <int D> static void check_narrow_AB()
{
    check_product<HOPPER_AB_REGISTERS, 64, D>(), check_product<HOPPER_AB_REGISTERS, 128, D>();
    check_product<HOPPER_AB_SHARED, 64, D>(), check_product<HOPPER_AB_FIRST, 64, D>();
    check_product<HOPPER_AB_SHARED, D, 64>();  // the left one narrow
}

Test(hopper, product_ABt)
{
    check_products<HOPPER_ABt, 64, 96, 128, 160, 192, 256, 16, 144>();
    check_products<HOPPER_ABt_REGISTERS, 64, 128, 192>();
    check_products<HOPPER_ABt_MORE, 64, 96, 128, 160, 192>();
    check_narrow_ABt<32>(), check_narrow_ABt<16>();
}
Test(hopper, product_AB)
{
    check_products<HOPPER_AB_REGISTERS, 64, 128, 192, 256>();
    check_products<HOPPER_AB_SHARED, 64, 128, 192, 256>();
    check_products<HOPPER_AB_FIRST, 64, 128, 192>();
    check_narrow_AB<32>(), check_narrow_AB<16>();
}

// The tile of 64 / box_heads rows of each of box_heads heads of x [heads, N, 64] at (row, head) is brought, and sent to
// the same place of y; c [64, 16] = its product with its own rows row0 ... row0 + 15, transposed.
__global__ void heads_kernel(const __grid_constant__ tensor_map y_map, float *c_out,
                             const __grid_constant__ tensor_map x_map, int row, int head, int row0)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<one_tile<tma_tile<64, 64>> *>(shared);
    begin(x.full, 1);
    if (threadIdx.x == 0) load_async(x.tile, x_map, row, head, x.full);
    x.full.wait(0);
    store_async(y_map, max(row, 0), head, x.tile);  // no store begins before row 0
    reg_tile<16, 16> c;
    mma_ABt_async(c, x.tile, strip<16>(x.tile, row0));
    products_done<0>(c);
    each(c, [&](float &v, element e) { c_out[(16 * warp_in_group() + e.row) * 16 + e.col] = v; });
    stores_read();
}

// The rows of a tile of several heads stand head by head; a head ends where it ends. And a part of a tile is a tile. A
// load may begin before a head; a store may not, and sends that tile to the head's beginning.
Test(hopper, a_tile_of_several_heads)
{
    enum { HEADS = 16, N = 37 };
    const auto x = numbers((size_t)HEADS * N * 64);
    std::vector<uint16_t> y;
    static float c[64 * 16];
    for (int box_heads = 1; box_heads <= 8; box_heads *= 2)
        for (int row = -3; row < N; row += 8) {
            const int rows = 64 / box_heads, head = 16 - box_heads, row0 = (row + 3) % 48;
            y.assign(x.size(), 0);
            {
                const auto x_device = as_bf16(x), y_device = as_bf16(y);
                const on_device<float> c_device(c, 64 * 16);
                heads_kernel<<<1, 128, sizeof(one_tile<tma_tile<64, 64>>)>>>(
                    map_of(y_device.at, HEADS, N, 64, rows, box_heads), c_device.at,
                    map_of(x_device.at, HEADS, N, 64, rows, box_heads), row, head, row0);
            }
            for (int i = 0; i < HEADS * N; i++)
                for (int d = 0; d < 64; d++) {
                    const int to = row < 0 ? 0 : row, r = i % N - to;  // of the tile
                    const bool sent = i / N >= head && r >= 0 && r < rows && row + r >= 0;
                    expect(wb_from_bf16(y[i * 64 + d]), sent ? wb_from_bf16(x[(i + row - to) * 64 + d]) : 0, 0, "y", i,
                           d);
                }
            for (int i = 0; i < 64; i++)
                for (int j = 0; j < 16; j++) {
                    const int a = row + i % rows, b = row + (row0 + j) % rows;
                    const int of_a = (head + i / rows) * N + a, of_b = (head + (row0 + j) / rows) * N + b;
                    double want = 0;
                    for (int d = 0; d < 64 && a >= 0 && a < N && b >= 0 && b < N; d++)
                        want += (double)wb_from_bf16(x[of_a * 64 + d]) * wb_from_bf16(x[of_b * 64 + d]);
                    expect(c[i * 16 + j], want, 1e-4, "C", i, j);
                }
        }
}

// ------------------------ turns

// order [Groups * rounds]: who came when.
template <int Groups> __global__ void turns_kernel(int *order, int rounds)
{
    __shared__ int next;
    if (threadIdx.x == 0) next = 0;
    __syncthreads();
    const int group = warpgroup_id();
    turns<Groups> turn(group);
    for (int i = 0; i < rounds; i++) {
        turn.wait();
        if (threadIdx.x % warpgroup_threads == 0) order[atomicAdd(&next, 1)] = group;
        turn.pass();
    }
    if (group == 0) turn.wait();  // the last pass() of all was to us
}

Test(hopper, warpgroups_take_turns)
{
    enum { ROUNDS = 5 };
    int order[3 * ROUNDS];
    for (int groups = 2; groups <= 3; groups++) {
        memset(order, 0xff, sizeof order);
        {
            const on_device<int> order_device(order, groups * ROUNDS);
            if (groups == 2) turns_kernel<2><<<1, 256>>>(order_device.at, ROUNDS);
            if (groups == 3) turns_kernel<3><<<1, 384>>>(order_device.at, ROUNDS);
        }
        for (int i = 0; i < groups * ROUNDS; i++) expect(order[i], i % groups, 0, "turn", groups, i);
    }
}

// came [rounds + 1]: how many of the three warpgroups had come when number i % 3 went on from the i-th gathering; and
// in all, at last.
__global__ void gather_kernel(int *came, int rounds)
{
    __shared__ int count[32];
    if (threadIdx.x < 32) count[threadIdx.x] = 0;
    __syncthreads();
    const int group = warpgroup_id();
    const bool first = threadIdx.x % warpgroup_threads == 0;
    for (int i = 0; i < rounds; i++) {
        if (first) atomicAdd(&count[i], 1);
        gather<3>(i % 3, group == i % 3);
        if (group == i % 3 && first) came[i] = atomicAdd(&count[i], 0);
    }
    if (first) atomicAdd(&count[rounds], 1);
    meet<3>();
    if (threadIdx.x == 0) came[rounds] = count[rounds];
}

Test(hopper, one_warpgroup_waits_for_the_others)
{
    enum { ROUNDS = 12 };
    int came[ROUNDS + 1] = {0};
    {
        const on_device<int> came_device(came, ROUNDS + 1);
        gather_kernel<<<1, 384>>>(came_device.at, ROUNDS);
    }
    for (int i = 0; i <= ROUNDS; i++) expect(came[i], 3, 0, "came", i, 0);
}

// ------------------------ transposed; beside a tile

// out [128, 64] = the transposed matrix of x [64, 128], which warps hold as a left factor.
__global__ void transpose_kernel(float *out, const bf16 *x)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &tiles = *reinterpret_cast<tma_tile<64, 64>(*)[2]>(shared);
    const int row0 = 16 * warp_in_group();
    reg_tile<16, 128> left;
    each(left, [&](float &v, element e) { v = __bfloat162float(x[(row0 + e.row) * 128 + e.col]); });
    weights<128> w;
    round_to(w, left);
    store_transposed(tiles, w);
    __syncthreads();
    for (int i = threadIdx.x; i < 128 * 64; i += blockDim.x)
        out[i] = element_of(tiles[i / 64 / 64], i / 64 % 64, i % 64);
}

Test(hopper, a_left_factor_is_stored_transposed)
{
    const auto x = numbers(64 * 128);
    static float out[128 * 64];
    {
        const auto x_device = as_bf16(x);
        const on_device<float> out_device(out, 64 * 128);
        transpose_kernel<<<1, 128, 2 * sizeof(tma_tile<64, 64>)>>>(out_device.at, x_device.at);
    }
    for (int i = 0; i < 128; i++)
        for (int j = 0; j < 64; j++) expect(out[i * 64 + j], wb_from_bf16(x[j * 128 + i]), 0, "transposed", i, j);
}

struct numbers_beside {
    float at[64];
};
struct tiles_and_numbers {
    tma_tile<64, 64> tile[2];
    numbers_beside beside[2];
    ring_signals<2> signals;
};

// out [tiles, 64] = beside [tiles, 64] + the first column of each tile of x [tiles, 64, 64]; both come through one
// ring.
__global__ void send_with_kernel(float *out, const __grid_constant__ tensor_map map, const numbers_beside *beside,
                                 int tiles)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &s = *reinterpret_cast<tiles_and_numbers *>(shared);
    if (threadIdx.x == 0) {
        s.signals.init(4);
        signals_ready();
    }
    __syncthreads();
    if (warpgroup_id() == 0) {
        sender x(s.tile, s.signals);
        for (int t = 0; t < tiles && threadIdx.x == 0; t++) x.send_with(map, 64 * t, 0, s.beside, &beside[t]);
        return;
    }
    receiver x(s.tile, s.signals);
    const int i = threadIdx.x % warpgroup_threads;
    for (int t = 0; t < tiles; t++) {
        const int stage = x.stage;
        const auto &tile = x.receive();
        if (i < 64) out[64 * t + i] = s.beside[stage].at[i] + element_of(tile, i, 0);
        __syncwarp();
        x.release();
    }
}

Test(hopper, bytes_come_beside_a_tile)
{
    enum { T = 5 };
    const auto x = numbers(T * 64 * 64);
    static float beside[T * 64], out[T * 64];
    for (int i = 0; i < T * 64; i++) beside[i] = wb_from_bf16(noise());
    {
        const auto x_device = as_bf16(x);
        const on_device<float> beside_device(beside, T * 64), out_device(out, T * 64);
        send_with_kernel<<<1, 256, sizeof(tiles_and_numbers)>>>(
            out_device.at, map_of(x_device.at, 1, 64 * T, 64, 64),
            reinterpret_cast<const numbers_beside *>(beside_device.at), T);
    }
    for (int t = 0; t < T; t++)
        for (int i = 0; i < 64; i++)
            expect(out[t * 64 + i], beside[t * 64 + i] + wb_from_bf16(x[(t * 64 + i) * 64]), 0, "sum", t, i);
}

// ------------------------ what may be wrong below

// What may be wrong with the pipeline, and what is said of it: the kind of report, words of it, a line of the kernel.
#define SCORES "| mma_ABt_async(S, Q, s.K.tile[K.stage]);"
#define HAZARDS(X)                                                                                                     \
    X(NO_WAIT_ON_FULL, "tile used before it arrived", "phase 0 of K.full[0]", SCORES)                                  \
    X(K_RELEASED_TOO_EARLY, "tile overwritten too early", "the copy engine overwrites K.tile[", "K.send(")             \
    X(SCORES_READ_TOO_EARLY, "result read too early", "products_done is missing before", SCORES)                       \
    X(WEIGHTS_CHANGED_IN_FLIGHT, "registers changed in flight", "the weights of this product", "mma_AB_async(O, P")    \
    X(RESULT_SCALED_IN_FLIGHT, "result read too early", "products_done is missing before", "scale_rows(O, twice)")     \
    X(SENDER_BEGINS_WITH_PHASE_0, "deadlock", "for K.empty[0], phase 0; 0 are over: 8 of 8 arrivals missing",          \
      "K.send(")                                                                                                       \
    X(RECEIVER_BEGINS_WITH_PHASE_1, "tile used before it arrived", "K.tile[0]", SCORES)                                \
    X(ONE_GROUP_DOES_NOT_WAIT_FOR_Q, "tile used before it arrived", "phase 0 of Q_full", SCORES)                       \
    X(ONE_ARRIVAL_LESS, "tile overwritten too early", "its end was never announced", "K.send(")                        \
    X(ONE_ARRIVAL_MORE, "deadlock", "for K.empty[0], phase 0; 0 are over: 1 of 9 arrivals missing", "K.send(")         \
    X(ONE_WARP_NEVER_RELEASES, "warps of a group disagree", "V.tile[1]", "mma_AB_async(O, P")                          \
    X(FEWER_BYTES_PROMISED, "bytes not promised", "have come to Q_full, only", "copy_in(")                             \
    X(TWICE_THE_BYTES, "deadlock", "for Q_full, phase 0; 0 are over: 32768 bytes promised, 16384 have come",           \
      "s.Q_full.wait(0)")                                                                                              \
    X(SIGNALS_READY_FORGOTTEN, "signal not ready", "signals_ready() is missing", "load_async(s.Q[g]")                  \
    X(NO_BARRIER_AFTER_INIT, "signal not ready", "__syncthreads() is missing", "s.V.init(8)")                          \
    X(STORE_INTO_Q_IN_FLIGHT, "tile overwritten too early", "store() overwrites Q[", "store(Q, O)")                    \
    X(HAND_WRITTEN_STORE_IN_FLIGHT, "tile changed in flight", "Q[", SCORES)                                            \
    X(NO_FENCE, "written tile not visible", "without a fence", "copy_out(")                                            \
    X(NO_GROUP_BARRIER, "written tile not visible", "has not met this warp since", "copy_out(")                        \
    X(STORES_READ_FORGOTTEN, "returned too early", "stores_read() is missing", "store_async(O_map")                    \
    X(TURN_NEVER_PASSED, "deadlock", "for 256 threads: 128 are missing", "turn.wait()")                                \
    X(TOO_MANY_REGISTERS, "deadlock", "registers a thread more", "registers_up<240>")                                  \
    X(ONE_WARP_SKIPS_A_PRODUCT, "warps of a group disagree", "the four warps of a group issue the same",               \
      "products_done<1>(S)")                                                                                           \
    X(FIRST_SCORES_NOT_DONE, "result read too early",                                                                  \
      "products_done<1> names a result that is not done: 1 product is in flight, and 1 may be", SCORES)                \
    X(RESULT_THROWN_AWAY, "result thrown away", "no products_done names the result", "mma_ABt_async(nobody, Q, Q)")    \
    X(RESULT_OVERWRITTEN, "result thrown away", "another product writes its result", "mma_ABt_async(nobody, Q, Q)")    \
    X(ONE_LOAD_TOO_MANY, "returned too early", "V.tile[1]: nobody waited for it", "V.send(")                           \
    X(SHUFFLE_UNDER_IF, "deadlock", "__shfl_sync()", "warp_in_group()")                                                \
    X(BOX_OF_ANOTHER_SIZE, "box of another size", "K.tile[0] has 8192 bytes", "K.send(")                               \
    X(STORE_BEFORE_ROW_0, "store before the tensor", "would begin at row -1 of head 0", "store_async(O_map")

// The same of a sum.
#define SUM_HAZARDS(X)                                                                                                 \
    X(SUM_WITHOUT_FENCE, "written tile not visible", "without a fence", "put_async(sum, s.x)")                         \
    X(SUM_NOT_WAITED_FOR, "written tile not visible", "has not met this warp since", "put_async(sum, s.x)")            \
    X(SUM_FREED_TOO_EARLY, "tile overwritten too early", "no barrier or signal behind", "store(s.x, mine)")            \
    X(SUM_FREED_UNREAD, "tile overwritten too early", "stores_read(), or a barrier behind it", "store(s.x, mine)")     \
    X(SUM_ANNOUNCED_TOO_EARLY, "announced too early", "stores_done() is missing", "announce(&counters[1])")            \
    X(SUM_NEVER_ANNOUNCED, "deadlock", "for a counter in device memory to become", "await(&counters[1], turn)")        \
    X(SUM_NOT_READ, "returned too early", "stores_read() is missing", "put_async(sum, s.x)")

#define NAME(name, ...) name,
enum hopper_hazard { NOTHING_WRONG, HAZARDS(NAME) };
enum sum_hazard { SUM_RIGHT, SUM_HAZARDS(NAME) };

// ------------------------ sums over blocks

struct sum_tiles {
    fragments<64> x;
    struct signal full, empty;
    unsigned number;
};

__global__ void sum_kernel(fragments<64> *sum, unsigned *counters, const float *x, sum_hazard chosen)
{
#ifdef __CUDACC__
    constexpr sum_hazard wrong = SUM_RIGHT;
    (void)chosen;
#else
    const sum_hazard wrong = chosen;
#endif
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &s = *reinterpret_cast<sum_tiles *>(shared);
    if (threadIdx.x == 0) {
        s.full.init(4), s.empty.init(1);
        signals_ready();
        s.number = take_number(&counters[0]);
    }
    __syncthreads();
    if (warpgroup_id() == 0) {
        for (int i = 0; i < 2 && threadIdx.x == 0; i++) {
            const unsigned turn = 2 * s.number + (unsigned)i;
            if (wrong != SUM_NOT_WAITED_FOR) s.full.wait(i);
            if (!is_turn(&counters[1], turn)) await(&counters[1], turn);
            if (turn == 0)
                put_async(sum, s.x);
            else
                add_async(sum, s.x);
            if (wrong == SUM_FREED_TOO_EARLY || wrong == SUM_FREED_UNREAD) s.empty.arrive();
            if (wrong == SUM_FREED_UNREAD) continue;
            if (wrong != SUM_NOT_READ && wrong != SUM_FREED_TOO_EARLY) stores_read();
            if (wrong != SUM_FREED_TOO_EARLY) s.empty.arrive();
            if (wrong != SUM_ANNOUNCED_TOO_EARLY && wrong != SUM_NOT_READ) stores_done();
            if (wrong != SUM_NEVER_ANNOUNCED && wrong != SUM_NOT_READ) announce(&counters[1]);
            if (wrong == SUM_NOT_READ) return;
        }
        return;
    }
    const int row0 = 16 * warp_in_group();
    for (int i = 0; i < 2; i++) {
        reg_tile<16, 64> mine;
        const float *from = x + (2 * s.number + (unsigned)i) * 64 * 64;
        each(mine, [&](float &v, element e) { v = from[(row0 + e.row) * 64 + e.col]; });
        s.empty.wait(i ^ 1);
        store(s.x, mine);
        if (wrong != SUM_WITHOUT_FENCE) writes_visible();
        __syncwarp();
        if (lane_id() == 0) s.full.arrive();
    }
}

// Begins early, and sees the sum all the same. Twice its numbers go through global memory and back: what load and store
// do.
__global__ void unpack_kernel(float *out, fragments<64> *sum)
{
    before_is_done();
    reg_tile<16, 64> x;
    load(x, sum);
    each(x, [](float &v, element) { v *= 2; });
    store(sum, x);
    load(x, sum);
    const int row0 = 16 * warp_in_group();
    each(x, [&](float &v, element e) { out[(row0 + e.row) * 64 + e.col] = v / 2; });
}

enum { BLOCKS = 6 };
static float summands[2 * BLOCKS][64 * 64], sum[64 * 64];

// sum [64, 64] = the summands in this order, two of each block, added by the copy engine. One thing is wrong.
static void add_up(sum_hazard hazard)
{
    unsigned zeros[2] = {};
    const on_device<float> x_device(summands[0], sizeof summands / sizeof(float)), sum_device(sum, 64 * 64);
    const on_device<unsigned> counters(zeros, 2);
    fragments<64> *total;
    check(cudaMalloc((void **)&total, sizeof *total), "cudaMalloc");
    sum_kernel<<<BLOCKS, 256, sizeof(sum_tiles)>>>(total, counters.at, x_device.at, hazard);
    must(launch_after(unpack_kernel, dim3(1), 128, 0, nullptr, sum_device.at, total));
    check(cudaFree(total), "cudaFree");
}

// So unlike in size that each order of the additions gives another sum.
static void make_summands(void)
{
    for (int n = 0; n < 2 * BLOCKS; n++)
        for (int i = 0; i < 64 * 64; i++) summands[n][i] = ldexpf(wb_from_bf16(noise()), n * 7 % 24);
}

Test(hopper, blocks_add_in_turns)
{
    make_summands();
    add_up(SUM_RIGHT);
    for (int i = 0; i < 64 * 64; i++) {
        float want = summands[0][i];
        for (int n = 1; n < 2 * BLOCKS; n++) want += summands[n][i];
        expect(sum[i], want, 0, "sum", i / 64, i % 64);
    }
}

// ------------------------ pipeline

struct pipeline_tiles {
    tma_tile<64, 64> Q[2];
    ring<tma_tile<64, 64>, 2> K, V;
    struct signal Q_full;
};

__global__ __launch_bounds__(384, 1) void pipeline_kernel(const __grid_constant__ tensor_map O_map,
                                                          const __grid_constant__ tensor_map Q_map,
                                                          const __grid_constant__ tensor_map K_map,
                                                          const __grid_constant__ tensor_map V_map, int tiles,
                                                          hopper_hazard chosen)
{
#ifdef __CUDACC__
    constexpr hopper_hazard wrong = NOTHING_WRONG;  // a GPU is not asked: it hangs, or computes
    (void)chosen;
#else
    const hopper_hazard wrong = chosen;
#endif
    using registers = register_shares<2, 40, 232>;
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &s = *reinterpret_cast<pipeline_tiles *>(shared);
    if (threadIdx.x == 0) {
        s.Q_full.init(2);
        s.K.init(wrong == ONE_ARRIVAL_LESS ? 7 : wrong == ONE_ARRIVAL_MORE ? 9 : 8);
        s.V.init(8);
        if (wrong != SIGNALS_READY_FORGOTTEN) signals_ready();
    }
    if (wrong != NO_BARRIER_AFTER_INIT) __syncthreads();

    if (warpgroup_id() == 0) {
        registers::give();
        if (threadIdx.x == 0) {
            sender K(s.K);
            if (wrong == SENDER_BEGINS_WITH_PHASE_0) K.phase = 0;
            for (int g = 0; g < 2; g++) {
                if (wrong == FEWER_BYTES_PROMISED || wrong == TWICE_THE_BYTES) {
                    s.Q_full.arrive_and_expect(wrong == FEWER_BYTES_PROMISED ? sizeof s.Q[g] * 3 / 4
                                                                             : 2 * sizeof s.Q[g]);
                    hopper_machine::copy_in(&s.Q[g], sizeof s.Q[g], Q_map, 64 * g, 0, s.Q_full.state, here());
                } else {
                    load_async(s.Q[g], Q_map, 64 * g, 0, s.Q_full);
                }
            }
            for (int t = 0; t < tiles; t++) K.send(K_map, 64 * t, 0);
        } else if (threadIdx.x == 32) {
            sender V(s.V);
            const int count = tiles + (wrong == ONE_LOAD_TOO_MANY);
            for (int t = 0; t < count; t++) V.send(V_map, 64 * t, 0);
        }
        return;
    }
    if (wrong == TOO_MANY_REGISTERS)
        hopper_machine::registers_up<240>(here());
    else
        registers::take();
    const int group = warpgroup_id() - 1;
    auto &Q = s.Q[group];
    receiver K(s.K), V(s.V);
    if (wrong == RECEIVER_BEGINS_WITH_PHASE_1) K.phase = 1;
    turns<2> turn(group);
    reg_tile<16, 64> O = {};
    weights<64> P;
    if (wrong != ONE_GROUP_DOES_NOT_WAIT_FOR_Q || group == 1) s.Q_full.wait(0);
    reg_tile<16, 64> nobody;
    if (wrong == RESULT_THROWN_AWAY || wrong == RESULT_OVERWRITTEN) mma_ABt_async(nobody, Q, Q);
    if (wrong == RESULT_OVERWRITTEN) mma_ABt_async(nobody, Q, Q);
    for (int t = 0; t < tiles; t++) {
        reg_tile<16, 64> S;
        if (wrong != NO_WAIT_ON_FULL) K.receive();
        turn.wait();
        mma_ABt_async(S, Q, s.K.tile[K.stage]);
        if (t > 0 && (wrong != ONE_WARP_SKIPS_A_PRODUCT || warp_in_group() != 3)) mma_AB_async(O, P, V.receive());
        if (wrong != TURN_NEVER_PASSED) turn.pass();
        if (wrong == K_RELEASED_TOO_EARLY) K.release();
        if (wrong == STORE_INTO_Q_IN_FLIGHT) store(Q, O);
        if (wrong == HAND_WRITTEN_STORE_IN_FLIGHT) Q.at[0][16 * warp_in_group()][lane_id()] = __float2bfloat16(3.0f);
        if (wrong == SCORES_READ_TOO_EARLY) O.x[0][0][0] += S.x[0][0][0];
        if (t > 0 || wrong == FIRST_SCORES_NOT_DONE)
            products_done<1>(S);
        else
            products_done<0>(S);
        if (wrong != K_RELEASED_TOO_EARLY) K.release();
        if (wrong == SHUFFLE_UNDER_IF && lane_id() == 0) O.x[0][0][0] += (float)warp_in_group();
        if (wrong == RESULT_SCALED_IN_FLIGHT) {
            row_vec<16> twice;
            fill(twice, 2);
            scale_rows(O, twice);
        }
        if (wrong == WEIGHTS_CHANGED_IN_FLIGHT) round_to(P, S);
        if (t > 0) products_done<0>(O);
        if (t > 0 && (wrong != ONE_WARP_NEVER_RELEASES || threadIdx.x / 32 != 5)) V.release();
        round_to(P, S);
    }
    mma_AB_async(O, P, V.receive());
    products_done<0>(O);
    store(Q, O);
    if (wrong == NO_FENCE || wrong == NO_GROUP_BARRIER) {
        if (wrong == NO_GROUP_BARRIER) hopper_machine::writes_visible(here());
        if (wrong == NO_FENCE) hopper_machine::barrier_wait(8 + warpgroup_id(), 128, here());
        if (threadIdx.x % 128 == 0) hopper_machine::copy_out(&Q, sizeof Q, O_map, 64 * group, 0, here());
    } else {
        store_async(O_map, 64 * group - (wrong == STORE_BEFORE_ROW_0 ? 1 : 0), 0, Q);
    }
    if (wrong != STORES_READ_FORGOTTEN) stores_read();
}

enum { TILES = 7 };
static std::vector<uint16_t> Q, K, V;
static float O[128 * 64];

static void make_inputs(void) { Q = numbers(128 * 64), K = numbers(TILES * 64 * 64), V = numbers(TILES * 64 * 64); }

// A whole pipeline: O [128, 64] = sum over tiles t of bf16(Q K_t^T) V_t, Q [128, 64], K and V [TILES * 64, 64]. One
// thing is wrong.
static void run_pipeline(hopper_hazard wrong)
{
    std::vector<uint16_t> rounded(128 * 64);
    {
        const auto Q_device = as_bf16(Q), K_device = as_bf16(K), V_device = as_bf16(V), O_device = as_bf16(rounded);
        const auto kernel = pipeline_kernel;
        allow(kernel, sizeof(pipeline_tiles));
        kernel<<<1, 384, sizeof(pipeline_tiles)>>>(
            map_of(O_device.at, 1, 128, 64, 64), map_of(Q_device.at, 1, 128, 64, 64),
            map_of(K_device.at, 1, TILES * 64, 64, wrong == BOX_OF_ANOTHER_SIZE ? 32 : 64),
            map_of(V_device.at, 1, TILES * 64, 64, 64), TILES, wrong);
    }
    for (int i = 0; i < 128 * 64; i++) O[i] = wb_from_bf16(rounded[i]);
}

Test(hopper, pipeline)
{
    make_inputs();
    run_pipeline(NOTHING_WRONG);
    for (int i = 0; i < 128; i++)
        for (int d = 0; d < 64; d++) {
            double want = 0, terms = 0;
            for (int j = 0; j < TILES * 64; j++) {
                double s = 0;
                for (int k = 0; k < 64; k++) s += (double)wb_from_bf16(Q[i * 64 + k]) * wb_from_bf16(K[j * 64 + k]);
                const double term = (double)wb_from_bf16(wb_to_bf16((float)s)) * wb_from_bf16(V[j * 64 + d]);
                want += term, terms += fabs(term);
            }
            expect(O[i * 64 + d], want, 1.0 / 256 * fabs(want) + 2e-4 * terms, "O", i, d);
        }
}

// ------------------------ what the CPU execution layer says of mistakes

static int wrong;  // in what runs apart
static void pipeline_apart(void) { make_inputs(), run_pipeline((hopper_hazard)wrong); }
static void sum_apart(void) { make_summands(), add_up((sum_hazard)wrong); }

#define SAYS(hazard, kind, words, line)                                                                                \
    Test(hopper, says_##hazard) { wrong = hazard, check_report(pipeline_apart, kind, words, line); }
#define SAYS_OF_SUM(hazard, kind, words, line)                                                                         \
    Test(hopper, says_##hazard) { wrong = hazard, check_report(sum_apart, kind, words, line); }
HAZARDS(SAYS)
SUM_HAZARDS(SAYS_OF_SUM)
