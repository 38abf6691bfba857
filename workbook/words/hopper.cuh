// SPDX-License-Identifier: MIT
// hopper.cuh - what a Hopper GPU (sm_90a) can say beyond tile.cuh: tiles that the copy engine brings, products that
// run while the warps go on, and blocks whose warpgroups (4 warps, 128 threads) do different work.
//
// Who holds what:
//   tma_tile<Rows, Cols>      bf16 in shared memory, in the order that the copy engine writes and the tensor cores read
//   fragments<Cols>           float, a warpgroup's 64 x Cols tile on its way to a sum in global memory, or in that sum
//   reg_tile<16, Cols>        tile.cuh's: a warpgroup's 64 x Cols tile is four of these, one a warp, sixteen rows each
//   weights<Depth>            bf16 in registers: 16 x Depth a warp, the left factor of a product
//   signal                    a counter in shared memory that turns to its next phase when all that it waits for has
//                             come
//   ring<Tile, Stages>        tiles in shared memory on their way from the thread that fetches them to the warps that
//                             use them
// What can be done:
//   describe                              (host) a tensor in global memory, cut into tiles
//   shared_memory                         where a block's tiles and signals lie
//   strip                                 of a tma_tile, some of its rows as a tile
//   load_async                            global memory -> tma_tile, by the copy engine; a signal says when it is there
//   send, send_with, receive, release     one end of a ring and the other
//   mma_ABt_async, mma_AB_async           begin C = A B^T, begin C += A B; the warpgroup goes on
//   mma_AB_first_async                    begin C = A B
//   products_done<Pending>                waits for all but the last Pending products
//   round_to                              reg_tile -> weights
//   register_shares, turns                of warpgroups: who has how many registers, who comes next
//   meet, warpgroup_meets, gather         warpgroups wait for each other, or one of them for the others
//   store, store_async, stores_read       reg_tile or weights -> tma_tile -> global memory, by the copy engine
//   writes, writes_visible                a thread fills a tma_tile itself
//   store_transposed                      weights -> shared memory, as the transposed matrix
//   add_async, put_async, stores_done     fragments in shared memory, added to those in global memory or put there
//   await, announce                       blocks take turns, by a counter in global memory
//   launch_after                          a kernel that begins while the one before it ends
//
// All 32 lanes of a warp call together, and all four warps of a warpgroup; but for what is said to be done by one
// thread. Each word that may wait or be wrong ends in `from`, the line that calls it: for the CPU layer's reports,
// nothing on a GPU.
//
// Reading order: types; signals, copies and rings; products; warpgroups; stores; the host's part; and last the
// machine: PTX for sm_90a, calls of the CPU layer (workbook/cpu/include/cudacpu/hopper.h), and a trap for every other
// GPU.
#pragma once
#include "early.cuh"
#include "tile.cuh"

#ifdef __CUDACPU__
#include <cudacpu/hopper.h>
#else
#include <cuda.h>
#endif

constexpr int warpgroup_threads = 128;

namespace hopper_machine
{
#ifdef __CUDACPU__
using cudacpu::call_site, cudacpu::here, cudacpu::tile_rows;
typedef cudacpu::tensor_box tensor;
#else
struct call_site {
};
__host__ __device__ constexpr call_site here() { return {}; }
struct tile_rows {  // rows row0 ... row0 + rows - 1 of a tile, in panels whose rows have `line` bytes
    const void *at;
    int panels, panel_bytes, row0, rows;
    int line = 128;
};
typedef CUtensorMap tensor;
#endif
TILE_FN int of_first_lane(int x, call_site from);
}  // namespace hopper_machine
using hopper_machine::call_site, hopper_machine::here;

// The same for all lanes of a warp, and the compiler knows. A shuffle: all 32 lanes call, under no if for some.
TILE_FN int warpgroup_id(call_site from = here())
{
    return hopper_machine::of_first_lane(threadIdx.x / warpgroup_threads, from);
}
TILE_FN int warp_in_group(call_site from = here()) { return hopper_machine::of_first_lane(threadIdx.x / 32 % 4, from); }

// ------------------------ types

// Panels of 64 columns, so that a row of a panel has 128 bytes. Inside each eight rows the 16-byte pieces of row r are
// exchanged: piece i lies where piece i ^ (r % 8) belongs. So neither rows nor columns collide in the banks. A narrow
// tile is one panel of 32 or 16 columns: two or four rows that share a line of 128 bytes are exchanged alike.
template <int Rows, int Cols> struct alignas(1024) tma_tile {
    static_assert(Rows % 8 == 0 && Rows <= 256,
                  "Rows must be a multiple of 8, and at most 256, the copy engine's limit");
    static_assert(Cols % 64 == 0 || Cols == 32 || Cols == 16,
                  "a tile is made of panels of 64 columns, or is one panel of 32 or 16");
    static_assert(Rows * Cols % 512 == 0, "the size of a tile must be a multiple of 1024 bytes");
    static constexpr int rows = Rows, cols = Cols, panel = Cols < 64 ? Cols : 64;
    bf16 at[Cols / panel][Rows][panel];
    // Where piece i of a row lies. row % 8 of the row will do.
    static TILE_FN int place(int i, int row) { return (i % (panel / 8) ^ row % 8 * panel / 64) * 8; }
};

// Rows row0 ... row0 + Rows - 1 of a tile of one panel, as a tile: row0 is a multiple of 8.
template <int Rows, int TileRows> TILE_FN const tma_tile<Rows, 64> &strip(const tma_tile<TileRows, 64> &tile, int row0)
{
    static_assert(Rows <= TileRows, "a strip must not be larger than the tile");
    return reinterpret_cast<const tma_tile<Rows, 64> &>(tile.at[0][row0]);
}

template <int Depth> struct weights {
    static_assert(Depth % 16 == 0, "a product processes 16 columns at a time");
    static constexpr int cols = Depth;
    uint32_t x[Depth / 16][4];
};

// The four numbers of a thread's 16 x 8 block stand together, the threads side by side: so it moves 16 bytes at a time.
template <int Cols> struct alignas(128) fragments {
    static_assert(Cols % 8 == 0, "a tile is made of 16 x 8 blocks");
    float4 at[Cols / 8][warpgroup_threads];
};

typedef hopper_machine::tensor tensor_map;

