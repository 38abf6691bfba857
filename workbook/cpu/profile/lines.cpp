// lines.cpp - the profiling build: what each line of a kernel asks of memory and units, and how often it waits.
//
// The kernel is that of the check build, which announces every load and store. A request of a warp is put together: the
// n-th execution of an instruction by each of its lanes, counted since the warp last met as a whole. That is exact
// where, between two meetings, lanes run it equally often, or some leave out the last times. An access by a primitive
// counts at the student's line that called it. The record is the file that CUDACPU_PROFILE names.
#include "../check/check.h"

#include <array>
#include <map>
#include <unordered_map>

namespace cudacpu
{
enum column { REQUESTS, SECTORS, FEWEST, SHARED, PASSES, COPIED, MULTIPLIED, EXPONENTIALS, BARRIERS, UNEVEN, COLUMNS };
static const char head[] =
    "file\tline\trequests\tsectors\tfewest\tshared\tpasses\tcopied\tmultiplied\texponentials\tbarriers\tuneven\n";

// ------------------------ what a warp asks of memory at once, as a GPU serves it
// Sectors of global memory, and passes over the banks of shared memory: arithmetic on addresses.

// A warp's accesses in one execution of one instruction, of 1 to 16 bytes. to: of an asynchronous copy; else 0.
struct request {
    unsigned lanes, bytes;
    uintptr_t at[WARP], to[WARP];
};

struct request_cost {
    unsigned requests;  // of global memory 1; of shared memory one for every 128 bytes that lanes ask for at once
    unsigned units;     // sectors of 32 bytes; or passes: how often the banks have to be read or written
    unsigned fewest;    // of global memory: sectors that as many different bytes fill, side by side
};

enum { SECTOR = 32, BANKS = 32, BANK = 4 };

// A copy that puts the halves of a sector into two of shared memory asks for it twice: so Nsight Compute counts it.
static request_cost global_cost(const request &r)
{
    std::pair<uintptr_t, uintptr_t> touched[2 * WARP];
    uintptr_t at[WARP], end = 0, different = 0;  // bytes
    unsigned count = 0, sectors = 0;
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (!(r.lanes >> lane & 1)) continue;
        at[count++] = r.at[lane];
        for (uintptr_t s = r.at[lane] / SECTOR; s <= (r.at[lane] + r.bytes - 1) / SECTOR; s++)
            touched[sectors++] = {s, r.to[lane] / SECTOR};
    }
    std::sort(touched, touched + sectors);
    sectors = std::unique(touched, touched + sectors) - touched;
    std::sort(at, at + count);
    for (unsigned i = 0; i < count; i++) {
        different += at[i] + r.bytes - std::max(end, at[i]);
        end = at[i] + r.bytes;
    }
    return {1, sectors, unsigned((different + SECTOR - 1) / SECTOR)};
}

// The lanes whose words may be different are served at once: all for 4 bytes each, half of the warp for 8, a quarter
// for 16. A bank gives one word in a pass, to all lanes that want it.
static request_cost shared_cost(const request &r)
{
    const unsigned parts = r.bytes > 8 ? 4 : r.bytes > 4 ? 2 : 1, lanes = WARP / parts;
    request_cost cost = {};
    for (unsigned part = 0; part < parts; part++) {
        uintptr_t words[BANKS][WARP];
        unsigned different[BANKS] = {}, passes = 0;
        for (unsigned lane = part * lanes; lane < (part + 1) * lanes; lane++) {
            if (!(r.lanes >> lane & 1)) continue;
            for (uintptr_t w = r.at[lane] / BANK; w <= (r.at[lane] + r.bytes - 1) / BANK; w++) {
                uintptr_t *const of_bank = words[w % BANKS], *const end = of_bank + different[w % BANKS];
                if (std::find(of_bank, end, w) != end) continue;
                *end = w;
                passes = std::max(passes, ++different[w % BANKS]);
            }
        }
        cost.requests += passes > 0;
        cost.units += passes;
    }
    return cost;
}

// ------------------------ instructions

// What can be done at one place of the program.
enum kind { ACCESS, COPY, MATRIX, WAIT, EXPONENTIAL };

