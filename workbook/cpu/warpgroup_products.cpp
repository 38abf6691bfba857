// warpgroup_products.cpp - products that run on. Each warp of a group has its own queue of them, and computes its
// sixteen rows of one when its products_done makes it due, from the factors as they are then. Until then the result is
// NaN. C may be a variable that has ended by then: nothing is written there unless all of it is as it was left.
#include "engine.h"

#include <ucontext.h>

namespace cudacpu
{
// Rows and columns of a factor; rows of a warp; bits of a signalling NaN.
enum { MOST = 256, ROWS = 16, TAG = 0x7fa00000 };

// ------------------------ what a product finds, was it changed?

// Of a multiple of 16 bytes: its words in 64 columns, a polynomial each.
FOR_THIS_PROCESSOR static uint64_t hash_bytes(const void *at, size_t bytes, uint64_t h)
{
    enum { LANES = 64 };
    uint32_t sum[LANES] = {};
    const char *p = chars(at);
    for (; bytes >= sizeof sum; p += sizeof sum, bytes -= sizeof sum) {
        uint32_t x[LANES];
        memcpy(x, p, sizeof x);
        for (int i = 0; i < LANES; i++) sum[i] = sum[i] * 0x9e3779b1u + x[i];
    }
    for (int i = 0; i < LANES; i += 2) {
        uint64_t two;
        memcpy(&two, sum + i, sizeof two);
        h = (h ^ two) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
    }
    for (size_t i = 0; i < bytes; i++) h = (h ^ static_cast<unsigned char>(p[i])) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
    return h;
}

static uint64_t hash_rows(const tile_rows &r, uint64_t h)
{
    for (int panel = 0; panel < r.panels; panel++)
        h = hash_bytes(chars(r.at) + panel * r.panel_bytes + r.row0 * r.line, r.rows * r.line, h);
    return h;
}

// Registers of a lane that hold A.
static size_t weights_of(const product_request &q) { return q.weights ? size_t(q.depth / (q.e4m3 ? 8 : 4)) : 0; }

FOR_THIS_PROCESSOR static void fill(float *at, int count, uint32_t tag)
{
    uint32_t *bits = reinterpret_cast<uint32_t *>(at);
    for (int i = 0; i < count; i++) bits[i] = tag;
}

FOR_THIS_PROCESSOR static bool filled(const float *at, int count, uint32_t tag)
{
    const uint32_t *bits = reinterpret_cast<const uint32_t *>(at);
    uint32_t other = 0;
    for (int i = 0; i < count; i++) other |= bits[i] ^ tag;
    return !other;
}

// ------------------------ factors

// The numbers in these bytes; returns how many.
static int unpack(const char *at, int bytes, bool e4m3, float *to)
{
    for (int i = 0; i < bytes && e4m3; i++) to[i] = from_e4m3(at[i]);
    for (int i = 0; 2 * i < bytes && !e4m3; i++) {
        uint16_t x;
        memcpy(&x, at + 2 * i, sizeof x);
        to[i] = same_bits<float>(uint32_t(x) << 16);
    }
    return e4m3 ? bytes : bytes / 2;
}

// A row of a tile: its pieces are exchanged by the bits of their address above a line of 128 bytes; with panels as
// wide as that, piece i of row r lies where piece i ^ (r % 8) belongs.
static void unpack_row(const tile_rows &tile, bool e4m3, int row, int cols, float *to)
{
    const int pieces = tile.line / 16, all = cols * (e4m3 ? 1 : 2) / 16, exchanged = row * tile.line / 128 % pieces;
    for (int c = 0; c < all; c++) {
        const char *line = chars(tile.at) + c / pieces * tile.panel_bytes + row * tile.line;
        to += unpack(line + (c % pieces ^ exchanged) * 16, 16, e4m3, to);
    }
}

// Which parts of a factor [rows, cols] are all zeros; returns whether every number is finite. What a tile has beyond
// the end of its tensor is zeros, and so are the weights of masked scores.
template <int PartRows, int PartCols>
static inline __attribute__((always_inline)) bool find_idle(const float *x, int rows, int cols, bool *idle)
{
    uint32_t largest = 0;
    for (int row = 0; row < rows; row += PartRows)
        for (int col = 0; col < cols; col += PartCols) {
            uint32_t any = 0;
            for (int r = 0; r < PartRows; r++)
                for (int i = 0; i < PartCols; i++) {
                    uint32_t bits;
                    memcpy(&bits, x + (row + r) * cols + col + i, 4);
                    any |= bits << 1;  // without the sign
                    largest = largest > bits << 1 ? largest : bits << 1;
                }
            *idle++ = !any;
        }
    return largest < 0xff000000u;
}
FOR_THIS_PROCESSOR static bool idle_of_left(const float *x, int depth, bool *idle)
{
    return find_idle<4, 16>(x, ROWS, depth, idle);
}
FOR_THIS_PROCESSOR static bool idle_of_right(const float *x, int depth, int cols, bool *idle)
{
    return find_idle<16, 8>(x, depth, cols, idle);
}

// B as [depth, cols]. The warps of a group, and all groups, multiply by the same tiles: the last few are kept.
struct right_factor {
    const void *at;
    uint64_t hash;
    bool deep, e4m3;
    int depth, cols;
    alignas(64) float x[MOST * MOST];
    bool idle[MOST / 16 * MOST / 8], finite;
};

static right_factor &right_of(const product_request &q, uint64_t hash)
{
    enum { TILES = 4 };
    static __thread right_factor *kept;
    static __thread unsigned next;
    if (!kept) kept = new right_factor[TILES]();
    for (int i = 0; i < TILES; i++) {
        right_factor &r = kept[i];
        if (r.at == q.b.at && r.hash == hash && r.deep == q.deep && r.e4m3 == q.e4m3 && r.depth == q.depth &&
            r.cols == q.cols)
            return r;
    }
    right_factor &r = kept[next++ % TILES];
    r.at = q.b.at, r.hash = hash, r.deep = q.deep, r.e4m3 = q.e4m3, r.depth = q.depth, r.cols = q.cols;
    for (int k = 0; k < q.depth && q.deep; k++) unpack_row(q.b, q.e4m3, q.b.row0 + k, q.cols, r.x + k * q.cols);
    for (int col = 0; col < q.cols && !q.deep; col++) {
        float line[MOST];
        unpack_row(q.b, q.e4m3, q.b.row0 + col, q.depth, line);
        for (int k = 0; k < q.depth; k++) r.x[k * q.cols + col] = line[k];
    }
    r.finite = idle_of_right(r.x, q.depth, q.cols, r.idle);
    return r;
}

static void left_of(const product &p, int w, float *left)
{
    const product_request &q = p.of;
    if (!q.weights) {
        const tile_rows mine = quarter(q.a, w);
        for (int row = 0; row < ROWS; row++) unpack_row(mine, q.e4m3, mine.row0 + row, q.depth, left + row * q.depth);
        return;
    }
    const int each = q.e4m3 ? 4 : 2, registers = weights_of(q);  // numbers in a register
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < registers; i++) {
            const int row = lane / 4 + i % 2 * 8, col = (i / 4 * 8 + i % 4 / 2 * 4 + lane % 4) * each;
            unpack(reinterpret_cast<const char *>(&p.weights[lane][i]), 4, q.e4m3, left + row * q.depth + col);
        }
}