// The shared memory that the block was launched with, as a T: a struct of tiles, rings and signals.
template <class T> TILE_FN T &shared_memory(call_site from = here());

// What the machine must provide; written in the last section. Of the CPU layer much is called by the same name.
namespace hopper_machine
{
#ifdef __CUDACPU__
using cudacpu::announce, cudacpu::await, cudacpu::is_turn, cudacpu::named_barrier;
using cudacpu::copy_bytes_in, cudacpu::copy_bytes_out, cudacpu::copy_in, cudacpu::copy_out, cudacpu::stores_read;
using cudacpu::signal_arrive, cudacpu::signal_init, cudacpu::signal_wait, cudacpu::signals_ready;
using cudacpu::store_8x8s, cudacpu::tile_written, cudacpu::writes_visible;
#else
TILE_FN void signal_init(uint64_t *state, int arrivals, call_site from);
TILE_FN void signal_arrive(uint64_t *state, int bytes, call_site from);  // and promises bytes
TILE_FN void signal_wait(const uint64_t *state, uint32_t phase, call_site from);
TILE_FN void signals_ready(call_site from);
TILE_FN void copy_in(void *tile, int bytes, const tensor &map, int row, int head, uint64_t *arrived, call_site from);
TILE_FN void copy_out(const void *tile, int bytes, const tensor &map, int row, int head, call_site from);
TILE_FN void copy_bytes_in(void *to, const void *src, int bytes, uint64_t *arrived, call_site from);
TILE_FN void copy_bytes_out(void *to, const void *src, int bytes, bool add, call_site from);  // add: floats
TILE_FN void stores_read(bool and_written, call_site from);
TILE_FN void tile_written(tile_rows rows, call_site from);  // by this lane, with plain stores
TILE_FN void writes_visible(call_site from);                // this lane's, to the copy engine and the tensor cores
TILE_FN void store_8x8s(tile_rows rows, void *at, const uint32_t x[4], call_site from);  // four blocks, transposed
TILE_FN void named_barrier(int barrier, int threads, bool wait, call_site from);         // arrives, and waits
TILE_FN void await(const unsigned *counter, unsigned turn, call_site from);
TILE_FN bool is_turn(const unsigned *counter, unsigned turn, call_site from);
TILE_FN void announce(unsigned *counter, call_site from);
#endif
template <int Registers, int Blocks = 1> TILE_FN void registers_down(call_site from);
template <int Registers, int Blocks = 1> TILE_FN void registers_up(call_site from);
template <class Number> TILE_FN Number load_past_cache(const Number *src);  // of this multiprocessor
template <class Number> TILE_FN void store_past_cache(Number *dst, Number x);

// C (+)= A B, C [64, Cols], in steps of 32 bytes of Depth; A in shared memory, tile_rows, or in registers. B lies as
// [Cols, Depth]; for AB: as [Depth, Cols]. Of bytes, for e4m3.cuh: A B^T.
enum class form { ABt, AB, bytes };
template <form of, int Depth, int Cols, class Left>
TILE_FN void product(reg_tile<16, Cols> &c, const Left &a, tile_rows b, bool onto, call_site from);
template <int Pending, int Cols> TILE_FN void products_wait(reg_tile<16, Cols> &c, call_site from);
template <int Cols> TILE_FN void pin(reg_tile<16, Cols> &c);  // the compiler may move no work on c across this line

template <int Rows, int Cols> TILE_FN tile_rows rows_of(const tma_tile<Rows, Cols> &t, int row0 = 0, int rows = Rows)
{
    return {&t, Cols / t.panel, (int)sizeof t.at[0], row0, rows, 2 * t.panel};
}
}  // namespace hopper_machine

// ------------------------ signals, copies, rings

// The hardware's mbarrier. It counts arrivals, and bytes that the copy engine has promised. When all are there it
// turns to its next phase. wait(p) waits until the phase of parity p (0, 1, 0, 1, ...) is over.
struct signal {
    uint64_t state;
    TILE_FN void init(int arrivals, call_site from = here()) { hopper_machine::signal_init(&state, arrivals, from); }
    TILE_FN void arrive(call_site from = here()) { hopper_machine::signal_arrive(&state, 0, from); }
    TILE_FN void arrive_and_expect(int bytes, call_site from = here())
    {
        hopper_machine::signal_arrive(&state, bytes, from);
    }
    TILE_FN void wait(uint32_t phase, call_site from = here()) const
    {
        hopper_machine::signal_wait(&state, phase, from);
    }
};

// By the thread that did the init()s, before __syncthreads(): the copy engine must see the signals too.
TILE_FN void signals_ready(call_site from = here()) { hopper_machine::signals_ready(from); }

// Tile <- box of the tensor at (row, head), zeros where the tensor ends; by one thread. Counts as one arrival at
// `arrived`, which turns when the bytes are there, too.
template <int Rows, int Cols> TILE_FN void load_async(tma_tile<Rows, Cols> &tile, const tensor_map &map, int row,
                                                      int head, signal &arrived, call_site from = here())
{
    arrived.arrive_and_expect(sizeof tile, from);
    hopper_machine::copy_in(&tile, sizeof tile, map, row, head, &arrived.state, from);
}

// Tile i is full when it has been filled, and empty when every warp that receives has released it.
template <class Tile, int Stages> struct ring {
    Tile tile[Stages];
    signal full[Stages], empty[Stages];
    TILE_FN void init(int warps, call_site from = here())  // that receive; by one thread
    {
        for (int i = 0; i < Stages; i++) full[i].init(1, from), empty[i].init(warps, from);
    }
#ifdef __CUDACPU__
    template <class F> void cudacpu_members(F f) { f("tile", tile), f("full", full), f("empty", empty); }
#endif
};

// The signals of a ring whose tiles stand elsewhere: so that none of the 1024 bytes to which tiles are aligned is lost.
template <int Stages> struct ring_signals {
    signal full[Stages], empty[Stages];
    TILE_FN void init(int warps, call_site from = here())
    {
        for (int i = 0; i < Stages; i++) full[i].init(1, from), empty[i].init(warps, from);
    }
#ifdef __CUDACPU__
    template <class F> void cudacpu_members(F f) { f("full", full), f("empty", empty); }
#endif
};

