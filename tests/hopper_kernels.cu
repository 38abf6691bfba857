// hopper_kernels.cu - see hopper_kernels.h.
#include "hopper_kernels.h"
#include "hopper.cuh"
#include "on_device.cuh"

static void must(wb_status status)
{
    if (status == WB_OK) return;
    fprintf(stderr, "hopper_kernels: %s\n", wb_last_message());
    exit(1);
}

static tensor_map map_of(const bf16 *x, int heads, int N, int D, int rows, int box_heads = 1)
{
    tensor_map map;
    must(describe(map, x, heads, N, D, rows, box_heads));
    return map;
}
template <class Kernel> static void allow(Kernel kernel, size_t bytes)
{
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "shared memory");
}

// All threads: this many loads will end in the signal.
TILE_FN void begin(signal &full, int loads)
{
    if (threadIdx.x == 0) {
        full.init(loads);
        signals_ready();
    }
    __syncthreads();
}

extern "C" bool hopper_here(void) { return check_hopper("hopper.cuh") == WB_OK; }

// ---------------------------------------------------------------------------------------------------- copies and stores

struct one_tile {
    tma_tile<64, 128> tile;
    signal full;
};

__global__ void load_kernel(float *out, const __grid_constant__ tensor_map map, int row, int head)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<one_tile *>(shared);
    begin(x.full, 1);
    if (threadIdx.x == 0) load_async(x.tile, map, row, head, x.full);
    x.full.wait(0);
    for (int i = threadIdx.x; i < 64 * 128; i += blockDim.x) {
        const int r = i / 128, c = i % 128;
        out[i] = __bfloat162float(x.tile.at[c / 64][r][(c % 64 / 8 ^ r % 8) * 8 + c % 8]);
    }
}

extern "C" void hopper_load(float *out, const uint16_t *x, int heads, int N, int row, int head)
{
    const auto x_device = as_bf16(x, (size_t)heads * N * 128);
    const on_device<float> out_device(out, 64 * 128);
    load_kernel<<<1, 128, sizeof(one_tile)>>>(out_device.at, map_of(x_device.at, heads, N, 128, 64), row, head);
}

__global__ void store_kernel(const __grid_constant__ tensor_map map, const float *x, int row, int head)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &y = *reinterpret_cast<one_tile *>(shared);
    reg_tile<16, 128> c;
    const int row0 = 16 * warp_in_group();
    each(c, [&](float &v, element e) { v = x[(row0 + e.row) * 128 + e.col]; });
    if (row / 20 % 2) {  // rounded before
        weights<128> rounded;
        round_to(rounded, c);
        store(y.tile, rounded);
    } else
        store(y.tile, c);
    store_async(map, row, head, y.tile);
    stores_read();
}

extern "C" void hopper_store(uint16_t *y, const float *x, int heads, int N, int row, int head)
{
    const auto y_device = as_bf16(y, (size_t)heads * N * 128);
    const on_device<float> x_device(x, 64 * 128);
    store_kernel<<<1, 128, sizeof(one_tile)>>>(map_of(y_device.at, heads, N, 128, 64), x_device.at, row, head);
}

// ------------------------------------------------------------------------------------------------------------- products

template <hopper_form form> constexpr bool is_ABt = form == HOPPER_ABt || form == HOPPER_ABt_MORE;
template <int Rows, int Cols> struct two_factors {
    tma_tile<64, 128> a;
    tma_tile<Rows, Cols> b;
    signal full;
};

template <hopper_form form, int Cols> __global__ void product_kernel(float *c_out, const bf16 *a,
                                                                     const __grid_constant__ tensor_map a_map,
                                                                     const __grid_constant__ tensor_map b_map)
{
    constexpr int Depth = 128;
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<two_factors<is_ABt<form> ? Cols : Depth, is_ABt<form> ? Depth : Cols> *>(shared);
    begin(x.full, 2);
    if (threadIdx.x == 0) {
        load_async(x.a, a_map, 0, 0, x.full);
        load_async(x.b, b_map, 0, 0, x.full);
    }
    x.full.wait(0);
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
        mma_AB_async(c, w, x.b);
    }
    products_done<0>(c);
    each(c, [&](float &v, element e) { c_out[(row0 + e.row) * Cols + e.col] = v; });
}

template <hopper_form form, int Cols> static void product(const uint16_t *a, const uint16_t *b, float *c)
{
    constexpr int Depth = 128, rows = is_ABt<form> ? Cols : Depth, cols = is_ABt<form> ? Depth : Cols;
    const auto a_device = as_bf16(a, 64 * Depth), b_device = as_bf16(b, rows * cols);
    const on_device<float> c_device(c, 64 * Cols);
    const auto kernel = product_kernel<form, Cols>;
    const size_t bytes = sizeof(two_factors<rows, cols>);
    allow(kernel, bytes);
    kernel<<<1, 128, bytes>>>(c_device.at, a_device.at, map_of(a_device.at, 1, 64, Depth, 64),
                              map_of(b_device.at, 1, rows, cols, rows));
}