struct instruction {
    place where;
    kind what;
    call_site site;  // known without `where`, or no file
    uint64_t counts[COLUMNS];
};

struct executions {  // of one instruction, by a warp, since its lanes last met
    unsigned times[WARP];
    std::vector<request> open;
};

static std::vector<instruction> &instructions = *new std::vector<instruction>;  // never destroyed
static std::vector<executions> of_warp[MAX_THREADS / WARP];
static std::vector<size_t> met_by[MAX_THREADS / WARP];  // which of these have any
static const void *matrix_row[MAX_THREADS];             // of a matrix load that this thread emulates

static size_t find(const place &where, unsigned what, call_site site = {})
{
    static std::unordered_map<uint64_t, size_t> &known = *new std::unordered_map<uint64_t, size_t>;
    const uint64_t key =
        site.file ? address_of(site.file) << 20 ^ uint64_t(site.line) : uint64_t(where.calls) << 32 | where.code;
    const auto found = known.emplace(key * 8 + what, instructions.size());
    if (found.second) instructions.push_back({where, static_cast<kind>(what), site, {}});
    return found.first->second;
}

// ------------------------ from lanes to warps

static void count(instruction &i, const request &r)
{
    if (i.what == WAIT) i.counts[BARRIERS]++;
    const char *at = reinterpret_cast<const char *>(r.at[__builtin_ctz(r.lanes)]);
    const bool shared = is_shared_address(*current, at);
    if (!shared && !is_device_address(at)) return;
    const request_cost cost = shared ? shared_cost(r) : global_cost(r);
    i.counts[shared ? SHARED : REQUESTS] += cost.requests;
    i.counts[shared ? PASSES : SECTORS] += cost.units;
    if (!shared) i.counts[FEWEST] += cost.fewest;
}

static void close(unsigned w)
{
    for (size_t number : met_by[w]) {
        executions &x = of_warp[w][number];
        for (const request &r : x.open) count(instructions[number], r);
        const auto seldom = [&](unsigned times) { return times && times != x.open.size(); };
        if (std::any_of(x.times, x.times + WARP, seldom)) instructions[number].counts[UNEVEN] += x.open.size();
        x.open.clear();
        memset(x.times, 0, sizeof x.times);
    }
    met_by[w].clear();
}

static void add(size_t number, const void *at, size_t bytes, const void *to = nullptr)
{
    const thread &t = *current->running;
    const unsigned w = t.number / WARP, lane = t.number % WARP;
    if (of_warp[w].size() <= number) of_warp[w].resize(instructions.size());
    executions &x = of_warp[w][number];
    const unsigned n = x.times[lane]++;
    if (x.open.empty()) met_by[w].push_back(number);
    if (x.open.size() <= n) x.open.push_back({});
    request &r = x.open[n];
    r.lanes |= 1u << lane;
    r.bytes = bytes;
    r.at[lane] = address_of(at);
    r.to[lane] = address_of(to);
}

// Where the thread has called the layer, or, of machinery that knows it, the student's line.
static size_t call_of(const thread &t, unsigned what, call_site site)
{
    if (site.file && (site.reached || !is_students(site.file) || is_tile_vocabulary(site.file))) site = {};
    return find(place_of(t.code, t), what, site);
}

void check_access(const char *at, unsigned bytes, access_kind, void *code)
{
    if (!current || !current->running) return;
    const thread &t = *current->running;
    if (size_t(at - t.own->stack) < t.own->bytes || matrix_row[t.number]) return;
    const size_t number = find(place_of(code, t), ACCESS);
    for (unsigned from = 0; from < bytes; from += 16) add(number, at + from, std::min(16u, bytes - from));
}

// ------------------------ what the layer tells

void hook_block_begin(block &b) { calls_begin(b); }

void hook_block_end(block &b)
{
    for (unsigned w = 0; w < b.warp_count; w++) close(w);
}

void hook_barrier(block &b)
{
    for (unsigned w = 0; w < b.warp_count; w++) {
        close(w);
        const unsigned there = b.warps[w].at_barrier;
        if (!there) continue;
        const thread &first = b.warps[w].threads[__builtin_ctz(there)];
        instructions[call_of(first, WAIT, first.site)].counts[BARRIERS]++;
    }
}