// The two ends of a ring. Each counts on its own which tile comes next. The sender is one thread.
template <class Tile, int Stages> struct sender {
    Tile *tile;
    signal *full, *empty;
    int stage = 0;
    uint32_t phase = 1;  // "the phase before the first" is over: at first all tiles are empty
    TILE_FN explicit sender(ring<Tile, Stages> &r) : tile(r.tile), full(r.full), empty(r.empty) {}
    TILE_FN sender(Tile (&t)[Stages], ring_signals<Stages> &s) : tile(t), full(s.full), empty(s.empty) {}
    TILE_FN void send(const tensor_map &map, int row, int head, call_site from = here())
    {
        empty[stage].wait(phase, from);
        load_async(tile[stage], map, row, head, full[stage], from);
        next();
    }
    // The same, and *src into beside[stage], which is full and empty with the tile.
    template <class Beside> TILE_FN void send_with(const tensor_map &map, int row, int head, Beside (&beside)[Stages],
                                                   const Beside *src, call_site from = here())
    {
        static_assert(sizeof(Beside) % 128 == 0, "the size must be a multiple of 128 bytes");
        empty[stage].wait(phase, from);
        full[stage].arrive_and_expect(sizeof tile[stage] + sizeof *src, from);
        hopper_machine::copy_in(&tile[stage], sizeof tile[stage], map, row, head, &full[stage].state, from);
        hopper_machine::copy_bytes_in(&beside[stage], src, sizeof *src, &full[stage].state, from);
        next();
    }
    TILE_FN void next()
    {
        if (++stage == Stages) stage = 0, phase ^= 1;
    }
};

template <class Tile, int Stages> struct receiver {
    Tile *tile;
    signal *full, *empty;
    int stage = 0;
    uint32_t phase = 0;
    TILE_FN explicit receiver(ring<Tile, Stages> &r) : tile(r.tile), full(r.full), empty(r.empty) {}
    TILE_FN receiver(Tile (&t)[Stages], ring_signals<Stages> &s) : tile(t), full(s.full), empty(s.empty) {}
    TILE_FN const Tile &receive(call_site from = here())  // waits for the next tile
    {
        full[stage].wait(phase, from);
        return tile[stage];
    }
    TILE_FN void release(call_site from = here())  // this warp no longer reads it
    {
        if (lane_id() == 0) empty[stage].arrive(from);
        next();
    }
    TILE_FN void next()
    {
        if (++stage == Stages) stage = 0, phase ^= 1;
    }
};

// ------------------------ products

namespace hopper_machine
{
// A left factor: 64 rows of a shared tile, or sixteen a warp in registers.
template <int Rows, int Depth> TILE_FN tile_rows left(const tma_tile<Rows, Depth> &a)
{
    static_assert(Rows == 64, "the left factor of a warpgroup has 64 rows, 16 a warp");
    return rows_of(a);
}
template <int Depth> TILE_FN auto &left(const weights<Depth> &a) { return a.x; }
}  // namespace hopper_machine

// Begin C = A B^T: C [64, Cols], A [64, Depth] in shared memory or in registers, B [Cols, Depth]. The scores Q K^T.
template <int Cols, class Left, int BRows, int BCols> TILE_FN void
mma_ABt_async(reg_tile<16, Cols> &c, const Left &a, const tma_tile<BRows, BCols> &b, call_site from = here())
{
    static_assert(BRows == Cols && BCols == Left::cols,
                  "C = A B^T: C is 64 x Cols, A is 64 x Depth, B is Cols x Depth");
    using namespace hopper_machine;
    product<form::ABt, Left::cols>(c, left(a), rows_of(b), false, from);
}

// Begin C += A B: C [64, Cols], A [64, Depth], B [Depth, Cols]. The outputs P V.
template <int Cols, class Left, int BRows, int BCols> TILE_FN void
mma_AB_async(reg_tile<16, Cols> &c, const Left &a, const tma_tile<BRows, BCols> &b, call_site from = here())
{
    static_assert(BRows == Left::cols && BCols == Cols, "C += A B: C is 64 x Cols, A is 64 x Depth, B is Depth x Cols");
    using namespace hopper_machine;
    product<form::AB, Left::cols>(c, left(a), rows_of(b), true, from);
}

// Begin C = A B: the first of a sum.
template <int Cols, class Left, int BRows, int BCols> TILE_FN void
mma_AB_first_async(reg_tile<16, Cols> &c, const Left &a, const tma_tile<BRows, BCols> &b, call_site from = here())
{
    static_assert(BRows == Left::cols && BCols == Cols, "C = A B: C is 64 x Cols, A is 64 x Depth, B is Depth x Cols");
    using namespace hopper_machine;
    product<form::AB, Left::cols>(c, left(a), rows_of(b), false, from);
}

// Waits until all products but the last Pending are done; c is the result of one that is. Each result is named so
// before it is used: the compiler does not know that it is written until then, and may give the registers of one that
// is never named to others.
template <int Pending, int Cols> TILE_FN void products_done(reg_tile<16, Cols> &c, call_site from = here())
{
    hopper_machine::products_wait<Pending>(c, from);
    hopper_machine::pin(c);
}

// A register tile already lies as a left factor must, so it is only rounded to bf16. Not before the products that
// still read the old weights are done: the compiler may not move this over products_done.
template <int Depth> TILE_FN void round_to(weights<Depth> &w, reg_tile<16, Depth> &p)
{
    hopper_machine::pin(p);
    TILE_UNROLL
    for (int k = 0; k < Depth / 16; k++) {
        TILE_UNROLL
        for (int i = 0; i < 4; i++) {
            const float *pair = &p.x[0][2 * k + i / 2][i % 2 * 2];
            w.x[k][i] = tile_machine::pack(pair[0], pair[1]);
        }
    }
}

// ------------------------ warpgroups