template <int Cols> static void product(hopper_form form, const uint16_t *a, const uint16_t *b, float *c)
{
    if (form == HOPPER_ABt) product<HOPPER_ABt, Cols>(a, b, c);
    if (form == HOPPER_ABt_MORE) product<HOPPER_ABt_MORE, Cols>(a, b, c);
    if constexpr (Cols % 64 == 0) {
        if (form == HOPPER_AB_REGISTERS) product<HOPPER_AB_REGISTERS, Cols>(a, b, c);
        if (form == HOPPER_AB_SHARED) product<HOPPER_AB_SHARED, Cols>(a, b, c);
        if (form == HOPPER_AB_FIRST) product<HOPPER_AB_FIRST, Cols>(a, b, c);
    }
}

extern "C" void hopper_product(hopper_form form, int cols, const uint16_t *a, const uint16_t *b, float *c)
{
    switch (cols) {
    case 16: product<16>(form, a, b, c); break;
    case 64: product<64>(form, a, b, c); break;
    case 96: product<96>(form, a, b, c); break;
    case 128: product<128>(form, a, b, c); break;
    case 144: product<144>(form, a, b, c); break;
    case 160: product<160>(form, a, b, c); break;
    case 192: product<192>(form, a, b, c); break;
    }
}

struct tile_of_heads {
    tma_tile<64, 64> tile;
    signal full;
};

__global__ void heads_kernel(const __grid_constant__ tensor_map y_map, float *c_out,
                             const __grid_constant__ tensor_map x_map, int row, int head, int row0)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<tile_of_heads *>(shared);
    begin(x.full, 1);
    if (threadIdx.x == 0) load_async(x.tile, x_map, row, head, x.full);
    x.full.wait(0);
    store_async(y_map, max(row, 0), head, x.tile);  // no store begins before row 0
    reg_tile<16, 16> c;
    mma_ABt_async(c, x.tile, part<16>(x.tile, row0));
    products_done<0>(c);
    each(c, [&](float &v, element e) { c_out[(16 * warp_in_group() + e.row) * 16 + e.col] = v; });
    stores_read();
}

extern "C" void hopper_heads(uint16_t *y, float *c, const uint16_t *x, int heads, int N, int box_heads, int row,
                             int head, int row0)
{
    const size_t count = (size_t)heads * N * 64;
    const auto x_device = as_bf16(x, count), y_device = as_bf16(y, count);
    const on_device<float> c_device(c, 64 * 16);
    heads_kernel<<<1, 128, sizeof(tile_of_heads)>>>(
        map_of(y_device.at, heads, N, 64, 64 / box_heads, box_heads), c_device.at,
        map_of(x_device.at, heads, N, 64, 64 / box_heads, box_heads), row, head, row0);
}

struct two_tiles {
    tma_tile<64, 64> tile[2];
    signal full;
};

__global__ void pending_kernel(float *early, float *late, const __grid_constant__ tensor_map map)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<two_tiles *>(shared);
    begin(x.full, 2);
    for (int i = 0; i < 2 && threadIdx.x == 0; i++) load_async(x.tile[i], map, 64 * i, 0, x.full);
    x.full.wait(0);
    reg_tile<16, 64> first, second;
    const int row0 = 16 * warp_in_group();
    mma_ABt_async(first, x.tile[0], x.tile[1]);
    mma_ABt_async(second, x.tile[1], x.tile[0]);
    products_done<1>(first);
    each(first, [&](float &v, element e) { early[(row0 + e.row) * 64 + e.col] = v; });
    products_done<0>(second);
    each(second, [&](float &v, element e) { late[(row0 + e.row) * 64 + e.col] = v; });
}

extern "C" void hopper_pending(float *early, float *late, const uint16_t *x)
{
    const auto x_device = as_bf16(x, 128 * 64);
    const on_device<float> early_device(early, 64 * 64), late_device(late, 64 * 64);
    pending_kernel<<<1, 128, sizeof(two_tiles)>>>(early_device.at, late_device.at, map_of(x_device.at, 1, 128, 64, 64));
}

// ---------------------------------------------------------------------------------------------------------------- turns

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

extern "C" void hopper_turns(int *order, int groups, int rounds)
{
    const on_device<int> order_device(order, (size_t)groups * rounds);
    if (groups == 2) turns_kernel<2><<<1, 256>>>(order_device.at, rounds);
    if (groups == 3) turns_kernel<3><<<1, 384>>>(order_device.at, rounds);
}

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

extern "C" void hopper_gather(int *came, int rounds)
{
    const on_device<int> came_device(came, (size_t)rounds + 1);
    gather_kernel<<<1, 384>>>(came_device.at, rounds);
}

// ------------------------------------------------------------------------------------------------ transposed; beside a tile

