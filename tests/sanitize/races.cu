// races.cu - what the check build says of races, in programs that are drawn: threads of several blocks that read,
// write and do atomics, of 1 to 16 bytes, on a few words of shared and of device memory, with barriers of the block and
// of any lanes of a warp between. A program without a race is not reported, whatever the order in which threads run. Of
// one that has races the report names two accesses that make one. Which accesses race is found here by what each thread
// knows of every other. A program of the check build.
//
//   races_worker [SEED [PROGRAMS]]     exit status 1: something was said wrongly, or of a hundred programs with races
//                                      more than two were missed
#include "dice.h"
#include "in_a_child.h"

#include <algorithm>
#include <cuda_runtime.h>
#include <sys/resource.h>
#include <vector>

static unsigned draw(unsigned n) { return (unsigned)below((int)n); }
// What the check build says of run(), in a process of its own, is `printed`; returns its status.
static long order;
static void run();
static int status_of_run()
{
    order = draw(2) ? draw(1000) : draw(2);  // of threads: wb_run_in_order()
    return run_in_a_child([] {
        const struct rlimit seconds = {60, 70};  // of a processor
        setrlimit(RLIMIT_CPU, &seconds);
        run();
        exit(0);
    });
}

enum { WORDS = 32, WARP = 32, MOST_THREADS = 128, MOST_BLOCKS = 3, MOST_STEPS = 24, MASKS = 2 };
enum kind { NONE, READ, WRITE, ATOMIC };
static const char *const verbs[] = {"", "reads", "writes", "does an atomic"};
enum step { ACCESSES, SYNC_LANES, SYNC_BLOCK };

struct op {
    int what, at, bytes;
    bool shared;
};

// The program: what each thread does in each step, and how it ends.
static struct {
    int threads, blocks, steps;
    op ops[MOST_BLOCKS][MOST_THREADS][MOST_STEPS];
    int step[MOST_STEPS];
    unsigned masks[MOST_STEPS][MOST_THREADS / WARP][MASKS];  // of lanes that meet, no lane in two
} p;

// ------------------------ as a kernel

__device__ unsigned touch(unsigned char *at, const op &o, unsigned value)
{
    switch (o.what * 32 + o.bytes) {
    case READ * 32 + 1: return *at;
    case READ * 32 + 2: return *(uint16_t *)at;
    case READ * 32 + 4: return *(uint32_t *)at;
    case READ * 32 + 8: return (unsigned)(*(uint64_t *)at % 1000003);
    case READ * 32 + 16: {
        const uint4 x = *(uint4 *)at;
        return x.x + 3 * x.y + 5 * x.z + 7 * x.w;
    }
    case WRITE * 32 + 1: *at = (unsigned char)value; break;
    case WRITE * 32 + 2: *(uint16_t *)at = (uint16_t)value; break;
    case WRITE * 32 + 4: *(uint32_t *)at = value; break;
    case WRITE * 32 + 8: *(uint64_t *)at = value; break;
    case WRITE * 32 + 16: *(uint4 *)at = make_uint4(value, value, value, value); break;
    case ATOMIC * 32 + 4: atomicAdd((unsigned *)at, value); break;
    }
    return 0;
}

__global__ void play(unsigned char *global, unsigned *results)
{
    __shared__ uint4 words[WORDS / 4];
    unsigned sum = 0;
    const int t = threadIdx.x;
    if (t < WORDS) ((unsigned *)words)[t] = t;
    __syncthreads();
    for (int s = 0; s < p.steps; s++) {
        const op &o = p.ops[blockIdx.x][t][s];
        if (p.step[s] == SYNC_BLOCK) __syncthreads();
        for (int m = 0; m < MASKS && p.step[s] == SYNC_LANES; m++)
            if (p.masks[s][t / WARP][m] >> t % WARP & 1) __syncwarp(p.masks[s][t / WARP][m]);
        if (p.step[s] == ACCESSES) sum += touch((o.shared ? (unsigned char *)words : global) + o.at, o, s + t);
    }
    results[blockIdx.x * blockDim.x + t] = sum;
}

static void run()
{
    unsigned char *global;
    unsigned *results;
    if (order) wb_run_in_order(order);
    cudaMalloc(&global, WORDS * 4);
    cudaMalloc(&results, MOST_BLOCKS * MOST_THREADS * sizeof *results);
    cudaMemset(global, 0, WORDS * 4);
    play<<<p.blocks, p.threads>>>(global, results);
    cudaDeviceSynchronize();
}

// ------------------------ as it is drawn

typedef std::vector<int> clock_of_threads;  // what a thread knows of each of its block, itself included
struct deed {
    int block, thread;
    op what;
    clock_of_threads then;
};
struct race {
    deed a, b;
};

static bool race_each_other(const deed &a, const deed &b)
{
    if (a.what.shared != b.what.shared || (a.what.shared && a.block != b.block)) return false;
    if (a.what.at >= b.what.at + b.what.bytes || b.what.at >= a.what.at + a.what.bytes) return false;
    if (a.what.what == b.what.what && a.what.what != WRITE) return false;
    if (a.block != b.block) return true;
    const size_t i = (size_t)a.thread, k = (size_t)b.thread;
    return i != k && a.then[i] > b.then[i] && b.then[k] > a.then[k];
}

// These threads of a block meet.
static void meet(std::vector<clock_of_threads> &clocks, const std::vector<size_t> &threads)
{
    clock_of_threads all(clocks.size());
    for (size_t t : threads)
        for (size_t i = 0; i < all.size(); i++) all[i] = std::max(all[i], clocks[t][i]);
    for (size_t t : threads) clocks[t] = all, clocks[t][t]++;
}