// A block of Fetch warpgroups that fetch and Groups that compute is launched with equal shares of the 64 K registers,
// or where Blocks share a multiprocessor (__launch_bounds__ says so) of its part of them. Those give up all but Few
// a thread, and each of the others takes Many, waiting until they are there.
template <int Groups, int Few, int Many, int Blocks = 1, int Fetch = 1> struct register_shares {
    static constexpr int at_launch = 65536 / Blocks / (warpgroup_threads * (Fetch + Groups)) / 8 * 8;
    static_assert(Few % 8 == 0 && Many % 8 == 0 && Few >= 24 && Many <= 240,
                  "register counts are multiples of 8 from 24 to 240");
    static_assert(Few <= at_launch && at_launch <= Many, "one register count must decrease, the other increase");
    static_assert(Fetch * Few + Groups * Many <= at_launch * (Fetch + Groups),
                  "the registers exceed those that the block was launched with");
    static TILE_FN void give(call_site from = here()) { hopper_machine::registers_down<Few, Blocks>(from); }
    static TILE_FN void take(call_site from = here()) { hopper_machine::registers_up<Many, Blocks>(from); }
};

// Groups warpgroups, numbered from 0, take turns; the first comes first. Each says wait() and pass() equally often.
// Barriers 1 to Groups of the hardware's sixteen (0 is __syncthreads; store_async has 8 to 15).
template <int Groups> struct turns {
    static_assert(Groups >= 1 && Groups <= 7, "there are barriers for at most 7 groups");
    int me;
    TILE_FN explicit turns(int group, call_site from = here()) : me(group)
    {
        if (Groups > 1 && me == Groups - 1) hand_to(0, from);
    }
    TILE_FN void wait(call_site from = here())
    {
        if (Groups > 1) hopper_machine::named_barrier(me + 1, 2 * warpgroup_threads, true, from);
    }
    TILE_FN void pass(call_site from = here())
    {
        if (Groups > 1) hand_to(me + 1 == Groups ? 0 : me + 1, from);
    }
    TILE_FN void hand_to(int group, call_site from)
    {
        hopper_machine::named_barrier(group + 1, 2 * warpgroup_threads, false, from);
    }
};

// Groups warpgroups wait for each other. Barrier 7.
template <int Groups> TILE_FN void meet(call_site from = here())
{
    hopper_machine::named_barrier(7, Groups * warpgroup_threads, true, from);
}

// The threads of this warpgroup wait for each other. Barriers 8 to 15, as store_async.
TILE_FN void warpgroup_meets(call_site from = here())
{
    hopper_machine::named_barrier(warpgroup_id(from) + 8, warpgroup_threads, true, from);
}

// Of Groups warpgroups, numbered from 0, number `who` waits for the others, who go on. Barriers 1 to Groups: not
// beside turns. Who comes twice in a row must know that the others have been there.
template <int Groups> TILE_FN void gather(int who, bool me, call_site from = here())
{
    static_assert(Groups >= 2 && Groups <= 6, "there are barriers for at most 6 groups");
    hopper_machine::named_barrier(who + 1, Groups * warpgroup_threads, me, from);
}

// ------------------------ stores

// What this thread has written to shared memory can be seen by the copy engine and the tensor cores, once a signal or
// a barrier has told of it.
TILE_FN void writes_visible(call_site from = here()) { hopper_machine::writes_visible(from); }

// This thread is about to write into the tile by itself, with copies or stores of its own.
template <int Rows, int Cols> TILE_FN void writes(tma_tile<Rows, Cols> &tile, call_site from = here())
{
    hopper_machine::tile_written(hopper_machine::rows_of(tile), from);
}

// All rows of a warpgroup's tile, rounded, into its shared tile: each warp its own sixteen rows.
template <int Cols> TILE_FN void store(tma_tile<64, Cols> &dst, const reg_tile<16, Cols> &tile, call_site from = here())
{
    const int row0 = 16 * warp_in_group(from), g = lane_id() / 4, t = lane_id() % 4;
    hopper_machine::tile_written(hopper_machine::rows_of(dst, row0, 16), from);
    TILE_UNROLL
    for (int i = 0; i < 2; i++) {
        TILE_UNROLL
        for (int c = 0; c < Cols / 8; c++)
            tile_machine::store_pair(&dst.at[8 * c / dst.panel][row0 + 8 * i + g][dst.place(c, g) + 2 * t], tile, i, c);
    }
}

// The same of a tile that is rounded already.
template <int Depth> TILE_FN void store(tma_tile<64, Depth> &dst, const weights<Depth> &w, call_site from = here())
{
    const int row0 = 16 * warp_in_group(from), g = lane_id() / 4, t = lane_id() % 4;
    hopper_machine::tile_written(hopper_machine::rows_of(dst, row0, 16), from);
    TILE_UNROLL
    for (int i = 0; i < 2; i++) {
        TILE_UNROLL
        for (int c = 0; c < Depth / 8; c++) {
            __nv_bfloat162 pair;
            memcpy(&pair, &w.x[c / 2][c % 2 * 2 + i], 4);
            *reinterpret_cast<__nv_bfloat162 *>(&dst.at[8 * c / dst.panel][row0 + 8 * i + g][dst.place(c, g) + 2 * t]) =
                pair;
        }
    }
}

// The warpgroup sends its shared tile to the tensor at (row, head), but for rows beyond its end. Its first thread does
// it. Neither is negative, as row may be in a load: the engine gives up.
template <int Rows, int Cols> TILE_FN void store_async(const tensor_map &map, int row, int head,
                                                       const tma_tile<Rows, Cols> &tile, call_site from = here())
{
    hopper_machine::writes_visible(from);  // what this thread wrote,
    warpgroup_meets(from);                 // and what all others did
    if (threadIdx.x % warpgroup_threads == 0) hopper_machine::copy_out(&tile, sizeof tile, map, row, head, from);
}

// Waits until what this thread has sent is read: its tile may be overwritten, and the block may end.
TILE_FN void stores_read(call_site from = here()) { hopper_machine::stores_read(false, from); }
// Waits until it is written, too: announce() may tell others.
TILE_FN void stores_done(call_site from = here()) { hopper_machine::stores_read(true, from); }

// The transposed matrix of a warpgroup's left factor, 64 x 64 Tiles, rounded already: its columns become the rows of
// Tiles tiles.
template <int Tiles, int Depth>
TILE_FN void store_transposed(tma_tile<64, 64> (&dst)[Tiles], const weights<Depth> &w, call_site from = here())
{
    static_assert(Depth == 64 * Tiles, "one tile for each 64 columns is required");
    const int row = lane_id() / 16 * 8 + lane_id() % 8, piece = 2 * warp_in_group(from) + lane_id() / 8 % 2;
    TILE_UNROLL
    for (int k = 0; k < Depth / 16; k++) {
        auto &tile = dst[k / 4];
        hopper_machine::store_8x8s(hopper_machine::rows_of(tile, k % 4 * 16, 16),
                                   &tile.at[0][k % 4 * 16 + row][(piece ^ row % 8) * 8], w.x[k], from);
    }
}

