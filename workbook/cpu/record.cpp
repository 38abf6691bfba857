// record.cpp - what the warps of a block tell the engine, in their order: rows for a picture of time (../timeline), and
// the proof that products run under the softmax. Unless somebody asked (../layer_requests.h) `recording` is false.
//
// Arithmetic is not seen, its result is: when a warp comes back to the engine and most elements of a product that
// is done have changed, it has worked on them. A result of C = A B^T on which it works is taken for scores. Where these
// stay until the next product overwrites them, it worked when as many numbers of some lanes' stacks changed, to others
// than the scores.
#include "engine.h"
#include "flight.h"

#include <deque>

namespace cudacpu
{
bool recording;
static FILE *record_file;  // of a picture of time (../timeline); null: nobody asked for one

struct row {
    int warp;
    unsigned lanes;
    std::string text;
};

// A product that is done, with C as it was then.
struct result {
    const float *c[WARP];
    int cols;
    long size;
    unsigned number;
    bool scores;
    call_site site;  // of the wait that it was due at
    std::vector<float> was;
    bool elsewhere, under;  // scores were worked on in another place; while a product was in flight
    bool gone;              // the next product writes where these scores were
};

// What a lane had on its stack when its warp last issued a product or waited for one.
enum { SAMPLED = 4 };
struct stack_seen {
    const char *from;
    std::vector<uint32_t> words;
};

static struct {
    bool rows_wanted, in_block;
    long wanted, blocks;  // which block; of how many
    std::vector<row> rows;
    std::vector<result> results[WARPS];
    stack_seen stacks[WARPS][SAMPLED];
    unsigned met;  // __syncthreads()
    long works, under;
    long issued, needed;  // products, by size_of
    call_site alone;      // of a wait that left no product under the work behind it
} r;

static const char PRODUCT[] = "a product";  // the name of its phase, which warps wait for

static long size_of(const product &p) { return long(p.of.cols) * p.of.depth; }

// These scores have been worked on, here or elsewhere.
static void count_work(const result &x, bool under)
{
    r.works++, r.under += under, r.needed += 2 * x.size;
    if (!under) r.alone = x.site;
}

static void forget_result(std::vector<result> &all, size_t i)
{
    const result &x = all[i];
    bool any = false;  // scores of rows that do not exist are 0, and need no work
    for (float score : x.was) any = any || score != 0;
    if (x.elsewhere)
        count_work(x, x.under);
    else if (x.scores && !any)
        r.needed += 2 * x.size;
    all.erase(all.begin() + long(i));
}

static void forget_results()
{
    for (std::vector<result> &all : r.results)
        while (!all.empty()) forget_result(all, 0);
}

void record_block_begin()
{
    forget_results();
    const dim3 grid = current->config->grid;
    const uint3 i = current->index;
    r.in_block = r.wanted < 0 || (long(i.z) * grid.y + i.y) * grid.x + i.x == r.wanted;
    r.blocks = long(grid.z) * grid.y * grid.x;
    r.met = 0;
    for (auto &of_warp : r.stacks)
        for (stack_seen &s : of_warp) s = {};
    if (r.in_block && r.rows_wanted) r.rows.clear();
}

// A row but for its first columns: what is done, where, and the phases that it is part of or waits for.
static std::string record_text(const char *event, const std::string &what, double amount, const void *at,
                               call_site site, const std::string &phases)
{
    char columns[64];
    snprintf(columns, sizeof columns, "%.0f\t%zx", amount, reinterpret_cast<size_t>(at));
    const char *file = site.file ? site.file : "?", *slash = strrchr(file, '/');
    return std::string(event) + "\t" + what + "\t" + columns + "\t" + (slash ? slash + 1 : file) + ":" +
           std::to_string(site.line) + "\t" + phases + "\n";
}

// Lanes of a warp that do the same share a row, if the whole warp has done nothing since.
static void add(const recorded &x, unsigned lanes)
{
    const int w = warp_number(*current->running);
    const std::string phase = x.phase && x.number >= 0 ? x.phase + ("#" + std::to_string(x.number)) : "";
    std::string what = x.tile ? name_of(x.tile) : "";  // "K7": box 7 of K, of which this is a tile; "K": a tile of it
    what = what.substr(0, what.find_first_of(".[")) + (x.box < 0 ? "" : std::to_string(x.box));
    const row now = {w, lanes, record_text(x.event, what, x.amount, x.tile, x.site, phase)};
    for (size_t i = r.rows.size(); lanes != ~0u && i-- > 0;) {
        row &before = r.rows[i];
        if (before.warp != w) continue;
        if (before.lanes & lanes) break;
        if (before.text != now.text) continue;
        before.lanes |= lanes;
        return;
    }
    r.rows.push_back(now);
}

// Of the running warp's group, as rows name it: numbers of products, apart for each group.
static long product_phase(long number)
{
    enum { GROUPS = WARPS / GROUP_WARPS };
    return number ? number * GROUPS + warp_number(*current->running) / GROUP_WARPS : -1;
}

// The running warp has worked on a result.
static void add_work(const result &x)
{
    if (!r.rows_wanted) return;
    add({x.scores ? "scores" : "scale", PRODUCT, product_phase(x.number), x.cols * WARP / 2, x.site}, ~0u);
}

// Whether a product is in flight that is no mere token.
static bool runs_under(const engine &e, int w, const result &x)
{
    long in_flight = 0;
    for (const product *p : e.queue[w]) in_flight += size_of(*p);
    return 2 * in_flight >= x.size;
}

// How many numbers of a lane's stack, from `from` on, have changed, to none of x's, nor to a result in flight.
__attribute__((no_sanitize("address"))) static size_t changed_numbers(const stack_seen &s, const char *from,
                                                                      const result &x, size_t lane)
{
    const size_t half = size_t(x.cols) / 2;
    std::vector<uint32_t> none(half);
    memcpy(none.data(), &x.was[lane * half], half * 4);
    for (const product *p : engine_here().queue[warp_number(*current->running)]) none.push_back(p->tag);
    std::sort(none.begin(), none.end());
    size_t changed = 0;
    for (size_t k = 0; k < s.words.size(); k++) {
        const char *at = s.from + 4 * k;
        const uint32_t now = at < from ? s.words[k] : *reinterpret_cast<const uint32_t *>(at);
        changed += now != s.words[k] && !std::binary_search(none.begin(), none.end(), now);
    }
    return changed;
}

// The running warp has come together in a call of the layer's: on which scores it has worked elsewhere, and the stacks
// of some lanes as they are now, without the layer's own frames.
__attribute__((no_sanitize("address"))) static void look_at_stacks()
{
    enum { FRAMES = 256 };  // bytes, from what a lane brings to the call
    const int w = warp_number(*current->running);
    const warp &all = warp_of(*current, *current->running);
    const char *from[SAMPLED];
    for (int n = 0; n < SAMPLED; n++)
        from[n] = reinterpret_cast<const char *>(all.threads[n * WARP / SAMPLED].request.value / 4 * 4) + FRAMES;
    for (result &x : r.results[w]) {
        if (!x.scores || x.elsewhere) continue;
        size_t changed = 0;
        for (size_t n = 0; n < SAMPLED; n++) changed += changed_numbers(r.stacks[w][n], from[n], x, n * WARP / SAMPLED);
        x.elsewhere = changed * 16 > size_t(SAMPLED * x.cols) * 5;
        x.under = x.elsewhere && runs_under(engine_here(), w, x);
        if (x.elsewhere) break;  // the oldest
    }
    for (int n = 0; n < SAMPLED; n++) {
        const fiber &lane = *all.threads[n * WARP / SAMPLED].own;
        stack_seen &s = r.stacks[w][n];
        s.from = from[n];
        s.words.resize(size_t(lane.stack + lane.bytes - s.from) / 4);
        for (size_t k = 0; k < s.words.size(); k++) s.words[k] = reinterpret_cast<const uint32_t *>(s.from)[k];
    }
}

FOR_THIS_PROCESSOR static size_t count_changed(const float *now, const float *was, size_t count)
{
    const uint32_t *x = reinterpret_cast<const uint32_t *>(now), *y = reinterpret_cast<const uint32_t *>(was);
    uint32_t changed = 0;
    for (size_t k = 0; k < count; k++) changed += x[k] != y[k];
    return changed;
}

// What the running warp has worked on since it was here.
static void find_work()
{
    const engine &e = engine_here();
    const int w = warp_number(*current->running);
    for (size_t i = 0; i < r.results[w].size(); i++) {
        const result &x = r.results[w][i];
        if (x.gone) continue;
        const size_t half = size_t(x.cols) / 2;
        size_t changed = 0;
        for (size_t lane = 0; lane < WARP; lane++) changed += count_changed(x.c[lane], &x.was[lane * half], half);
        if (changed * 2 <= WARP * half) continue;
        if (x.scores) count_work(x, runs_under(e, w, x));
        add_work(x);
        r.results[w].erase(r.results[w].begin() + long(i--));
    }
}

void record_event(const recorded &x)
{
    if (!r.in_block) return;
    find_work();
    if (x.whole_warp && !r.rows_wanted) look_at_stacks();
    if (r.rows_wanted && x.event) add(x, x.whole_warp ? ~0u : lane_bit(*current->running));
}

void record_wait(long number, call_site site)
{
    record_event({"wait", PRODUCT, product_phase(number), 0, site, nullptr, -1, true});
}

void record_issue(const product &p)
{
    const product_request &q = p.of;
    std::vector<result> &mine = r.results[warp_number(*current->running)];
    if (r.in_block) r.issued += size_of(p);
    const long operations = 4l * WARP * q.cols * q.depth / (q.e4m3 ? 2 : 1);  // those of e4m3 take half of the time
    record_event({"product", PRODUCT, product_phase(p.number), operations, q.site, q.b.at, -1, true});
    for (size_t i = mine.size(); i-- > 0;)
        if (mine[i].c[0] == p.c[0] && !mine[i].scores)
            forget_result(mine, i);
        else if (mine[i].c[0] == p.c[0])
            mine[i].gone = true;
}

void record_result(const product &p, call_site waited)
{
    if (!r.in_block || p.next) return;
    std::vector<result> &mine = r.results[warp_number(*current->running)];
    for (size_t i = mine.size(); i-- > 0 && !p.of.onto;)
        if (mine[i].gone) forget_result(mine, i);
    result x = {{}, p.of.cols, size_of(p), p.number, !p.of.onto, waited, {}, false, false, false};
    const size_t half = size_t(x.cols) / 2;
    x.was.resize(WARP * half);
    for (size_t lane = 0; lane < WARP; lane++) {
        x.c[lane] = p.c[lane];
        memcpy(&x.was[lane * half], p.c[lane], half * 4);
    }
    for (size_t n = 0; n < SAMPLED; n++) {  // the engine has written it, and not the lane
        stack_seen &s = r.stacks[warp_number(*current->running)][n];
        const char *c = reinterpret_cast<const char *>(p.c[n * WARP / SAMPLED]);
        if (c >= s.from && c + half * 4 <= s.from + 4 * s.words.size())
            memcpy(&s.words[size_t(c - s.from) / 4], c, half * 4);
    }
    mine.push_back(x);
}

// The running thread makes weights of these scores, which stay as they are: its warp works on them.
void scores_weighed(const float *scores, call_site)
{
    if (!recording || !r.in_block || current->running->number % WARP) return;
    find_work();
    const int w = warp_number(*current->running);
    for (result &x : r.results[w]) {
        if (x.c[0] != scores || !x.scores || x.elsewhere || x.gone) continue;
        x.elsewhere = true, x.under = runs_under(engine_here(), w, x);
        add_work(x);
    }
}

// All threads of the block have met; none of them runs.
void record_meeting(block &b)
{
    if (!r.in_block || !r.rows_wanted) return;
    thread *was = b.running;
    for (unsigned w = 0; w < b.warp_count; w++) {
        const unsigned lanes = b.warps[w].all & ~b.warps[w].exited;
        if (!lanes) continue;
        b.running = &b.warps[w].threads[__builtin_ctz(lanes)];
        add({"arrive", "__syncthreads()", r.met, 0, b.running->site}, lanes);
        add({"wait", "__syncthreads()", r.met, 0, b.running->site}, lanes);
    }
    b.running = was;
    r.met++;
}

// ------------------------ what a rank queues, in the order of the host's calls
// Rows for a picture of what computes and what travels. A piece of work waits for what its stream's clock names
// (flight.h); its phase is its rank, stream and number. A message is a phase to which both ranks arrive.

static bool queued;
static std::deque<flight_row> &all_rows = *new std::deque<flight_row>;

bool queued_wanted() { return record_file && queued; }

flight_row *queued_add(const flight_row &row)
{
    all_rows.push_back(row);
    return &all_rows.back();
}

static int rank() { return std::max(0, nccl_rank()); }

static std::string phase_of(int stream, long number)
{
    return std::to_string(rank()) + "." + std::to_string(stream) + "#" + std::to_string(number);
}

static std::string phase_of(const flight_item &i)
{
    const int from = i.send ? rank() : i.peer, to = i.send ? i.peer : rank();
    return std::to_string(from) + " to " + std::to_string(to) + (i.all ? " of all#" : "#") + std::to_string(i.turn);
}

// What is over before this begins: of each other stream the last piece of work that there is a row of.
static std::string phases_before(const flight_row &w)
{
    std::string phases;
    for (int k = 0; k < STREAMS; k++) {
        long last = 0;
        for (const flight_row &o : all_rows)
            if (k != w.stream && o.stream == k && o.number <= w.before.at[k]) last = std::max(last, o.number);
        if (last) phases += "\t" + phase_of(k, last);
    }
    return phases;
}

static std::string rank_row(const flight_row &w, const char *event, const std::string &what, double amount,
                            const void *at, call_site site, const std::string &phases)
{
    return std::to_string(rank()) + "." + std::to_string(w.stream) + "\tffffffff\t" +
           record_text(event, what, amount, at, site, phases);
}

// A group of messages begins when all partners' groups have, and is over after its bytes.
static std::string rows_of_messages(const flight_row &w)
{
    std::string arrivals, received, phases;
    double bytes[2] = {0, 0};  // in and out
    const flight_item *named = &w.items[0];
    for (const flight_item &i : w.items) {
        const std::string phase = phase_of(i);
        const double amount = i.bytes;
        arrivals += rank_row(w, "arrive", flight_peer(rank()), 0, i.send ? i.at : nullptr, i.site, phase);
        if (!i.send) received += rank_row(w, "receive", "", amount, i.at, i.site, phase);
        if (!i.send && named->send) named = &i;
        if (i.peer != rank()) bytes[i.send] += amount;
        phases += "\t" + phase;
    }
    const std::string what = named->call + std::string(named->send ? " to " : " from ") + flight_peer(named->peer);
    return rank_row(w, "idle", "", 0, nullptr, w.site, phases_before(w)) + arrivals +
           rank_row(w, "wait", "", 0, nullptr, named->site, phases) + received +
           rank_row(w, "messages", what, std::max(bytes[0], bytes[1]), nullptr, named->site,
                    phase_of(w.stream, w.number));
}

static std::string rows_of_work(const flight_row &w)
{
    const std::string name = w.name.substr(0, w.name.find('<'));
    return rank_row(w, "wait", "", 0, nullptr, w.site, phases_before(w)) +
           rank_row(w, w.kind, name, w.cost, w.keys, w.site, phase_of(w.stream, w.number));
}

// In one write: ranks that end at the same time share the file.
void queued_write()
{
    if (!record_file) return;
    std::string all;
    for (const flight_row &w : all_rows) all += w.items.empty() ? rows_of_work(w) : rows_of_messages(w);
    const ssize_t written = write(fileno(record_file), all.data(), all.size());
    if (written != static_cast<ssize_t>(all.size())) perror("rows of a rank");
    all_rows.clear();
}

// Ranks are forked from the process that has opened the file, share it, and each adds its rows at once.
extern "C" bool wb_record_begin(const char *path, long block)
{
    record_file = fopen(path, "w");
    if (!record_file) return false;
    const char *of = block < 0 ? "ring" : "block";
    fprintf(record_file, "who\tlanes\tevent\twhat\tamount\tat\tsource\tphases\tof a %s\n", of);
    recording = r.rows_wanted = block >= 0;
    r.wanted = block;
    return fflush(record_file) == 0;
}

extern "C" bool wb_record_end(void)
{
    recording = false;
    for (const row &x : r.rows)
        fprintf(record_file, "%d.%d\t%x\t%s", x.warp / GROUP_WARPS, x.warp % GROUP_WARPS, x.lanes, x.text.c_str());
    const bool nothing = r.rows_wanted && r.rows.empty(), written = fclose(record_file) == 0;
    if (!written) perror("the record");
    if (nothing)
        fprintf(stderr, "nothing is recorded for block %ld: the launch has %ld blocks, numbered from 0\n", r.wanted,
                r.blocks);
    return written && !nothing;
}

extern "C" void wb_overlap_begin(void)
{
    static bool begun;  // as wb_watch_pages
    if (begun) report("a call reserved for the tests", {}, "wb_overlap_begin() was called twice");
    begun = recording = true;
    r.rows_wanted = false;
    r.wanted = -1;
    r.works = r.under = r.issued = r.needed = 0;
}

extern "C" void wb_overlap_end(void)
{
    if (!recording) report("a call reserved for the tests", {}, "wb_overlap_end() was called twice");
    recording = false;
    forget_results();
    if (!r.works) report("no scores were seen", {}, "no warp has worked on the result of a product C = A B^T");
    if (4 * r.under < 3 * r.works)
        report("too few products overlap the softmax", r.alone,
               "the warps worked on %ld tiles of scores, but a product of the same warp was in flight only during %ld "
               "of them; three quarters are required. make timeline-10 (or -16) draws the overlap.\n   For example, no "
               "product was in flight during the softmax after the following wait. Check later waits before a softmax, "
               "too:",
               r.works, r.under);
    // A tile of scores wants two products of one size, Q K^T and P V. To run another under each of three quarters
    // of them costs 2.375.
    if (8 * r.issued > 9 * r.needed)
        report("products that no scores need", {},
               "the products perform %.2f times as many operations as Q K^T and P V of all tiles of scores need",
               double(r.issued) / double(r.needed));
}

extern "C" void wb_record_queued(bool from_here_on) { queued = from_here_on; }
}