// Draws a program with so many accesses, at most, that race with earlier ones; returns its races.
static std::vector<race> draw_program(int racing)
{
    std::vector<race> races;
    std::vector<deed> deeds;
    std::vector<clock_of_threads> clocks[MOST_BLOCKS];
    memset(&p, 0, sizeof p);
    p.threads = WARP * (1 + (int)draw(MOST_THREADS / WARP)), p.blocks = 1 + (int)draw(MOST_BLOCKS);
    p.steps = 3 + (int)draw(MOST_STEPS - 3);
    const unsigned density = 1 + draw(6), words = 1 + (draw(3) ? draw(3) : draw(WORDS)),
                   few = draw(3) ? 2 + draw(6) : 0, in_shared = draw(5), atomics = draw(3), calm = 5 + draw(3);
    const bool wide = draw(3);
    const auto some_thread = [&] {
        return (int)(few ? draw(few) * 5 % (unsigned)p.threads : draw((unsigned)p.threads));
    };
    for (int b = 0; b < p.blocks; b++)
        for (size_t t = 0; t < (size_t)p.threads; t++)
            clocks[b].push_back(clock_of_threads((size_t)p.threads)), clocks[b][t][t] = 1;
    for (int s = 0; s < p.steps; s++) {
        const unsigned what = draw(calm);
        p.step[s] = what == 0 ? SYNC_BLOCK : what == 1 ? SYNC_LANES : ACCESSES;
        std::vector<std::vector<size_t>> meetings;
        for (int w = 0; w < p.threads / WARP && p.step[s] == SYNC_LANES; w++) {
            unsigned *masks = p.masks[s][w];
            masks[0] = draw(2)          ? ~0u
                       : few && draw(2) ? 1u | 1u << some_thread() % WARP
                                        : draw(1 << 16) << 16 | draw(1 << 16);
            masks[1] = draw(2) ? ~masks[0] : 0;
            for (int m = 0; m < MASKS; m++) {
                meetings.push_back({});
                for (size_t lane = 0; lane < WARP; lane++)
                    if (masks[m] >> lane & 1) meetings.back().push_back((size_t)w * WARP + lane);
            }
        }
        if (p.step[s] == SYNC_BLOCK) meetings.push_back({});
        for (size_t t = 0; t < (size_t)p.threads && p.step[s] == SYNC_BLOCK; t++) meetings.back().push_back(t);
        for (int b = 0; b < p.blocks; b++)
            for (const std::vector<size_t> &threads : meetings) meet(clocks[b], threads);
        for (unsigned i = 0; i < density * density && p.step[s] == ACCESSES; i++) {
            static const int sizes[] = {4, 4, 1, 2, 8, 16};
            const int block = (int)draw((unsigned)p.blocks), thread = some_thread();
            op &o = p.ops[block][thread][s],
               drawn = {draw(4) < atomics ? (int)ATOMIC : READ + (int)draw(2), 0, 4, draw(4) >= in_shared};
            if (drawn.what != ATOMIC) drawn.bytes = sizes[draw(wide ? 6 : 2)];
            if (o.what || drawn.bytes > (int)words * 4) continue;
            drawn.at = (int)draw(words * 4 / (unsigned)drawn.bytes) * drawn.bytes;
            const deed now = {block, thread, drawn, clocks[block][(size_t)thread]};
            std::vector<race> its;
            for (const deed &d : deeds)
                if (race_each_other(d, now)) its.push_back({d, now});
            if (!its.empty() && (racing < 1 || draw(4))) continue;
            racing -= !its.empty();
            races.insert(races.end(), its.begin(), its.end());
            deeds.push_back(now);
            o = drawn;
        }
    }
    return races;
}

// ------------------------ judged

// Whether the two sides of the report are those of a race.
static bool names_one(const std::vector<race> &races)
{
    int block[2], thread[2];
    char verb[2][32];
    const char *side[2] = {strstr(printed, "before   "), strstr(printed, "now      ")};
    for (int i = 0; i < 2; i++)
        if (!side[i] || sscanf(side[i] + 9, "block (%d,0,0), thread (%d,0,0) = warp %*d lane %*d, %31[a-z ]", &block[i],
                               &thread[i], verb[i]) != 3)
            return false;
    const auto is = [&](const deed &d, int i) {
        const char *does = verbs[d.what.what];
        return d.block == block[i] && d.thread == thread[i] && strncmp(verb[i], does, strlen(does)) == 0;
    };
    return std::any_of(races.begin(), races.end(),
                       [&](const race &r) { return (is(r.a, 0) && is(r.b, 1)) || (is(r.a, 1) && is(r.b, 0)); });
}

int main(int argc, char **argv)
{
    const unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 1, count = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
    int clean = 0, racing = 0, missed = 0, wrong = 0;
    for (unsigned i = 0; i < count; i++) {
        dice_state = first + i;
        draw(2);
        const std::vector<race> races = draw_program((int)draw(3));
        const int status = status_of_run();
        const bool reported = WIFEXITED(status) && WEXITSTATUS(status) == 66;
        (races.empty() ? clean : racing)++;
        if (!races.empty() && status == 0)
            missed++;
        else if (races.empty() ? status != 0 : !reported || !names_one(races)) {
            wrong++;
            printf("races_worker %u 1, order %ld: %zu races, status %#x\n%s", first + i, order, races.size(),
                   (unsigned)status, printed);
        }
    }
    printf("seed %u: %d programs without a race, %d with; wrong reports for %d, none for %d\n", first, clean, racing,
           wrong, missed);
    return wrong || missed * 50 > racing;
}