// ------------------------ arithmetic on the result of a product that is not done
// It is a signalling NaN, and on x86-64 arithmetic on one traps: so the read has a line. Elsewhere it is found when
// somebody writes there, or as NaN in the outputs.

#ifdef __x86_64__
enum { INVALID = 1, INVALID_MASKED = 1 << 7 };  // of MXCSR

void trap_early_reads(bool on)
{
    const unsigned csr = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(on ? csr & ~unsigned(INVALID_MASKED | INVALID) : csr | INVALID_MASKED);
}

// The tag of a product in flight among these bytes; null if there is none.
static const product *tagged(const void *at, size_t bytes)
{
    const engine &e = engine_here();
    for (size_t i = 0; i + 4 <= bytes; i += 4)
        for (const product *p : e.queue[warp_number(*current->running)])
            if (!memcmp(chars(at) + i, &p->tag, 4)) return p;
    return nullptr;
}

// Where the memory operand of an SSE instruction lies; null if it has none.
static const void *memory_operand(const ucontext_t &c)
{
    static const int numbered[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    const auto *i = reinterpret_cast<const unsigned char *>(c.uc_mcontext.gregs[REG_RIP]);
    int rex = 0;
    while (*i == 0x66 || *i == 0xf2 || *i == 0xf3) i++;
    if (*i >> 4 == 4) rex = *i++;
    if (*i++ != 0x0f) return nullptr;
    if (*i == 0x38 || *i == 0x3a) i++;
    const int modrm = *++i, mod = modrm >> 6;
    int base = modrm & 7;
    if (mod == 3) return nullptr;
    i++;
    long long at = 0;
    if (base == 4) {
        const int sib = *i++, index = (sib >> 3 & 7) | (rex & 2) << 2;
        base = sib & 7;
        if (index != 4) at += c.uc_mcontext.gregs[numbered[index]] << (sib >> 6);
        if (base == 5 && mod == 0) return nullptr;
    } else if (base == 5 && mod == 0) {
        return nullptr;  // a constant
    }
    at += c.uc_mcontext.gregs[numbered[base | (rex & 1) << 3]];
    int32_t far;
    memcpy(&far, i, 4);
    at += mod == 1 ? static_cast<signed char>(*i) : mod == 2 ? far : 0;
    return reinterpret_cast<const void *>(at);
}

bool early_read(void *context)
{
    ucontext_t &c = *static_cast<ucontext_t *>(context);
    const product *p = tagged(c.uc_mcontext.fpregs->_xmm, sizeof c.uc_mcontext.fpregs->_xmm);
    const void *operand = p ? nullptr : memory_operand(c);
    if (operand) p = tagged(operand, 4);
    if (p) {
        report_begin("result read too early");
        report_line("this arithmetic uses the result of a product that is not complete: products_done must come first");
        report_code(reinterpret_cast<void *>(c.uc_mcontext.gregs[REG_RIP]));
        report_line("the product was issued");
        report_place(p->of.site);
        report_end();
    }
    c.uc_mcontext.fpregs->mxcsr |= INVALID_MASKED;  // some other invalid operation: it may be
    return true;
}
#else
void trap_early_reads(bool) {}
bool early_read(void *) { return false; }
#endif

// ------------------------ issuing

static void check_same_step(const group_step &first, const product &p, int w)
{
    const product_request &q = p.of;
    if (first.b == q.b.at && first.a == q.a.at && first.cols == q.cols && first.depth == q.depth &&
        first.site.line == q.site.line)
        return;
    char was[200];
    snprintf(was, sizeof was, "product %u of warp %d multiplies %.60s and %.60s", p.number, first.warp,
             first.a ? name_of(first.a) : "weights", name_of(first.b));
    report_two("warps of a group disagree", q.site, first.site, was,
               "product %u of warp %d multiplies %s and %s, but the four warps of a group must issue the same products",
               p.number, w, q.weights ? "weights" : name_of(q.a.at), name_of(q.b.at));
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
    e.multiplied += uint64_t(ROWS) * uint64_t(q.cols) * uint64_t(q.depth);
    p->number = ++e.issued[w];
    p->tag = TAG | (p->number & 0xfffff);
    p->next = nullptr;

    std::vector<group_step> &steps = e.issues[w / GROUP_WARPS];
    if (steps.size() < p->number) steps.push_back({q.a.at, q.b.at, q.cols, q.depth, w, 0, hash_rows(q.b, 1), q.site});
    check_same_step(steps[p->number - 1], *p, w);
    const thread *first = warp_of(*current, me).threads;
    if (!q.weights) check_arrival(e, quarter(q.a, w), *first, q.site, "this product reads", WARP);
    check_arrival(e, q.b, *first, q.site, "this product reads", WARP);
    if (!q.weights) check_fences(e, quarter(q.a, w), me, q.site, "this product reads");
    check_fences(e, q.b, me, q.site, "this product reads");
    if (!q.weights) hook_engine(quarter(q.a, w), false, q.site, "this product reads");
    hook_engine(q.b, false, q.site, "this product reads");

    for (int lane = 0; lane < WARP; lane++) p->c[lane] = static_cast<product_request *>(lanes[lane])->c;
    if (recording) record_issue(*p);
    p->saved.resize(WARP * q.cols / 2);
    for (product *other : e.queue[w]) {
        if (other->c[0] != q.c || other->of.cols != q.cols || other->next) continue;
        if (!q.onto)
            report_two("result thrown away", other->of.site, q.site, "the other product was issued",
                       "another product writes its result to the registers of this product, which is not complete");
        other->next = p;
    }
    const size_t weights = weights_of(q);
    p->weights_issued.resize(WARP * weights);
    for (size_t lane = 0; lane < WARP; lane++) {
        const product_request &mine = *static_cast<product_request *>(lanes[lane]);
        p->weights[lane] = mine.weights;
        memcpy(&p->saved[lane * size_t(q.cols / 2)], mine.c, size_t(q.cols) * 2);
        fill(mine.c, q.cols / 2, p->tag);
        if (q.weights) memcpy(&p->weights_issued[lane * weights], mine.weights, weights * 4);
    }
    p->a_hash = q.weights ? 0 : hash_rows(quarter(q.a, w), 1);
    p->b_hash = steps[p->number - 1].b_hash;
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

// ------------------------ waiting

static void check_unchanged(const product &p, int w)
{
    const product_request &q = p.of;
    if (hash_rows(q.b, 1) != p.b_hash || (!q.weights && hash_rows(quarter(q.a, w), 1) != p.a_hash))
        report("tile changed in flight", q.site, "%s%s%s changed while this product of warp %d was reading it",
               q.weights ? "" : name_of(q.a.at), q.weights ? "" : " or ", name_of(q.b.at), w);
    const size_t weights = weights_of(q);
    for (size_t lane = 0; lane < WARP && weights; lane++)
        if (memcmp(p.weights[lane], &p.weights_issued[lane * weights], weights * 4))
            report("registers changed in flight", q.site,
                   "the weights of this product changed, or went out of scope, while the product of warp %d was "
                   "reading them",
                   w);
    const product *latest = &p;
    while (latest->next) latest = latest->next;
    for (int lane = 0; lane < WARP; lane++)
        if (!filled(p.c[lane], q.cols / 2, latest->tag))
            report("registers changed in flight", q.site,
                   "the result of this product was written, or went out of scope, before products_done waited for it "
                   "(warp %d)",
                   w);
}

// Lane 4 g + t has, of each 8 columns, 2 t and 2 t + 1 of rows g and g + 8: f(its four, two in row g, two in g + 8).
template <class F> static void each_four(float *c, int cols, int lane, F f)
{
    float *upper = c + lane / 4 * cols + lane % 4 * 2, *lower = upper + 8 * cols;
    for (int n = 0; n < cols / 2; n += 4) f(n, upper + 2 * n, lower + 2 * n);
}

static void compute(engine &e, product &p, int w)
{
    // Not in thread-local memory itself: a program that loads the library while it runs has little of that to give.
    struct factors {
        alignas(64) float left[ROWS * MOST], c[ROWS * MOST];
    };
    static __thread factors *mine;
    if (!mine) mine = new factors;
    float *left = mine->left, *c = mine->c;
    const product_request &q = p.of;
    check_unchanged(p, w);
    left_of(p, w, left);
    right_factor &right = right_of(q, p.b_hash);
    bool idle[ROWS / 4 * MOST / 16];  // 0 x NaN is not 0
    const bool leave_out = idle_of_left(left, q.depth, idle) && right.finite;
    const int half = q.cols / 2;
    memset(c, 0, sizeof(float) * size_t(ROWS * q.cols));
    for (int lane = 0; lane < WARP && q.onto; lane++)
        each_four(c, q.cols, lane, [&, from = &p.saved[lane * half]](int n, float *x, float *y) {
            memcpy(x, from + n, 8), memcpy(y, from + n + 2, 8);
        });
    matrices m = {left, right.x, c, ROWS, q.cols, q.depth};
    if (leave_out) m.a_idle = idle, m.b_idle = right.idle, m.cut = q.e4m3;
    hook_product(m, q.site);
    float *record = product_begins(m);
    multiply(m);
    product_ends(record, m);
    for (int lane = 0; lane < WARP; lane++) {
        float *to = p.next ? &p.next->saved[lane * half] : p.c[lane];
        each_four(c, q.cols, lane,
                  [&](int n, const float *x, const float *y) { memcpy(to + n, x, 8), memcpy(to + n + 2, y, 8); });
    }
    if (!p.next) e.unnamed[w].push_back({p.c[0], q.site});
    for (reading &r : e.readings)
        if (r.group == w / GROUP_WARPS && r.number == p.number) r.done[w % GROUP_WARPS] = e.clock[w];
}

// A product begins when all four warps of the group have issued it.
static bool all_issued(const thread &t, const void *, long number)
{
    const engine &e = engine_here();
    const int first = warp_number(t) / GROUP_WARPS * GROUP_WARPS;
    for (int i = 0; i < GROUP_WARPS; i++)
        if (e.issued[first + i] < unsigned(number)) return false;
    return true;
}

static void tell_product(const thread &t, const void *, long number, char *text, size_t size)
{
    const engine &e = engine_here();
    const int first = warp_number(t) / GROUP_WARPS * GROUP_WARPS;
    const call_site site = e.issues[warp_number(t) / GROUP_WARPS][number - 1].site;
    int n = snprintf(text, size, "for product %ld of its group (line %d), which has not been issued by warp", number,
                     site.line);
    for (int i = 0; i < GROUP_WARPS; i++)
        if (e.issued[first + i] < unsigned(number)) n += snprintf(text + n, size - n, " %d", first + i);
}

struct products_due {
    int pending;
    const float *c;
    call_site site;
};

// Whether another warp of the group has come to its wait of this number.
static bool another_came(const thread &t, const void *, long number)
{
    const engine &e = engine_here();
    const int w = warp_number(t), first = w / GROUP_WARPS * GROUP_WARPS;
    for (int i = first; i < first + GROUP_WARPS; i++)
        if (i != w && e.waited[i] >= unsigned(number)) return true;
    return false;
}

static void tell_named(const thread &, const void *, long, char *text, size_t size)
{
    snprintf(text, size, "in products_done, for a result that is not complete");
}

// All warps of a group have issued as many products when they come to their n-th wait. The first to come is believed.
static void check_same_wait(engine &e, const products_due &due, int w)
{
    std::vector<group_step> &waits = e.waits[w / GROUP_WARPS];
    if (waits.size() < e.waited[w]) waits.push_back({nullptr, nullptr, 0, 0, w, e.issued[w], 0, due.site});
    const group_step &first = waits[e.waited[w] - 1];
    if (first.issued == e.issued[w]) return;
    char was[64];
    snprintf(was, sizeof was, "warp %d had issued %u products there", first.warp, first.issued);
    report_two("warps of a group disagree", due.site, first.site, was,
               "warp %d has issued %u products before its wait number %u, but the four warps of a group must issue "
               "equally many",
               w, e.issued[w], e.waited[w]);
}

// The result that is named must be done. Others that are done may be named later.
static void check_named(engine &e, const products_due &due, int w)
{
    for (const product *p : e.queue[w]) {
        if (p->c[0] != due.c) continue;
        wait_until(another_came, tell_named, nullptr, e.waited[w],
                   due.site);  // and says if this warp has issued too few
        report_two("result read too early", due.site, p->of.site, "the product was issued",
                   "the argument of products_done<%d> is a result that may be incomplete: %zu product%s in flight, and "
                   "up to %d may remain in flight",
                   due.pending, e.queue[w].size(), e.queue[w].size() == 1 ? " is" : "s are", due.pending);
    }
    erase_if(e.unnamed[w], [&](const unnamed_result &x) { return x.c == due.c; });
}

static void wait_for_warp(void **lanes, int)
{
    engine &e = engine_here();
    const int w = warp_number(*current->running);
    const products_due due = *static_cast<products_due *>(lanes[0]);
    const long due_number = long(e.issued[w]) - due.pending;
    if (recording) record_wait(due_number > 0 ? due_number : 0, due.site);
    e.waited[w]++;
    check_same_wait(e, due, w);
    while (int(e.queue[w].size()) > due.pending) {
        product *p = e.queue[w].front();
        wait_until(all_issued, tell_product, nullptr, p->number, due.site);
        compute(e, *p, w);
        if (recording) record_result(*p, due.site);
        e.queue[w].erase(e.queue[w].begin());
        e.idle.push_back(p);
    }
    check_named(e, due, w);
}

void products_wait(int pending, const float *c, call_site site)
{
    engine_thread("products_done()", site);
    products_due mine = {pending, c, site};
    warp_call(wait_for_warp, &mine, site);
}
}
