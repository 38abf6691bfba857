// pipelines.cu - what the check build says of warps that hand tiles to one another and to the copy engine (hopper.cuh),
// in programs that are drawn: loads, sends, loads and stores of the threads' own, signals that count one to three
// arrivals, barriers of the block. A program in which all that has to be is ordered is not reported, whatever the order
// in which threads run. Without one of its waits it is, if that leaves two uses of a tile that may meet, and it is not
// if it leaves none. A program of the check build, run by drawn.sh.
//
//   pipelines_worker [SEED [PROGRAMS]]     exit status 1: something was said wrongly, or of a hundred in which uses may
//                                          meet more than three were missed
#include "hopper.cuh"

#include "drawn.h"

#include <algorithm>
#include <bitset>
#include <string.h>
#include <vector>

enum { TILES = 3, SIGNALS = 4, WARPS = 8, MOST_STEPS = 400, MOST_NODES = 512, ROWS = 16, ENOUGH = 40 };
enum kind {
    LOAD,
    READ,
    WRITE,
    SEND,
    SENT,
    ARRIVE,
    WAIT,
    SYNC
};  // SEND: of a tile to global memory, by the engine; SENT: that is over
static bool only_reads(int what) { return what == READ || what == SEND; }
struct step {
    int what, tile, signal, phase;
};

// The program: what each warp does, and how many arrivals turn each signal.
static struct {
    int warps, arrivals[SIGNALS], count[WARPS];
    step steps[WARPS][MOST_STEPS];
} p;

// ------------------------ as a kernel

struct shared_tiles {
    tma_tile<ROWS, 64> tile[TILES];
    struct signal turned[SIGNALS];
};