// All of a warpgroup's tile, as it is.
template <int Cols> TILE_FN void store(fragments<Cols> &dst, const reg_tile<16, Cols> &tile, call_site from = here())
{
    hopper_machine::tile_written({&dst, 1, (int)sizeof dst, 0, (int)sizeof dst / 128}, from);
    TILE_UNROLL
    for (int c = 0; c < Cols / 8; c++)
        dst.at[c][threadIdx.x % warpgroup_threads] =
            make_float4(tile.x[0][c][0], tile.x[0][c][1], tile.x[0][c][2], tile.x[0][c][3]);
}

// The copy engine adds these numbers to those at dst in global memory, or puts them there. One thread, which learns by
// stores_read() and stores_done() how far it is.
template <int Cols> TILE_FN void add_async(fragments<Cols> *dst, const fragments<Cols> &src, call_site from = here())
{
    hopper_machine::copy_bytes_out(dst, &src, sizeof src, true, from);
}
template <int Cols> TILE_FN void put_async(fragments<Cols> *dst, const fragments<Cols> &src, call_site from = here())
{
    hopper_machine::copy_bytes_out(dst, &src, sizeof src, false, from);
}

// ------------------------ blocks
// Blocks of a grid take turns at something in global memory, by a counter that is 0 at first. A block may wait only
// for those that are sure to run: begun before it (take_number), not merely with a lower blockIdx.

// One thread waits until the counter is `turn`. What the threads before have written, and awaited by stores_done()
// where the copy engine did it, can then be seen.
TILE_FN void await(const unsigned *counter, unsigned turn, call_site from = here())
{
    hopper_machine::await(counter, turn, from);
}
// true: as good as await()
TILE_FN bool is_turn(const unsigned *counter, unsigned turn, call_site from = here())
{
    return hopper_machine::is_turn(counter, turn, from);
}
// One thread: the counter goes up by one.
TILE_FN void announce(unsigned *counter, call_site from = here()) { hopper_machine::announce(counter, from); }
// The next number of a counter: in the order in which blocks begin, if each block's first thread asks for one.
TILE_FN unsigned take_number(unsigned *counter) { return atomicAdd(counter, 1u); }

// Fragments, or two numbers, in global memory that another block has left there: past the cache of this multiprocessor.
template <int Cols> TILE_FN void load(reg_tile<16, Cols> &tile, const fragments<Cols> *src)
{
    TILE_UNROLL
    for (int c = 0; c < Cols / 8; c++) {
        const float4 x = hopper_machine::load_past_cache(&src->at[c][threadIdx.x % warpgroup_threads]);
        tile.x[0][c][0] = x.x, tile.x[0][c][1] = x.y, tile.x[0][c][2] = x.z, tile.x[0][c][3] = x.w;
    }
}
template <int Cols> TILE_FN void store(fragments<Cols> *dst, const reg_tile<16, Cols> &tile)
{
    TILE_UNROLL
    for (int c = 0; c < Cols / 8; c++)
        hopper_machine::store_past_cache(
            &dst->at[c][threadIdx.x % warpgroup_threads],
            make_float4(tile.x[0][c][0], tile.x[0][c][1], tile.x[0][c][2], tile.x[0][c][3]));
}
TILE_FN void load(float2 &x, const float2 *src) { x = hopper_machine::load_past_cache(src); }
TILE_FN void store(float2 *dst, float2 x) { hopper_machine::store_past_cache(dst, x); }

// ------------------------ the host

// WB_OK, or WB_UNSUPPORTED and a sentence where the GPU is none of sm_90. For the first lines of a function.
inline wb_status check_hopper(const char *problem)
{
#ifndef __CUDACPU__
    int device, major;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    if (major != 9)
        return wb_fail(WB_UNSUPPORTED,
                       "%s needs a Hopper GPU (sm_90: H100, H200); without one it runs with BACKEND=cpu", problem);
#endif
    (void)problem;
    return WB_OK;
}