void hook_warp(block &b, warp &w, unsigned lanes, warp_operation)
{
    if (!(w.all & ~w.exited & ~lanes)) close(&w - b.warps);
}

void hook_async_issued(char *to, const char *from, size_t bytes, size_t bytes_of_source)
{
    const size_t number = call_of(*current->running, COPY, {});
    if (bytes_of_source) add(number, from, bytes_of_source, to);
    instructions[number].counts[COPIED] += bytes;
}

// A box of a tensor asks for whole sectors, and a row that lies beyond the tensor counts like the others.
void hook_copied(size_t bytes, bool into_shared, call_site site)
{
    instruction &i = instructions[call_of(*current->running, COPY, site)];
    i.counts[SECTORS] += bytes / 32, i.counts[FEWEST] += bytes / 32;
    if (into_shared) i.counts[COPIED] += bytes;
}

void hook_product(const matrices &m, call_site site)
{
    if (!current || !current->running) return;
    instructions[call_of(*current->running, MATRIX, site)].counts[MULTIPLIED] +=
        uint64_t(m.rows) * uint64_t(m.cols) * uint64_t(m.depth);
}

void hook_learn(int, call_site site) { add(call_of(*current->running, WAIT, site), nullptr, 0); }

// A matrix load reads a row of 16 bytes from each lane's address, 8 lanes at a time.
void matrix_load(const void *row)
{
    const thread &t = *current->running;
    if (row) add(find(place_of(__builtin_return_address(0), t), MATRIX), row, 16);
    matrix_row[t.number] = row;
}

// ------------------------ what the check build's entry points want besides

void check_alignment(const char *, unsigned, void *) {}
finding *new_finding(finding_kind, place, access_kind, place) { return nullptr; }
void finish() { report("index outside of its array", {}, "make sanitize-NN says where"); }

// ------------------------ the record

static void write_record()
{
    FILE *file = getenv("CUDACPU_PROFILE") ? fopen(getenv("CUDACPU_PROFILE"), "w") : nullptr;
    if (!file) return;
    enum { AT_ONCE = 100 };  // addr2line is told all of them in one command
    std::map<std::pair<std::string, int>, std::array<uint64_t, COLUMNS>> lines;
    for (size_t k = 0; k < instructions.size(); k++) {
        static source_line found[AT_ONCE];
        place places[AT_ONCE];
        const size_t n = std::min<size_t>(AT_ONCE, instructions.size() - k);
        for (size_t i = 0; i < n; i++) places[i] = instructions[k + i].where;
        if (k % AT_ONCE == 0) find_source_lines(places, n, found);
        const call_site at = instructions[k].site.file ? instructions[k].site
                                                       : call_site{found[k % AT_ONCE].file, found[k % AT_ONCE].line};
        for (size_t c = 0; c < COLUMNS; c++)
            if (instructions[k].counts[c]) lines[{at.file, at.line}][c] += instructions[k].counts[c];
    }
    fputs(head, file);
    for (const auto &x : lines) {
        fprintf(file, "%s\t%d", x.first.first.c_str(), x.first.second);
        for (uint64_t value : x.second) fprintf(file, "\t%llu", static_cast<unsigned long long>(value));
        fputc('\n', file);
    }
    if (fclose(file)) perror("the profile");
}

__attribute__((constructor)) static void begin()
{
    one_host_thread = true;
    atexit(write_record);
}
}

// Linked with --wrap: the kernel's calls, and all others, which do not count.
#define COUNTED(name, type) \
    extern "C" type __real_##name(type x); \
    extern "C" type __wrap_##name(type x) \
    { \
        using namespace cudacpu; \
        if (current && current->running) \
            instructions[find(place_of(__builtin_return_address(0)), EXPONENTIAL)].counts[EXPONENTIALS]++; \
        return __real_##name(x); \
    }
COUNTED(expf, float)
COUNTED(exp2f, float)
COUNTED(exp, double)
COUNTED(exp2, double)
