// hopper_words.cu - products of hopper.cuh against loops that anyone can check; and on the CPU execution layer
// what it says of a pipeline in which one thing is wrong, once for each sentence. Loads, turns, meetings, tiles of
// several heads, transposed stores and bytes beside a tile the suites of the variants for Hopper prove (07, 08, 09).
// Elsewhere than on sm_90 and the layer every test is skipped.
#include "hopper.cuh"

#include "in_a_child.h"
#include "case/case.h"
#include "on_device.cuh"

static void start(void)
{
    if (check_hopper("this word") != WB_OK) cr_skip_test("sm_90 or the CPU execution layer is needed");
}

TestSuite(hopper, .init = start);

static uint16_t bf16_noise(void) { return wb_to_bf16((float)noise()); }

static std::vector<uint16_t> numbers(size_t count)
{
    std::vector<uint16_t> x(count);
    for (uint16_t &each : x) each = bf16_noise();
    return x;
}

static void expect(double got, double want, double tolerance, const char *what, int row, int col)
{
    cr_assert(isfinite(got) && fabs(got - want) <= tolerance, "%s [%d][%d] is %.9g, should be %.9g", what, row, col,
              got, want);
}

static void must(wb_status status)
{
    if (status == WB_OK) return;
    fprintf(stderr, "hopper_words: %s\n", wb_last_message());
    exit(1);
}

template <class Kernel> static void allow(Kernel kernel, size_t bytes)
{
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "shared memory");
}