namespace hopper_machine
{
// A tensor of elements of so many bytes, cut into tiles whose panels have `line` bytes: 128, 64 or 32.
static inline wb_status describe(tensor_map &map, const void *from, int bytes, int line, int heads, int N, int D,
                                 int rows, int box_heads)
{
#ifdef __CUDACPU__
    return cudacpu::tensor_describe(map, {static_cast<const char *>(from), heads, N, D, rows, box_heads, bytes, line})
               ? WB_OK
               : wb_fail(WB_DEVICE_ERROR, "no such tensor map");
#else
    typedef CUresult (*encoder)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    const int in_line = line / bytes;
    if (box_heads > 1 && D > in_line)
        return wb_fail(WB_DEVICE_ERROR, "no such tensor map");  // panels would stand inside of heads
    static encoder encode;
    if (!encode) {  // a function of the driver: found without linking to it
        cudaDriverEntryPointQueryResult found;
        void *function = nullptr;
#if CUDART_VERSION >= 12050
        WB_CUDA(
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
#else
        WB_CUDA(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found));
#endif
        if (!function) return wb_fail(WB_DEVICE_ERROR, "the driver has no cuTensorMapEncodeTiled");
        encode = (encoder)function;
    }
    // The head is a dimension of its own, so that a ragged end is followed by zeros, not by the next head.
    const cuuint64_t size[4] = {(cuuint64_t)in_line, (cuuint64_t)N, (cuuint64_t)(D / in_line), (cuuint64_t)heads};
    const cuuint64_t stride[3] = {(cuuint64_t)D * bytes, (cuuint64_t)line,
                                  (cuuint64_t)N * D * bytes};  // bytes, from dimension 1 on
    const cuuint32_t box[4] = {(cuuint32_t)in_line, (cuuint32_t)rows, (cuuint32_t)(D / in_line), (cuuint32_t)box_heads};
    const cuuint32_t step[4] = {1, 1, 1, 1};
    const auto made = [&] {
        return encode(&map, bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 4,
                      (void *)from, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                      line == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                      : line == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                   : CU_TENSOR_MAP_SWIZZLE_32B,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    CUresult status = made();
    if (status == CUDA_ERROR_INVALID_CONTEXT) {  // a thread in which the runtime has had nothing to do
        int device;
        WB_CUDA(cudaGetDevice(&device));
        WB_CUDA(cudaSetDevice(device));
        status = made();
    }
    return status == CUDA_SUCCESS ? WB_OK : wb_fail(WB_DEVICE_ERROR, "cuTensorMapEncodeTiled: error %d", (int)status);
#endif
}
}  // namespace hopper_machine

// A tensor [heads, N, D], row-major, cut into tiles of `rows` rows and all D columns; or, where D is 64 at most, into
// tiles of the same `rows` rows of box_heads neighbouring heads, one below the other. WB_DEVICE_ERROR: it is refused.
static inline wb_status describe(tensor_map &map, const bf16 *tensor, int heads, int N, int D, int rows,
                                 int box_heads = 1)
{
    return hopper_machine::describe(map, tensor, 2, D < 64 ? 2 * D : 128, heads, N, D, rows, box_heads);
}

// kernel<<<grid, threads, bytes, stream>>>(arguments...), which may begin before what was launched last on the stream
// has ended.
template <class... Parameters, class... Arguments> wb_status launch_after(void (*kernel)(Parameters...), dim3 grid,
                                                                          int threads, size_t bytes,
                                                                          cudaStream_t stream, Arguments... arguments)
{
#ifdef __CUDACPU__
    const call_site from = here();
    cudacpu::launch({"kernel", reinterpret_cast<const void *>(kernel), from},
                    {grid, dim3((unsigned)threads), bytes, stream}, [=] { kernel(arguments...); });
    WB_CUDA(cudaGetLastError());
#else
    if (!launch_early(kernel, grid, threads, bytes, stream, arguments...))
        return wb_fail(WB_DEVICE_ERROR, "compiled for a GPU before sm_90");
    WB_CUDA(cudaGetLastError());
#endif
    return WB_OK;
}

// ------------------------ the machine, and only here
#ifdef __CUDACPU__

namespace hopper_machine
{
inline int of_first_lane(int x, call_site from) { return __shfl_sync(0xffffffffu, x, 0, 32, from); }
template <int Registers, int Blocks> void registers_down(call_site from)
{
    cudacpu::registers_change(Registers, false, Blocks, from);
}
template <int Registers, int Blocks> void registers_up(call_site from)
{
    cudacpu::registers_change(Registers, true, Blocks, from);
}
template <class Number> Number load_past_cache(const Number *src)
{
    Number x;
    cudacpu::copy_past_cache(&x, src, sizeof x);
    return x;
}
template <class Number> void store_past_cache(Number *dst, Number x) { cudacpu::copy_past_cache(dst, &x, sizeof x); }

inline void take(cudacpu::product_request &whose, const tile_rows &a) { whose.a = a; }
inline void take(cudacpu::product_request &whose, const uint32_t (*a)[4]) { whose.weights = a[0]; }
template <form of, int Depth, int Cols, class Left>
void product(reg_tile<16, Cols> &c, const Left &a, tile_rows b, bool onto, call_site from)
{
    const bool deep = of == form::AB, e4m3 = of == form::bytes;
    cudacpu::product_request mine = {&c.x[0][0][0], nullptr, {}, b, Cols, Depth, deep, onto, from, e4m3};
    take(mine, a);
    cudacpu::product_issue(mine);
}
template <int Pending, int Cols> void products_wait(reg_tile<16, Cols> &c, call_site from)
{
    cudacpu::products_wait(Pending, &c.x[0][0][0], from);
}
template <int Cols> void pin(reg_tile<16, Cols> &) {}
}  // namespace hopper_machine
template <class T> T &shared_memory(call_site from)
{
    return *cudacpu::shared_as<T>(cudacpu::dynamic_shared("memory", sizeof(T), from));
}

#else

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER_PTX(...) asm volatile(__VA_ARGS__)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#error "hopper.cuh needs sm_90a, not sm_90: ARCH=90a"
#else
#define HOPPER_PTX(...) __trap()  // check_hopper() keeps callers from here
#endif

namespace hopper_machine
{
TILE_FN uint32_t address(const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }
TILE_FN int of_first_lane(int x, call_site) { return __shfl_sync(0xffffffffu, x, 0); }

TILE_FN void signal_init(uint64_t *state, int arrivals, call_site)
{
    HOPPER_PTX("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(state)), "r"(arrivals) : "memory");
}
TILE_FN void signals_ready(call_site) { HOPPER_PTX("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TILE_FN void signal_arrive(uint64_t *state, int bytes, call_site)
{
    if (bytes == 0)
        HOPPER_PTX("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(state)) : "memory");
    else
        HOPPER_PTX("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(state)), "r"(bytes)
                   : "memory");
}
TILE_FN void signal_wait(const uint64_t *state, uint32_t phase, call_site)
{
    HOPPER_PTX("{\n.reg .pred done;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n}" ::"r"(address(state)),
               "r"(phase)
               : "memory");
}

// The copy engine finds a box by the coordinates of its first element: column, row, panel, head.
TILE_FN void copy_in(void *tile, int, const tensor &map, int row, int head, uint64_t *arrived, call_site)
{
    HOPPER_PTX("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3, %2, %4}], [%5];" ::"r"(address(tile)),
               "l"(&map), "r"(0), "r"(row), "r"(head), "r"(address(arrived))
               : "memory");
}
TILE_FN void copy_out(const void *tile, int, const tensor &map, int row, int head, call_site)
{
    HOPPER_PTX("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %1, %3}], [%4];\n"
               "cp.async.bulk.commit_group;" ::"l"(&map),
               "r"(0), "r"(row), "r"(head), "r"(address(tile))
               : "memory");
}
TILE_FN void copy_bytes_in(void *to, const void *src, int bytes, uint64_t *arrived, call_site)
{
    HOPPER_PTX(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(address(to)),
        "l"(src), "r"(bytes), "r"(address(arrived))
        : "memory");
}
TILE_FN void copy_bytes_out(void *to, const void *src, int bytes, bool add, call_site)
{
    if (add)
        HOPPER_PTX("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
                   "cp.async.bulk.commit_group;" ::"l"(to),
                   "r"(address(src)), "r"(bytes)
                   : "memory");
    else
        HOPPER_PTX("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
                   "cp.async.bulk.commit_group;" ::"l"(to),
                   "r"(address(src)), "r"(bytes)
                   : "memory");
}
TILE_FN void stores_read(bool and_written, call_site)
{
    if (and_written)
        HOPPER_PTX("cp.async.bulk.wait_group 0;" ::: "memory");
    else
        HOPPER_PTX("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
TILE_FN void tile_written(tile_rows, call_site) {}
TILE_FN void writes_visible(call_site) { HOPPER_PTX("fence.proxy.async.shared::cta;" ::: "memory"); }
TILE_FN void named_barrier(int barrier, int threads, bool wait, call_site)
{
    if (wait)
        HOPPER_PTX("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
    else
        HOPPER_PTX("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
template <int Registers, int> TILE_FN void registers_down(call_site)
{
    HOPPER_PTX("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers, int> TILE_FN void registers_up(call_site)
{
    HOPPER_PTX("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// How the tensor cores find a tile: its address, and the strides from one panel to the next (read only where the
// panels are the columns of a product) and from one group of eight rows to the next, all in units of 16 bytes.
TILE_FN uint64_t descriptor(const void *at, int panel_bytes, int line = 128)
{
    const uint64_t exchange = line == 128 ? 1 : line == 64 ? 2 : 3;
    return (uint64_t)((address(at) & 0x3ffff) >> 4) | (uint64_t)(panel_bytes >> 4) << 16 |
           (uint64_t)(8 * line >> 4) << 32 | exchange << 62;
}

TILE_FN void store_8x8s(tile_rows, void *at, const uint32_t x[4], call_site)
{
    HOPPER_PTX("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address(at)), "r"(x[0]),
               "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

template <int Cols> TILE_FN void pin(reg_tile<16, Cols> &c)
{
    TILE_UNROLL
    for (int n = 0; n < Cols / 8; n++) {
        TILE_UNROLL
        for (int i = 0; i < 4; i++) asm volatile("" : "+f"(c.x[0][n][i])::"memory");
    }
}

// One instruction: c, 64 x Cols, (+)= 64 x 16 times 16 x Cols; of bytes, 64 x 32 times 32 x Cols. A thread has Cols /
// 2 of c.
template <int Cols> struct instruction {
    static_assert(Cols == 16 || Cols == 32 || Cols == 64 || Cols == 80 || Cols == 96 || Cols == 112 || Cols == 128 ||
                      Cols == 144 || Cols == 160 || Cols == 192 || Cols == 256,
                  "a product has 16, 32, 64, 80, 96, 112, 128, 144, 160, 192 or 256 columns; others need a line "
                  "HOPPER_PRODUCT(...)");
};

// %0 ... are the accumulators, then come the operands: a descriptor or four registers of A, B's descriptor, "onto",
// "transposed".
#define HOPPER_TEN(t) \
    "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9"
#define HOPPER_8(i) \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), \
        "+f"(c[i + 7])
#define HOPPER_32(i) HOPPER_8(i), HOPPER_8(i + 8), HOPPER_8(i + 16), HOPPER_8(i + 24)
#define HOPPER_PRODUCT(cols, list, p0, p1, p2, p3, p4, p5, p6, ...) \
    template <> struct instruction<cols> { \
        template <int transposed> static TILE_FN void add(float *c, uint64_t a, uint64_t b, int onto) \
        { \
            HOPPER_PTX("{\n.reg .pred onto;\nsetp.ne.b32 onto, %" #p2 ", 0;\n" \
                       "wgmma.mma_async.sync.aligned.m64n" #cols "k16.f32.bf16.bf16 {" list "}, %" #p0 ", %" #p1 \
                       ", onto, 1, 1, 0, %" #p3 ";\n}" \
                       : __VA_ARGS__ \
                       : "l"(a), "l"(b), "r"(onto), "n"(transposed)); \
        } \
        template <int transposed> static TILE_FN void add(float *c, const uint32_t a[4], uint64_t b, int onto) \
        { \
            HOPPER_PTX("{\n.reg .pred onto;\nsetp.ne.b32 onto, %" #p5 ", 0;\n" \
                       "wgmma.mma_async.sync.aligned.m64n" #cols "k16.f32.bf16.bf16 {" list "}, {%" #p0 ", %" #p1 \
                       ", %" #p2 ", %" #p3 "}, %" #p4 ", onto, 1, 1, %" #p6 ";\n}" \
                       : __VA_ARGS__ \
                       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(onto), "n"(transposed)); \
        } \
        static TILE_FN void add_bytes(float *c, uint64_t a, uint64_t b, int onto) \
        { \
            HOPPER_PTX("{\n.reg .pred onto;\nsetp.ne.b32 onto, %" #p2 ", 0;\n" \
                       "wgmma.mma_async.sync.aligned.m64n" #cols "k32.f32.e4m3.e4m3 {" list "}, %" #p0 ", %" #p1 \
                       ", onto, 1, 1;\n}" \
                       : __VA_ARGS__ \
                       : "l"(a), "l"(b), "r"(onto)); \
        } \
        static TILE_FN void add_bytes(float *c, const uint32_t a[4], uint64_t b, int onto) \
        { \
            HOPPER_PTX("{\n.reg .pred onto;\nsetp.ne.b32 onto, %" #p5 ", 0;\n" \
                       "wgmma.mma_async.sync.aligned.m64n" #cols "k32.f32.e4m3.e4m3 {" list "}, {%" #p0 ", %" #p1 \
                       ", %" #p2 ", %" #p3 "}, %" #p4 ", onto, 1, 1;\n}" \
                       : __VA_ARGS__ \
                       : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(onto)); \
        } \
    };
#define HOPPER_T3  HOPPER_TEN() ", " HOPPER_TEN(1) ", " HOPPER_TEN(2)
#define HOPPER_T6  HOPPER_T3 ", " HOPPER_TEN(3) ", " HOPPER_TEN(4) ", " HOPPER_TEN(5)
#define HOPPER_T9  HOPPER_T6 ", " HOPPER_TEN(6) ", " HOPPER_TEN(7) ", " HOPPER_TEN(8)
#define HOPPER_T12 HOPPER_T9 ", " HOPPER_TEN(9) ", " HOPPER_TEN(10) ", " HOPPER_TEN(11)
HOPPER_PRODUCT(16, "%0, %1, %2, %3, %4, %5, %6, %7", 8, 9, 10, 11, 12, 13, 14, HOPPER_8(0))
HOPPER_PRODUCT(32, HOPPER_TEN() ", %10, %11, %12, %13, %14, %15", 16, 17, 18, 19, 20, 21, 22, HOPPER_8(0), HOPPER_8(8))
HOPPER_PRODUCT(64, HOPPER_T3 ", %30, %31", 32, 33, 34, 35, 36, 37, 38, HOPPER_32(0))
HOPPER_PRODUCT(80, HOPPER_T3 ", " HOPPER_TEN(3), 40, 41, 42, 43, 44, 45, 46, HOPPER_32(0), HOPPER_8(32))
HOPPER_PRODUCT(96, HOPPER_T3 ", " HOPPER_TEN(3) ", %40, %41, %42, %43, %44, %45, %46, %47", 48, 49, 50, 51, 52, 53, 54,
               HOPPER_32(0), HOPPER_8(32), HOPPER_8(40))
HOPPER_PRODUCT(112, HOPPER_T3 ", " HOPPER_TEN(3) ", " HOPPER_TEN(4) ", %50, %51, %52, %53, %54, %55", 56, 57, 58, 59,
               60, 61, 62, HOPPER_32(0), HOPPER_8(32), HOPPER_8(40), HOPPER_8(48))
HOPPER_PRODUCT(128, HOPPER_T6 ", %60, %61, %62, %63", 64, 65, 66, 67, 68, 69, 70, HOPPER_32(0), HOPPER_32(32))
HOPPER_PRODUCT(144, HOPPER_T6 ", " HOPPER_TEN(6) ", %70, %71", 72, 73, 74, 75, 76, 77, 78, HOPPER_32(0), HOPPER_32(32),
               HOPPER_8(64))
HOPPER_PRODUCT(160, HOPPER_T6 ", " HOPPER_TEN(6) ", " HOPPER_TEN(7), 80, 81, 82, 83, 84, 85, 86, HOPPER_32(0),
               HOPPER_32(32), HOPPER_8(64), HOPPER_8(72))
HOPPER_PRODUCT(192, HOPPER_T9 ", %90, %91, %92, %93, %94, %95", 96, 97, 98, 99, 100, 101, 102, HOPPER_32(0),
               HOPPER_32(32), HOPPER_32(64))
HOPPER_PRODUCT(256, HOPPER_T12 ", %120, %121, %122, %123, %124, %125, %126, %127", 128, 129, 130, 131, 132, 133, 134,
               HOPPER_32(0), HOPPER_32(32), HOPPER_32(64), HOPPER_32(96))

// Each step of a product goes 32 bytes of a row further in A and B, or into the next panel; in the B of A B 16 rows.
TILE_FN int step(int k, tile_rows t) { return (k * 32 / t.line * t.panel_bytes + k * 32 % t.line) / 16; }

// What step k takes of A.
TILE_FN auto steps_of(const tile_rows &a)
{
    return [a, from = descriptor(a.at, 16, a.line)](int k) { return from + step(k, a); };
}
TILE_FN auto steps_of(const uint32_t (*a)[4])
{
    return [a](int k) { return a[k]; };
}

TILE_FN void products_begin() { HOPPER_PTX("wgmma.fence.sync.aligned;" ::: "memory"); }
TILE_FN void products_issued() { HOPPER_PTX("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <form of, int Depth, int Cols, class Left>
TILE_FN void product(reg_tile<16, Cols> &c, const Left &a, tile_rows b, bool onto, call_site)
{
    constexpr bool deep = of == form::AB;
    const auto left = steps_of(a);
    const uint64_t right = descriptor(b.at, deep ? b.panel_bytes : 16, b.line);
    pin(c);
    products_begin();
    TILE_UNROLL
    for (int k = 0; k < Depth / (of == form::bytes ? 32 : 16); k++) {
        const uint64_t now = right + (deep ? k * b.line : step(k, b));
        if constexpr (of == form::bytes)
            instruction<Cols>::add_bytes(&c.x[0][0][0], left(k), now, onto || k != 0);
        else
            instruction<Cols>::template add<deep>(&c.x[0][0][0], left(k), now, onto || k != 0);
    }
    products_issued();
}
template <int Pending, int Cols> TILE_FN void products_wait(reg_tile<16, Cols> &, call_site)
{
    HOPPER_PTX("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

TILE_FN bool is_turn(const unsigned *counter, unsigned turn, call_site)
{
    unsigned now = 0;
    HOPPER_PTX("ld.acquire.gpu.global.u32 %0, [%1];\nfence.proxy.async.global;"  // for the copy engine, too
               : "=r"(now)
               : "l"(counter)
               : "memory");
    return now == turn;
}
TILE_FN void await(const unsigned *counter, unsigned turn, call_site from)
{
    while (!is_turn(counter, turn, from)) {}
}
TILE_FN void announce(unsigned *counter, call_site)
{
    HOPPER_PTX("fence.proxy.async.global;\nred.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
template <class Number> TILE_FN Number load_past_cache(const Number *src) { return __ldcg(src); }
template <class Number> TILE_FN void store_past_cache(Number *dst, Number x) { __stcg(dst, x); }
}  // namespace hopper_machine
template <class T> TILE_FN T &shared_memory(call_site)
{
    extern __shared__ __align__(1024) unsigned char hopper_shared_memory[];
    unsigned char *at = hopper_shared_memory;
    asm volatile("" : "+l"(at));  // else each loop finds it anew, before its first product: 1 to 3 % of the time
    __builtin_assume(__isShared(at));
    return *reinterpret_cast<T *>(at);
}
#undef HOPPER_PTX
#undef HOPPER_TEN
#undef HOPPER_8
#undef HOPPER_32
#undef HOPPER_PRODUCT
#undef HOPPER_T3
#undef HOPPER_T6
#undef HOPPER_T9
#undef HOPPER_T12
#endif