__global__ void play(float *out, const __grid_constant__ tensor_map from, const __grid_constant__ tensor_map to)
{
    auto &m = shared_memory<shared_tiles>();
    const int w = threadIdx.x / 32;
    float sum = 0;
    if (threadIdx.x == 0) {
        for (int s = 0; s < SIGNALS; s++) m.turned[s].init(p.arrivals[s]);
        signals_ready();
    }
    __syncthreads();
    for (int i = 0; i < p.count[w]; i++) {
        const step &o = p.steps[w][i];
        auto &tile = m.tile[o.tile];
        bf16 *at = reinterpret_cast<bf16 *>(&tile);
        __syncwarp();
        if (o.what == LOAD && lane_id() == 0) load_async(tile, from, i % 4 * ROWS, 0, m.turned[o.signal]);
        if (o.what == SEND && lane_id() == 0) hopper_machine::copy_out(&tile, sizeof tile, to, i % 4 * ROWS, 0, here());
        if (o.what == ARRIVE && lane_id() == 0) m.turned[o.signal].arrive();
        if (o.what == WAIT) m.turned[o.signal].wait(o.phase & 1);
        if (o.what == SENT) stores_read();
        if (o.what == SYNC) __syncthreads();
        if (o.what == WRITE) writes(tile);
        for (int k = lane_id(); k < ROWS * 64; k += 32) {
            if (o.what == READ) sum += __bfloat162float(at[k]);
            if (o.what == WRITE) at[k] = __float2bfloat16(1.0f);
        }
        if (o.what == WRITE) writes_visible();
    }
    stores_read();
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

static void run()
{
    bf16 *x, *y;
    float *out;
    tensor_map from, to;
    if (order) wb_run_in_order(order);
    const size_t bytes = 4 * ROWS * 64 * sizeof *x;
    cudaMalloc(&x, bytes), cudaMalloc(&y, bytes), cudaMalloc(&out, WARPS * 32 * sizeof *out);
    cudaMemset(x, 0, bytes);
    if (describe(from, x, 1, 4 * ROWS, 64, ROWS) != WB_OK || describe(to, y, 1, 4 * ROWS, 64, ROWS) != WB_OK) exit(3);
    cudaFuncSetAttribute(play, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(shared_tiles));
    play<<<1, p.warps * 32, sizeof(shared_tiles)>>>(out, from, to);
    cudaDeviceSynchronize();
}

// ------------------------ what a warp knows
// A node is something that is over: a use of a tile, a phase of a signal, a wait for one. What a load brings is over
// for a warp that has waited for its signal, a send for its warp once that is SENT; and for others what warps know who
// have arrived before.

typedef std::bitset<MOST_NODES> set_of_nodes;
struct use {
    int node, what, warp, tile, signal, phase;  // signal, phase: of a load
};
struct signal_state {
    int phase, arrived, turned, turned_before;  // nodes: that the last phase was over, and the one before
    set_of_nodes collecting, known;             // of this phase, and of the last one
    std::vector<int> waits;                     // for the last phase, so far
};
struct knowledge {
    int nodes;
    set_of_nodes of[WARPS];
    signal_state signals[SIGNALS];
    std::vector<int> sends[WARPS];  // that are not known to be over
    std::vector<use> uses;

    void arrive(int s, const set_of_nodes &known)
    {
        signal_state &g = signals[s];
        g.collecting |= known;
        if (++g.arrived < p.arrivals[s]) return;
        g.turned_before = g.turned, g.turned = nodes++;
        g.known = g.collecting, g.known[g.turned] = true, g.collecting.reset();
        g.phase++, g.arrived = 0, g.waits.clear();
    }
    void wait(int w, int s)
    {
        of[w] |= signals[s].known;
        signals[s].waits.push_back(nodes), of[w][nodes++] = true;
    }
    void sync()
    {
        for (int w = 1; w < p.warps; w++) of[0] |= of[w];
        for (int w = 1; w < p.warps; w++) of[w] = of[0];
    }
    void sent(int w)
    {
        for (int node : sends[w]) of[w][node] = true;
        sends[w].clear();
    }
    void use_tile(int w, const step &o)
    {
        const int node = nodes++;
        uses.push_back({node, o.what, w, o.tile, o.signal, signals[o.signal].phase});
        if (o.what == READ || o.what == WRITE) of[w][node] = true;
        if (o.what == SEND) sends[w].push_back(node);
        set_of_nodes known = of[w];
        known[node] = true;
        if (o.what == LOAD) arrive(o.signal, known);
    }
    // A use that this one may meet; null: none.
    const use *met(int w, int what, int tile) const
    {
        for (const use &u : uses)
            if (u.tile == tile && !of[w][u.node] && !(only_reads(u.what) && only_reads(what))) return &u;
        return nullptr;
    }
    bool somebody_knows(int node) const
    {
        return std::any_of(of, of + p.warps, [&](const set_of_nodes &known) { return known[node]; });
    }
    // Whether it can wait for no other phase: it knows that the one before is over.
    bool may_wait(int w, int s, int phase) const
    {
        const signal_state &g = signals[s];
        return g.phase == phase + 1 && (phase == 0 || of[w][g.turned_before]);
    }
    // Whether an arrival of this warp's can count for this phase alone: it knows that the last one is over, and who has
    // waited for that.
    bool may_arrive(int w, int s) const
    {
        const signal_state &g = signals[s];
        return (g.phase == 0 || of[w][g.turned]) &&
               std::all_of(g.waits.begin(), g.waits.end(), [&](int node) { return of[w][node]; });
    }
};
static knowledge now;  // while a program is drawn

// ------------------------ drawing a program

static void add(int w, const step &o) { p.steps[w][p.count[w]++] = o; }
static bool is_full()
{
    return now.nodes > MOST_NODES - ENOUGH ||
           std::any_of(p.count, p.count + p.warps, [](int count) { return count > MOST_STEPS - ENOUGH; });
}
static void sync_all()
{
    for (int w = 0; w < p.warps; w++) add(w, {SYNC, 0, 0, 0});
    now.sync();
}
static void arrive(int w, int s) { add(w, {ARRIVE, 0, s, 0}), now.arrive(s, now.of[w]); }
static void wait_for(int w, int s)  // for its last phase
{
    const int phase = now.signals[s].phase - 1;
    if (!now.may_wait(w, s, phase)) sync_all();
    add(w, {WAIT, 0, s, phase}), now.wait(w, s);
}
static void make_ready(int w, int s)  // so that it may arrive
{
    const signal_state &g = now.signals[s];
    if (g.phase > 0 && !now.somebody_knows(g.turned)) wait_for(w, s);
    if (!now.may_arrive(w, s)) sync_all();
}
static int some_warp() { return (int)draw((unsigned)p.warps); }

// A step towards the warp's knowing that this use is over, in one of the ways that there are.
static void learn(int w, const use &u)
{
    if (now.somebody_knows(u.node)) {
        const int s = (int)draw(SIGNALS);
        std::vector<int> all, knowing;
        for (int v = 0; v < p.warps; v++)
            if (now.may_arrive(v, s)) all.push_back(v);
        for (int v : all)
            if (now.of[v][u.node]) knowing.push_back(v);
        if (knowing.empty() || draw(5) == 0) return sync_all();
        for (int left = p.arrivals[s] - now.signals[s].arrived; left > 0; left--) {
            const std::vector<int> &from = left == 1 ? knowing : all;
            arrive(from[draw((unsigned)from.size())], s);
        }
        wait_for(w, s);
    } else if (u.what == SEND) {
        add(u.warp, {SENT, 0, 0, 0}), now.sent(u.warp);
    } else {  // a load
        while (now.signals[u.signal].phase == u.phase) {
            const int by = some_warp();
            make_ready(by, u.signal);
            arrive(by, u.signal);
        }
        wait_for(draw(2) ? w : some_warp(), u.signal);
    }
}

static void draw_program()
{
    memset(&p, 0, sizeof p), now = knowledge();
    p.warps = 4 * (1 + (int)draw(WARPS / 4));
    for (int &arrivals : p.arrivals) arrivals = 1 + (int)draw(3);
    for (int left = 3 + (int)draw(20); left > 0 && !is_full(); left--) {
        const int w = some_warp(), tile = (int)draw(TILES);
        const bool is_new =
            std::none_of(now.uses.begin(), now.uses.end(), [&](const use &u) { return u.tile == tile; });
        const step o = {is_new ? (draw(3) ? LOAD : WRITE) : (int)draw(SEND + 1), tile, (int)draw(SIGNALS), 0};
        while (const use *met = now.met(w, o.what, tile)) learn(w, use(*met));
        if (o.what == LOAD) make_ready(w, o.signal);
        add(w, o), now.use_tile(w, o);
    }
    for (const use &u : std::vector<use>(now.uses))  // nothing is on its way when the block ends
        while (u.what == LOAD && !now.somebody_knows(u.node)) learn(u.warp, u);
}

// ------------------------ what may happen in a program

enum outcome { ENDS, MEETS, STUCK, MIXES };  // MIXES: an arrival may count for another phase than it was meant for

static outcome happen_in_some_order()
{
    knowledge all = {};
    for (int at[WARPS] = {};;) {
        std::vector<int> ready;
        int ended = 0, waiting = 0;
        for (int w = 0; w < p.warps; w++) {
            const step &o = p.steps[w][at[w]];
            if (at[w] == p.count[w])
                ended++;
            else if (o.what == SYNC)
                waiting++;
            else if (o.what != WAIT || (all.signals[o.signal].phase & 1) != (o.phase & 1))
                ready.push_back(w);
        }
        if (ended == p.warps) break;
        if (waiting == p.warps) {
            all.sync();
            for (int w = 0; w < p.warps; w++) at[w]++;
            continue;
        }
        if (ready.empty()) return STUCK;
        const int w = ready[draw((unsigned)ready.size())];
        const step &o = p.steps[w][at[w]++];
        if (o.what == WAIT && !all.may_wait(w, o.signal, o.phase)) return MIXES;
        if (o.what == WAIT) all.wait(w, o.signal);
        if ((o.what == ARRIVE || o.what == LOAD) && !all.may_arrive(w, o.signal)) return MIXES;
        if (o.what == ARRIVE) all.arrive(o.signal, all.of[w]);
        if (o.what == SENT) all.sent(w);
        if (o.what > SEND) continue;
        if (all.met(w, o.what, o.tile)) return MEETS;
        all.use_tile(w, o);
    }
    const bool is_over = std::all_of(all.uses.begin(), all.uses.end(),
                                     [&](const use &u) { return u.what != LOAD || all.somebody_knows(u.node); });
    return is_over ? ENDS : MEETS;
}

// ------------------------ judged

int main(int argc, char **argv)
{
    const unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 1, count = argc > 2 ? (unsigned)atoi(argv[2]) : 300;
    int right = 0, broken = 0, missed = 0, wrong = 0;
    const auto judge = [&](unsigned number, const char *what, bool may_meet) {
        const int status = status_of_run();
        (may_meet ? broken : right)++;
        if (may_meet && status == 0) missed++;
        if (status == 0 || (may_meet && WIFEXITED(status) && WEXITSTATUS(status) == 66)) return;
        wrong++;
        printf("pipelines_worker %u 1, %s, order %ld: status %#x\n%s", number, what, order, (unsigned)status, printed);
    };
    for (unsigned number = first; number < first + count; number++) {
        seed = number;
        draw(2);
        draw_program();
        judge(number, "as it was drawn", false);
        std::vector<step *> waits;
        for (int w = 0; w < p.warps; w++)
            for (int i = 0; i < p.count[w]; i++)
                if (p.steps[w][i].what == WAIT || p.steps[w][i].what == SENT) waits.push_back(&p.steps[w][i]);
        if (waits.empty()) continue;
        step *const gone = waits[draw((unsigned)waits.size())];
        const int w = (int)((gone - p.steps[0]) / MOST_STEPS);
        memmove(gone, gone + 1, (size_t)(p.steps[w] + p.count[w]-- - gone - 1) * sizeof *gone);
        outcome worst = ENDS;
        for (int tries = 0; tries < 20; tries++) worst = std::max(worst, happen_in_some_order());
        if (worst != MIXES) judge(number, "without a wait", worst != ENDS);
    }
    printf("seed %u: %d correct programs, %d without a wait; wrong reports for %d, "
           "of %d nothing\n",
           first, right, broken, wrong, missed);
    return wrong || missed * 100 > 3 * broken;
}