static tensor_map map_of(const bf16 *x, int heads, int N, int D, int rows)
{
    tensor_map map;
    must(describe(map, x, heads, N, D, rows));
    return map;
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

// ------------------------ products

template <class A, class B> struct two_factors {
    A a;
    B b;
    struct signal full;
};

enum hopper_form { HOPPER_ABt, HOPPER_ABt_REGISTERS, HOPPER_AB_REGISTERS, HOPPER_AB_SHARED, HOPPER_AB_FIRST };

template <hopper_form form> constexpr bool is_ABt = form <= HOPPER_ABt_REGISTERS;
template <hopper_form form, int Depth, int Cols> using factors =
    two_factors<tma_tile<64, Depth>, tma_tile<is_ABt<form> ? Cols : Depth, is_ABt<form> ? Depth : Cols>>;

template <hopper_form form, int Depth, int Cols>
__global__ void product_kernel(float *c_out, const bf16 *a, const __grid_constant__ tensor_map a_map,
                               const __grid_constant__ tensor_map b_map)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    auto &x = *reinterpret_cast<factors<form, Depth, Cols> *>(shared);
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

// c [64, Cols] = a b^T for ABt, b [Cols, Depth]; c += a b for AB, = a b for FIRST,
// b [Depth, Cols]; a [64, Depth].
template <hopper_form form, int Depth, int Cols> static void check_product()
{
    constexpr int rows = is_ABt<form> ? Cols : Depth, cols = is_ABt<form> ? Depth : Cols;
    const auto a = numbers(64 * Depth), b = numbers(rows * cols);
    std::vector<float> before(64 * Cols);
    for (float &x : before) x = wb_from_bf16(bf16_noise());
    std::vector<float> c = before;
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
            double want = is_ABt<form> || form == HOPPER_AB_FIRST ? 0 : before[i * Cols + j];
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
}
template <int D> static void check_narrow_AB()
{
    check_product<HOPPER_AB_REGISTERS, 64, D>(), check_product<HOPPER_AB_REGISTERS, 128, D>();
    check_product<HOPPER_AB_SHARED, 64, D>(), check_product<HOPPER_AB_FIRST, 64, D>();
    check_product<HOPPER_AB_SHARED, D, 64>();  // the left one narrow
}

Test(hopper, product_ABt)
{
    check_products<HOPPER_ABt, 64, 80, 96, 112, 128, 160, 192, 256, 16, 144>();
    check_products<HOPPER_ABt_REGISTERS, 64, 128, 192>();
    check_narrow_ABt<32>(), check_narrow_ABt<16>();
}
Test(hopper, product_AB)
{
    check_products<HOPPER_AB_REGISTERS, 64, 128, 192, 256>();
    check_products<HOPPER_AB_SHARED, 64, 128, 192, 256>();
    check_products<HOPPER_AB_FIRST, 64, 128, 192>();
    check_narrow_AB<32>(), check_narrow_AB<16>();
}

// ------------------------ what may be wrong below

// What may be wrong with the pipeline, and what is said of it: the kind of report, words of it, a line of the kernel.
#define SCORES "| mma_ABt_async(S, Q, s.K.tile[K.stage]);"
#define HAZARDS(X) \
    X(NO_WAIT_ON_FULL, "tile used before it arrived", "phase 0 of K.full[0]", SCORES) \
    X(K_RELEASED_TOO_EARLY, "tile overwritten too early", "the copy engine overwrites K.tile[", "K.send(") \
    X(SCORES_READ_TOO_EARLY, "result read too early", "products_done must come first", SCORES) \
    X(WEIGHTS_CHANGED_IN_FLIGHT, "registers changed in flight", "the weights of this product", "mma_AB_async(O, P") \
    X(RESULT_SCALED_IN_FLIGHT, "result read too early", "products_done must come first", "scale_rows(O, twice)") \
    X(SENDER_BEGINS_WITH_PHASE_0, "deadlock", \
      "for phase 0 of K.empty[0] (completed phases: 0): 8 of 8 arrivals are missing", "K.send(") \
    X(RECEIVER_BEGINS_WITH_PHASE_1, "tile used before it arrived", "K.tile[0]", SCORES) \
    X(ONE_GROUP_DOES_NOT_WAIT_FOR_Q, "tile used before it arrived", "phase 0 of Q_full", SCORES) \
    X(ONE_ARRIVAL_LESS, "tile overwritten too early", "has not waited for the product", "K.send(") \
    X(ONE_ARRIVAL_MORE, "deadlock", "for phase 0 of K.empty[0] (completed phases: 0): 1 of 9 arrivals are missing", \
      "K.send(") \
    X(ONE_WARP_NEVER_RELEASES, "warps of a group disagree", "V.tile[1]", "mma_AB_async(O, P") \
    X(FEWER_BYTES_PROMISED, "bytes not promised", "have arrived at Q_full, but only", "copy_in(") \
    X(TWICE_THE_BYTES, "deadlock", \
      "for phase 0 of Q_full (completed phases: 0): 16384 of 32768 promised bytes have arrived", "s.Q_full.wait(0)") \
    X(SIGNALS_READY_FORGOTTEN, "signal not ready", "signals_ready() is missing", "load_async(s.Q[g]") \
    X(NO_BARRIER_AFTER_INIT, "signal not ready", "__syncthreads() is missing", "s.V.init(8)") \
    X(STORE_INTO_Q_IN_FLIGHT, "tile overwritten too early", "store() overwrites Q[", "store(Q, O)") \
    X(HAND_WRITTEN_STORE_IN_FLIGHT, "tile changed in flight", "Q[", SCORES) \
    X(NO_FENCE, "written tile not visible", "without a later fence", "copy_out(") \
    X(NO_GROUP_BARRIER, "written tile not visible", "have not synchronized since", "copy_out(") \
    X(STORES_READ_FORGOTTEN, "returned too early", "stores_read() is missing", "store_async(O_map") \
    X(TURN_NEVER_PASSED, "deadlock", "for 256 threads: 128 have not arrived", "turn.wait()") \
    X(TOO_MANY_REGISTERS, "deadlock", "more registers per thread (it has", "registers_up<240>") \
    X(ONE_WARP_SKIPS_A_PRODUCT, "warps of a group disagree", "the four warps of a group must issue equally many", \
      "products_done<1>(S)") \
    X(FIRST_SCORES_NOT_DONE, "result read too early", \
      "products_done<1> is a result that may be incomplete: 1 product is in flight, and up to 1 may remain", SCORES) \
    X(RESULT_THROWN_AWAY, "result thrown away", "was never passed to products_done", "mma_ABt_async(nobody, Q, Q)") \
    X(RESULT_OVERWRITTEN, "result thrown away", "another product writes its result", "mma_ABt_async(nobody, Q, Q)") \
    X(ONE_LOAD_TOO_MANY, "returned too early", "V.tile[1]: no thread waited for this copy", "V.send(") \
    X(SHUFFLE_UNDER_IF, "deadlock", "__shfl_sync()", "warp_in_group()") \
    X(BOX_OF_ANOTHER_SIZE, "box of another size", "K.tile[0] has 8192 bytes", "K.send(") \
    X(STORE_BEFORE_ROW_0, "store before the tensor", "would begin at row -1 of head 0", "store_async(O_map")

// The same of a sum.
#define SUM_HAZARDS(X) \
    X(SUM_WITHOUT_FENCE, "written tile not visible", "without a later fence", "put_async(sum, s.x)") \
    X(SUM_NOT_WAITED_FOR, "written tile not visible", "have not synchronized since", "put_async(sum, s.x)") \
    X(SUM_FREED_TOO_EARLY, "tile overwritten too early", "a barrier or mbarrier is missing", "store(s.x, mine)") \
    X(SUM_FREED_UNREAD, "tile overwritten too early", "stores_read(), or a barrier after it", "store(s.x, mine)") \
    X(SUM_ANNOUNCED_TOO_EARLY, "announced too early", "stores_done() is missing", "announce(&counters[1])") \
    X(SUM_NEVER_ANNOUNCED, "deadlock", "for a counter in device memory to become", "await(&counters[1], turn)") \
    X(SUM_TAKEN_ONCE_MORE, "deadlock", "(completed phases: 2; it has seen them all, and waits for one more)", \
      "s.full.wait(i)") \
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

__global__ void sum_kernel(fragments<64> *sum, unsigned *counters, sum_hazard chosen)
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
        for (int i = 0; i < 2 + (wrong == SUM_TAKEN_ONCE_MORE) && threadIdx.x == 0; i++) {
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
    const reg_tile<16, 64> mine = {};
    for (int i = 0; i < 2; i++) {
        s.empty.wait(i ^ 1);
        store(s.x, mine);
        if (wrong != SUM_WITHOUT_FENCE) writes_visible();
        __syncwarp();
        if (lane_id() == 0) s.full.arrive();
    }
}

// A sum [64, 64] in the order of the blocks, two tiles of each of six, added by the copy engine. One thing is wrong.
static void add_up(sum_hazard hazard)
{
    unsigned zeros[2] = {};
    const on_device<unsigned> counters(zeros, 2);
    fragments<64> *total;
    check(cudaMalloc((void **)&total, sizeof *total), "cudaMalloc");
    sum_kernel<<<6, 256, sizeof(sum_tiles)>>>(total, counters.at, hazard);
    check(cudaFree(total), "cudaFree");
}

// ------------------------ pipeline

struct pipeline_tiles {
    tma_tile<64, 64> Q[2];
    ring<tma_tile<64, 64>, 2> K, V;
    struct signal Q_full;
};

TILE_FN void make_signals(pipeline_tiles &s, hopper_hazard wrong)
{
    if (threadIdx.x == 0) {
        s.Q_full.init(2);
        s.K.init(wrong == ONE_ARRIVAL_LESS ? 7 : wrong == ONE_ARRIVAL_MORE ? 9 : 8);
        s.V.init(8);
        if (wrong != SIGNALS_READY_FORGOTTEN) signals_ready();
    }
    if (wrong != NO_BARRIER_AFTER_INIT) __syncthreads();
}

// Thread 0 of the first warpgroup sends Q and K, thread 32 V.
TILE_FN void send_tiles(pipeline_tiles &s, const tensor_map &Q_map, const tensor_map &K_map, const tensor_map &V_map,
                        int tiles, hopper_hazard wrong)
{
    if (threadIdx.x == 0) {
        sender K(s.K);
        if (wrong == SENDER_BEGINS_WITH_PHASE_0) K.phase = 0;
        for (int g = 0; g < 2; g++) {
            if (wrong == FEWER_BYTES_PROMISED || wrong == TWICE_THE_BYTES) {
                s.Q_full.arrive_and_expect(wrong == FEWER_BYTES_PROMISED ? sizeof s.Q[g] * 3 / 4 : 2 * sizeof s.Q[g]);
                hopper_machine::copy_in(&s.Q[g], sizeof s.Q[g], Q_map, 64 * g, 0, &s.Q_full.state, here());
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
}

// A warpgroup stores its O in the place of its Q, and sends that.
TILE_FN void send_result(const tensor_map &O_map, tma_tile<64, 64> &Q, const reg_tile<16, 64> &O, int row,
                         hopper_hazard wrong)
{
    store(Q, O);
    if (wrong == NO_FENCE || wrong == NO_GROUP_BARRIER) {
        if (wrong == NO_GROUP_BARRIER) hopper_machine::writes_visible(here());
        if (wrong == NO_FENCE) hopper_machine::named_barrier(8 + warpgroup_id(), 128, true, here());
        if (threadIdx.x % 128 == 0) hopper_machine::copy_out(&Q, sizeof Q, O_map, row, 0, here());
    } else {
        store_async(O_map, row - (wrong == STORE_BEFORE_ROW_0 ? 1 : 0), 0, Q);
    }
    if (wrong != STORES_READ_FORGOTTEN) stores_read();
}

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
    make_signals(s, wrong);
    if (warpgroup_id() == 0) {
        registers::give();
        return send_tiles(s, Q_map, K_map, V_map, tiles, wrong);
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
    send_result(O_map, Q, O, 64 * group, wrong);
}

enum { TILES = 7 };
static std::vector<uint16_t> Q, K, V;

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
}

// Nothing is said of what is right. That it computes the right numbers, the suites of 10 and 16 prove, and of sums that
// of 08's variants.
Test(hopper, says_nothing) { make_inputs(), run_pipeline(NOTHING_WRONG), add_up(SUM_RIGHT); }

// ------------------------ what the CPU execution layer says of mistakes

// A report, exit status 66, with this kind, these words, and this line of the kernel.
static void check_report(void (*run)(void), const char *kind, const char *words, const char *line)
{
    if (getenv("WB_BACKEND") && strcmp(getenv("WB_BACKEND"), "cuda") == 0)
        cr_skip_test("a GPU does not report this: it hangs, or computes");
    check_reported(run_in_a_child(run));
    char first[128];
    snprintf(first, sizeof first, "cudacpu: %s in kernel", kind);
    cr_assert(strstr(printed, first) == printed, "not \"%s\":\n%s", first, printed);
    check_printed(words);
    check_printed(line);
    cr_assert(!strstr(printed, ".cuh:"), "a line of a word, and not the kernel's:\n%s", printed);
}

static int wrong;  // in what runs apart
static void pipeline_apart(void) { make_inputs(), run_pipeline((hopper_hazard)wrong); }
static void sum_apart(void) { add_up((sum_hazard)wrong); }

#define SAYS(hazard, kind, words, line) \
    Test(hopper, says_##hazard) { wrong = hazard, check_report(pipeline_apart, kind, words, line); }
#define SAYS_OF_SUM(hazard, kind, words, line) \
    Test(hopper, says_##hazard) { wrong = hazard, check_report(sum_apart, kind, words, line); }
HAZARDS(SAYS)
SUM_HAZARDS(SAYS_OF_SUM)