TILE_FN float element_of(const tma_tile<64, 64> &tile, int row, int col)
{
    return __bfloat162float(tile.at[0][row][(col / 8 ^ row % 8) * 8 + col % 8]);
}

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

extern "C" void hopper_transpose(float *out, const uint16_t *x)
{
    const auto x_device = as_bf16(x, 64 * 128);
    const on_device<float> out_device(out, 64 * 128);
    transpose_kernel<<<1, 128, 2 * sizeof(tma_tile<64, 64>)>>>(out_device.at, x_device.at);
}

struct numbers_beside {
    float at[64];
};
struct tiles_and_numbers {
    tma_tile<64, 64> tile[2];
    numbers_beside beside[2];
    ring_signals<2> signals;
};

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

extern "C" void hopper_send_with(float *out, const uint16_t *x, const float *beside, int tiles)
{
    const auto x_device = as_bf16(x, (size_t)tiles * 64 * 64);
    const on_device<float> beside_device(beside, (size_t)tiles * 64), out_device(out, (size_t)tiles * 64);
    send_with_kernel<<<1, 256, sizeof(tiles_and_numbers)>>>(out_device.at, map_of(x_device.at, 1, 64 * tiles, 64, 64),
                                                            reinterpret_cast<const numbers_beside *>(beside_device.at),
                                                            tiles);
}

// ----------------------------------------------------------------------------------------------------- sums over blocks

struct sum_tiles {
    fragments<64> x;
    signal full, empty;
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
            if (wrong == SUM_FREED_TOO_EARLY) s.empty.arrive();
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

// Begins early, and sees the sum all the same. Twice its numbers go through global memory and back: what load and store do.
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

extern "C" void hopper_sum(sum_hazard hazard, float *sum, const float *x, int blocks)
{
    unsigned zeros[2] = {};
    const on_device<float> x_device(x, (size_t)blocks * 2 * 64 * 64), sum_device(sum, 64 * 64);
    const on_device<unsigned> counters(zeros, 2);
    fragments<64> *total;
    check(cudaMalloc((void **)&total, sizeof *total), "cudaMalloc");
    sum_kernel<<<blocks, 256, sizeof(sum_tiles)>>>(total, counters.at, x_device.at, hazard);
    must(launch_after(unpack_kernel, dim3(1), 128, 0, nullptr, sum_device.at, total));
    check(cudaFree(total), "cudaFree");
}

// ------------------------------------------------------------------------------------------------------------- pipeline

struct pipeline_tiles {
    tma_tile<64, 64> Q[2];
    ring<tma_tile<64, 64>, 2> K, V;
    signal Q_full;
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
            const int count = tiles + (wrong == ONE_LOAD_TOO_MANY) - (wrong == ONE_LOAD_TOO_FEW);
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
        if (wrong == OTHER_RING_WAITED_FOR) V.receive();
        if (wrong != NO_WAIT_ON_FULL && wrong != OTHER_RING_WAITED_FOR) K.receive();
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
        if (wrong == RESULT_SCALED_IN_FLIGHT) each(O, [](float &o, element) { o *= 2; });
        if (wrong == WEIGHTS_CHANGED_IN_FLIGHT) round_to(P, S);
        if (t > 0 && wrong == V_RELEASED_TOO_EARLY) V.release();
        if (t > 0) products_done<0>(O);
        if (t > 0 && wrong != V_RELEASED_TOO_EARLY && (wrong != ONE_WARP_NEVER_RELEASES || threadIdx.x / 32 != 5))
            V.release();
        round_to(P, S);
    }
    mma_AB_async(O, P, V.receive());
    if (wrong != PRODUCTS_DONE_FORGOTTEN) products_done<0>(O);
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

extern "C" void hopper_pipeline(hopper_hazard wrong, float *O, const uint16_t *Q, const uint16_t *K, const uint16_t *V,
                                int tiles)
{
    uint16_t rounded[128 * 64] = {};
    {
        const size_t count = (size_t)tiles * 64 * 64;
        const auto Q_device = as_bf16(Q, 128 * 64), K_device = as_bf16(K, count), V_device = as_bf16(V, count),
                   O_device = as_bf16(rounded, 128 * 64);
        const auto kernel = pipeline_kernel;
        allow(kernel, sizeof(pipeline_tiles));
        kernel<<<1, 384, sizeof(pipeline_tiles)>>>(
            map_of(O_device.at, 1, 128, 64, 64), map_of(Q_device.at, 1, 128, 64, 64),
            map_of(K_device.at, 1, tiles * 64, 64, wrong == BOX_OF_ANOTHER_SIZE ? 32 : 64),
            map_of(V_device.at, 1, tiles * 64, 64, 64), tiles, wrong);
    }
    for (int i = 0; i < 128 * 64; i++) {
        const uint32_t wide = (uint32_t)rounded[i] << 16;
        memcpy(&O[i], &wide, 4);
    }
}
