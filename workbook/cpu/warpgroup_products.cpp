// warpgroup_products.cpp - products that run on. Each warp of a group keeps its own queue of them, and computes its sixteen rows of one
// when its own products_done makes it due, from the factors as they are then. Until then the result is NaN.
//
// C may be a variable that has ended when the product is due. So nothing is written there unless all of it is as it was left.
#include "engine.h"
#include "report.h"

#include <cudacpu/tensor_cores.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(CUDACPU_ASAN)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("arch=haswell", "default"), optimize("O3")))
#else
#define FOR_THIS_PROCESSOR
#endif

namespace cudacpu
{
enum {
    MOST = 256,
    ROWS = 16,
    TAG = 0x7fa00000
};  // rows and columns of a factor; rows of a warp; bits of a signalling NaN

// ----------------------------------------------------------------------------------------------------------------- hashes

// Of a multiple of 16 bytes: its words in 32 columns, a polynomial each.
FOR_THIS_PROCESSOR static uint64_t hash_bytes(const void *at, size_t bytes, uint64_t h)
{
    enum { LANES = 32 };
    uint32_t sum[LANES] = {};
    const char *p = static_cast<const char *>(at);
    for (; bytes >= sizeof sum; p += sizeof sum, bytes -= sizeof sum) {
        uint32_t x[LANES];
        memcpy(x, p, sizeof x);
        for (int i = 0; i < LANES; i++) sum[i] = sum[i] * 0x9e3779b1u + x[i];
    }
    for (int i = 0; i < LANES; i++) h = (h ^ sum[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
    for (size_t i = 0; i < bytes; i++) h = (h ^ static_cast<unsigned char>(p[i])) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
    return h;
}

static uint64_t hash_rows(const tile_rows &r, uint64_t h)
{
    for (int panel = 0; panel < r.panels; panel++)
        h = hash_bytes(static_cast<const char *>(r.at) + panel * r.panel_bytes + r.row0 * 128,
                       static_cast<size_t>(r.rows) * 128, h);
    return h;
}

static uint64_t hash_of_tiles(const product &p, int w)
{
    return hash_rows(p.of.b, p.of.weights ? 1 : hash_rows(quarter(p.of.a, w), 2));
}

static uint64_t hash_of_weights(const product &p)
{
    uint64_t h = 1;
    for (int lane = 0; lane < WARP && p.of.weights; lane++)
        h = hash_bytes(p.weights[lane], static_cast<size_t>(p.of.depth), h);
    return h;
}

// ---------------------------------------------------------------------------------------------------------------- factors

static float as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

// A row of a tile: piece i of row r lies where piece i ^ (r % 8) belongs.
static void unpack_row(const tile_rows &tile, int row, int cols, float *to)
{
    for (int c = 0; c < cols / 8; c++) {
        const char *line = static_cast<const char *>(tile.at) + c / 8 * tile.panel_bytes + row * 128;
        uint16_t x[8];
        memcpy(x, line + (c % 8 ^ row % 8) * 16, sizeof x);
        for (int i = 0; i < 8; i++) to[8 * c + i] = as_float(static_cast<uint32_t>(x[i]) << 16);
    }
}

// B as [depth, cols]. The warps of a group, and all groups, multiply by the same tiles: the last few are kept.
struct right_factor {
    const void *at;
    uint64_t hash;
    bool deep;
    int depth, cols;
    alignas(64) float x[MOST * MOST];
};

static right_factor &right_of(const product_request &q, uint64_t hash)
{
    enum { KEPT = 4 };
    static __thread right_factor *kept;
    static __thread unsigned next;
    if (!kept) kept = new right_factor[KEPT]();
    for (int i = 0; i < KEPT; i++) {
        right_factor &r = kept[i];
        if (r.at == q.b.at && r.hash == hash && r.deep == q.deep && r.depth == q.depth && r.cols == q.cols) return r;
    }
    right_factor &r = kept[next++ % KEPT];
    r.at = q.b.at, r.hash = hash, r.deep = q.deep, r.depth = q.depth, r.cols = q.cols;
    for (int k = 0; k < q.depth && q.deep; k++) unpack_row(q.b, q.b.row0 + k, q.cols, r.x + k * q.cols);
    for (int col = 0; col < q.cols && !q.deep; col++) {
        float line[MOST];
        unpack_row(q.b, q.b.row0 + col, q.depth, line);
        for (int k = 0; k < q.depth; k++) r.x[k * q.cols + col] = line[k];
    }
    return r;
}

static void left_of(const product &p, int w, float *left)
{
    const product_request &q = p.of;
    if (!q.weights) {
        const tile_rows mine = quarter(q.a, w);
        for (int row = 0; row < ROWS; row++) unpack_row(mine, mine.row0 + row, q.depth, left + row * q.depth);
        return;
    }
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < q.depth / 4; i++) {
            const int row = lane / 4 + i % 2 * 8, col = i / 4 * 16 + i % 4 / 2 * 8 + lane % 4 * 2;
            left[row * q.depth + col] = as_float(p.weights[lane][i] << 16);
            left[row * q.depth + col + 1] = as_float(p.weights[lane][i] & 0xffff0000u);
        }
}

// ----------------------------------------------------------------------------------------------------------------- issuing

static void check_same_step(const group_step &first, const product &p, int w)
{
    const product_request &q = p.of;
    if (first.b == q.b.at && first.a == q.a.at && first.cols == q.cols && first.depth == q.depth &&
        first.site.line == q.site.line)
        return;
    char was[200];
    snprintf(was, sizeof was, "product %u of warp %d is one of %.60s and %.60s", p.number, first.warp,
             first.a ? name_of(first.a) : "weights", name_of(first.b));
    report_two("warps of a group disagree", q.site, first.site, was,
               "product %u of warp %d is one of %s and %s: the four warps of a group issue the same products", p.number,
               w, q.weights ? "weights" : name_of(q.a.at), name_of(q.b.at));
}

static void note_reading(engine &e, const tile_rows &what, bool quarters, int w, const product &p)
{
    for (reading &r : e.readings)
        if (r.group == w / GROUP_WARPS && r.what.at == what.at && r.what.row0 == what.row0) {
            if (r.number < p.number) r = {what, quarters, r.group, p.number, {}, p.of.site};
            return;
        }
    e.readings.push_back({what, quarters, w / GROUP_WARPS, p.number, {}, p.of.site});
}

// The last lane of a warp to arrive issues the product for all.
static void issue_for_warp(void **lanes, int count)
{
    engine &e = engine_here();
    const thread &me = *current->running;
    const int w = warp_number(me);
    const product_request &q = *static_cast<product_request *>(lanes[0]);
    if (count != WARP) report("absent lane", q.site, "a product needs all 32 lanes of each of the group's 4 warps");
    product *p = e.idle.empty() ? new product() : e.idle.back();
    if (!e.idle.empty()) e.idle.pop_back();
    p->of = q;
    p->number = ++e.issued[w];
    p->tag = TAG | (p->number & 0xfffff);
    p->next = nullptr;

    std::vector<group_step> &steps = e.issues[w / GROUP_WARPS];
    if (steps.size() < p->number) steps.push_back({q.a.at, q.b.at, q.cols, q.depth, w, 0, q.site});
    check_same_step(steps[p->number - 1], *p, w);
    const thread *first = warp_of(*current, me).threads;
    for (int lane = 0; lane < WARP; lane++) {  // each lane must have waited
        const thread &t = first[lane];
        if (!q.weights) check_arrival(e, quarter(q.a, w), t, q.site, "this product reads");
        check_arrival(e, q.b, t, q.site, "this product reads");
    }
    if (!q.weights) check_fences(e, quarter(q.a, w), me, q.site, "this product reads");
    check_fences(e, q.b, me, q.site, "this product reads");

    p->saved.resize(static_cast<size_t>(WARP * q.cols / 2));
    for (product *other : e.queue[w])
        if (other->c[0] == q.c && other->of.cols == q.cols && !other->next) other->next = p;
    for (int lane = 0; lane < WARP; lane++) {
        const product_request &mine = *static_cast<product_request *>(lanes[lane]);
        p->c[lane] = mine.c;
        p->weights[lane] = mine.weights;
        memcpy(&p->saved[static_cast<size_t>(lane * q.cols / 2)], mine.c, static_cast<size_t>(q.cols) * 2);
        for (int i = 0; i < q.cols / 2; i++) memcpy(&mine.c[i], &p->tag, 4);
    }
    p->tiles_hash = hash_of_tiles(*p, w);
    p->weights_hash = hash_of_weights(*p);
    if (!q.weights) note_reading(e, q.a, true, w, *p);
    note_reading(e, q.b, false, w, *p);
    e.queue[w].push_back(p);
    trap_early_reads(true);
}

void product_issue(const product_request &mine)
{
    engine_thread("a product", mine.site);
    product_request copy = mine;
    warp_call(issue_for_warp, &copy, mine.site);
}

// ----------------------------------------------------------------------------------------------------------------- waiting

static void check_unchanged(const product &p, int w)
{
    const product_request &q = p.of;
    if (hash_of_tiles(p, w) != p.tiles_hash)
        report("tile changed in flight", q.site, "%s%s%s changed while this product of warp %d was reading",
               q.weights ? "" : name_of(q.a.at), q.weights ? "" : " or ", name_of(q.b.at), w);
    if (hash_of_weights(p) != p.weights_hash)
        report("registers changed in flight", q.site,
               "the weights of this product changed, or ended, while warp %d's product was reading them", w);
    const product *latest = &p;
    while (latest->next) latest = latest->next;
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < q.cols / 2; i++)
            if (memcmp(&p.c[lane][i], &latest->tag, 4))
                report("registers changed in flight", q.site,
                       "the result of this product was written, or ended, before products_done made it due (warp %d)",
                       w);
}

static void compute(engine &e, product &p, int w)
{
    alignas(64) static __thread float left[ROWS * MOST], c[ROWS * MOST];
    const product_request &q = p.of;
    check_unchanged(p, w);
    left_of(p, w, left);
    right_factor &right = right_of(q, hash_rows(q.b, 1));
    const int half = q.cols / 2;
    // Lane 4 g + t has, of each 8 columns, columns 2 t and 2 t + 1 of row g, then of row g + 8.
    const auto each_pair = [&](auto f) {
        for (int lane = 0; lane < WARP; lane++)
            for (int i = 0; i < half; i += 2)
                f(lane, i, c + (lane / 4 + i % 4 / 2 * 8) * q.cols + i / 4 * 8 + lane % 4 * 2);
    };
    each_pair([&](int lane, int i, float *at) {
        const float *from = &p.saved[static_cast<size_t>(lane * half + i)];
        at[0] = q.onto ? from[0] : 0, at[1] = q.onto ? from[1] : 0;
    });
    multiply(matrices{left, right.x, c, ROWS, q.cols, q.depth});
    each_pair([&](int lane, int i, const float *at) {
        float *to = p.next ? &p.next->saved[static_cast<size_t>(lane * half + i)] : p.c[lane] + i;
        to[0] = at[0], to[1] = at[1];
    });
    for (reading &r : e.readings)
        if (r.group == w / GROUP_WARPS && r.number == p.number) r.done[w % GROUP_WARPS] = e.clock[w];
}

// A product begins when all four warps of the group have issued it.
static bool all_issued(const thread &t, const void *, long number)
{
    const engine &e = engine_here();
    const int first = warp_number(t) / GROUP_WARPS * GROUP_WARPS;
    for (int i = 0; i < GROUP_WARPS; i++)
        if (e.issued[first + i] < static_cast<unsigned>(number)) return false;
    return true;
}

static void tell(const thread &t, const void *, long number, char *text, size_t size)
{
    const engine &e = engine_here();
    const int first = warp_number(t) / GROUP_WARPS * GROUP_WARPS;
    const call_site site = e.issues[warp_number(t) / GROUP_WARPS][static_cast<size_t>(number - 1)].site;
    int n = snprintf(text, size, "for product %ld of its group (line %d), which these warps have not issued:", number,
                     site.line);
    for (int i = 0; i < GROUP_WARPS; i++)
        if (e.issued[first + i] < static_cast<unsigned>(number))
            n += snprintf(text + n, size - static_cast<size_t>(n), " %d", first + i);
}

struct products_due {
    int pending;
    call_site site;
};

static void wait_for_warp(void **lanes, int)
{
    engine &e = engine_here();
    const int w = warp_number(*current->running);
    const products_due due = *static_cast<products_due *>(lanes[0]);
    std::vector<group_step> &waits = e.waits[w / GROUP_WARPS];
    if (waits.size() < ++e.waited[w]) waits.push_back({nullptr, nullptr, 0, 0, w, e.issued[w], due.site});
    const group_step &first = waits[e.waited[w] - 1];
    if (first.issued != e.issued[w]) {
        char was[64];
        snprintf(was, sizeof was, "there warp %d had issued %u", first.warp, first.issued);
        report_two(
            "warps of a group disagree", due.site, first.site, was,
            "warp %d has issued %u products when it comes to its wait %u: the four warps of a group issue the same", w,
            e.issued[w], e.waited[w]);
    }
    while (static_cast<int>(e.queue[w].size()) > due.pending) {
        product *p = e.queue[w].front();
        wait_until(all_issued, tell, nullptr, p->number, due.site);
        compute(e, *p, w);
        e.queue[w].erase(e.queue[w].begin());
        e.idle.push_back(p);
    }
}

void products_wait(int pending, call_site site)
{
    engine_thread("products_done()", site);
    products_due mine = {pending, site};
    warp_call(wait_for_warp, &mine, site);
}
}
