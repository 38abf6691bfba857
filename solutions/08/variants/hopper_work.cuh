// hopper_work.cuh - who does what in hopper.cu: how the host cuts all there is to do into works, and what work number n
// is. With a tile of its keys a key head meets the queries of its group, head after head. That is cut into parts, each
// of `steps` tiles of queries; a part is the work that a block takes.
#pragma once

enum mask_kind { FULL, CAUSAL, WINDOW };
constexpr int BK = 128;                                      // keys of a block
constexpr int MOST_FAR_PARTS = 16;                           // dK and dV of sinks pass through all of them
constexpr int MOST_PARTS = 64;                               // of what a tile of keys has to do
template <int D> constexpr int BQ_of = D == 128 ? 64 : 128;  // queries of a step

// `side` key heads stand side by side in the order of work, about as many as make the blocks that run at a time: what
// these read stays in the cache. With a causal mask the last row of heads is longer: its short works fill up what its
// long ones leave in the end.
struct schedule {
    int kv_heads, group, side;  // key heads of the whole batch, query heads of each
    int last_side;              // how many heads the last row of the last part has; 0: as many as any, or what is left
    int key_tiles, blocks64;    // of a head: tiles of BK keys; of 64 queries, two for each of those
    // Part p is for the first before[p + 1] - before[p] tiles of keys. It is above the diagonal of the others.
    int steps, parts, before[MOST_PARTS + 1];
    // dK and dV of the parts lie in the workspace, and the last kernel adds them up, in order: for few works. Else
    // they take turns at one sum.
    bool apart;
    // Of a window alone. The queries that see a tile's sinks from afar are cut into far_parts parts of far_steps tiles
    // of each head.
    int W, sinks, far_tiles, far_parts, far_steps;  // far_tiles: so many tiles of keys, the first, have sinks
    int works;
    bool many;       // a block takes many
    int processors;  // of this GPU: a block for each runs at a time
};

struct work {
    int kv_head, turn, turns;  // -1: there is none. Which of the turns at the sums of dK and dV is ours
    int key_tile, far_part;    // 0: near
    bool long_first;           // early keys come first
    int q_head, heads;         // the first head, and how many
    int first, last;           // of each, tiles of queries first ... last - 1;
    int from, to;              // but of the first head those from here on, and of the last those before this
    int sum;                   // where those of dK and dV are
};

// Work number n. ORDERED: blocks take turns at dQ. end: tiles of queries of a head. W: plan.W.
template <int D, mask_kind MASK, bool ORDERED> TILE_FN work work_of(const schedule &plan, int n, int N, int end, int W)
{
    constexpr int BQ = BQ_of<D>;
    constexpr bool DIAGONAL = MASK != FULL, WINDOWED = MASK == WINDOW;
    work now = {};
    now.kv_head = -1;
    if (n >= plan.works) return now;

    // which part: those for sinks from afar come last
    const int of_head = plan.before[plan.parts], far = n - plan.kv_heads * of_head;
    const bool is_far = WINDOWED && far >= 0;
    int part = is_far ? far / plan.kv_heads % plan.parts : 0, tiles_here = of_head;
    if (is_far) n = 0;
    if (plan.parts > 1) {  // with one, as often, there is no time for more divisions
        while (n >= plan.before[part + 1] * plan.kv_heads) part++;
        if (!is_far) n -= plan.before[part] * plan.kv_heads;
        tiles_here = plan.before[part + 1] - plan.before[part];
    }

    // which keys: early ones come first, for they are seen by the most queries; in turns late ones, which are the first
    // to add to the queries on their diagonal, but for the last heads
    const int rest = plan.kv_heads - plan.last_side;  // a multiple of side
    const bool last_row = !WINDOWED && part + 1 == plan.parts && n >= rest * tiles_here;
    const int in_row = plan.side * tiles_here, head0 = last_row ? rest : n / in_row * plan.side;
    const int here_heads = last_row ? plan.last_side : min(plan.side, plan.kv_heads - head0);
    n -= head0 * tiles_here;
    const int at = n / here_heads;
    now.kv_head = is_far ? far % plan.kv_heads : head0 + n % here_heads;
    now.long_first = last_row;
    const int far_works = plan.kv_heads * plan.parts;
    now.far_part = is_far ? 1 + far / far_works % plan.far_parts : 0;
    now.key_tile = is_far                             ? plan.far_tiles - 1 - far / (far_works * plan.far_parts)
                   : DIAGONAL && ORDERED && !last_row ? tiles_here - 1 - at
                                                      : at;

    // which queries
    now.first = DIAGONAL ? now.key_tile * BK / BQ : 0, now.last = end;
    if (WINDOWED) {
        const int queries_end = (N - 1) / BQ + 1;
        now.last = min(queries_end, (now.key_tile * BK + BK - 1 + W - 1) / BQ + 1);
        if (is_far) now.first = now.last + (now.far_part - 1) * plan.far_steps;
        if (is_far) now.last = min(queries_end, now.first + plan.far_steps);
    }
    now.q_head = now.kv_head * plan.group, now.heads = plan.group, now.from = now.first, now.to = now.last;

    // which turn, at which sum
    now.turn = now.far_part, now.turns = 1, now.sum = now.key_tile * plan.kv_heads + now.kv_head;
    if (plan.parts > 1) {
        const int from = part * plan.steps, to = min(from + plan.steps, plan.group * end), last_head = (to - 1) / end;
        now.q_head += from / end, now.heads = last_head - from / end + 1;
        now.from = max(now.first, from % end), now.to = min(now.last, to - last_head * end);
        now.turn *= plan.parts, now.turns = 0;
        for (int p = 0; p < plan.parts; p++) {
            const bool has = now.key_tile < plan.before[p + 1] - plan.before[p];
            now.turns += has, now.turn += has && p < part;
        }
        if (plan.apart) now.sum = now.kv_head * of_head + plan.before[part] + now.key_tile;
    }
    if (WINDOWED && now.key_tile < plan.far_tiles) now.turns *= 1 + plan.far_parts;
    return now;
}

// ------------------------------------------------------------------------------------ by the host

static mask_kind mask_of(const attention_shape *shape)
{
    if (HAS_WINDOWS && shape->window < shape->q_len && shape->sinks < shape->q_len) return WINDOW;
    return shape->causal ? CAUSAL : FULL;
}

static int queries_of(const attention_shape *shape) { return shape->head_dim == 128 ? BQ_of<128> : BQ_of<64>; }

// How many tiles of queries see a tile of keys in a window.
static int steps_of(const attention_shape *shape)
{
    const int BQ = queries_of(shape);
    return min((shape->q_len - 1) / BQ, (BK + shape->window - 2) / BQ) + 1;
}

// Cuts what a key head has to do with a tile of its keys into parts.
static void cut_group(schedule &plan, const attention_shape *shape, int parts)
{
    const int of_head = plan.blocks64 / 2, all = plan.group * of_head, tiles = (all - 1) / parts + 1;  // of 128 queries
    plan.steps = tiles * BK / queries_of(shape), plan.parts = 0;
    for (int from = 0, to; from < all; from = to) {
        to = min(from + tiles, all);
        const bool in_head = from / of_head == to / of_head;
        const int keys = shape->causal && in_head ? to % plan.key_tiles : plan.key_tiles;
        plan.before[plan.parts + 1] = plan.before[plan.parts] + keys;
        plan.parts++;
    }
    plan.works = plan.kv_heads * plan.before[plan.parts];
}

// Whether the parts' dK and dV are added up in the end: there are few.
static bool lies_apart(const schedule &plan, const attention_shape *shape)
{
    return plan.parts > 1 && plan.works * shape->head_dim <= 176 * 128;
}

// How many steps all take, if each multiprocessor takes the next work when it is done with one. In turns a block adds
// to a tile of queries a step after the block that comes before it there.
static double time_of(const schedule &plan, const attention_shape *shape, bool ordered)
{
    constexpr int MOST = 4096, MOST_SIDE = 1024;
    const int end = plan.blocks64 * 64 / queries_of(shape);
    const int beside = 2 + (plan.parts > 1 ? lies_apart(plan, shape) ? 1 : 2 : 0);  // of a work, beside its steps
    const int unit = (min(plan.steps, plan.group * end) + beside + (ordered ? plan.key_tiles : 0)) / MOST + 1;
    int done[MOST] = {plan.processors}, now = 0, last = 0;  // done[t % MOST]: how many are done at t, in units
    for (int p = 0; p < plan.parts; p++) {
        const int from = p * plan.steps, to = min(from + plan.steps, plan.group * end);
        const int heads = (to - 1) / end - from / end + 1, tiles = plan.before[p + 1] - plan.before[p];
        for (int head = 0, here; head < plan.kv_heads; head += here) {
            int turn[MOST_SIDE];  // of each head: when the next block may add to query 0, if it sees that
            const bool last_row = p + 1 == plan.parts && head == plan.kv_heads - plan.last_side;  // as in work_of
            here = last_row ? plan.last_side : min(plan.side, plan.kv_heads - head);
            for (int i = 0; i < tiles; i++) {
                const int key_tile = ordered && shape->causal && !last_row ? tiles - 1 - i : i;
                const int seen = shape->causal ? end - key_tile * end / plan.key_tiles : end;  // of each head
                const int left_out = max(0, from % end - end + seen) + min(seen, (end - to % end) % end);
                const int takes = heads * seen - left_out + beside, first = max(from % end, end - seen);
                for (int h = 0; h < here; h++) {
                    while (!done[now % MOST]) now++;
                    const int begins = ordered && i > 0 ? max(now * unit, turn[h % MOST_SIDE] + first) : now * unit;
                    turn[h % MOST_SIDE] = begins - first + 1;
                    const int ends = (begins + takes) / unit;
                    done[now % MOST]--, done[ends % MOST]++;
                    last = max(last, ends);
                }
            }
        }
    }
    return (double)last * unit;
}

// How many heads' Q, dO and sums of dQ fit into so many megabytes.
static int cached_heads(const attention_shape *shape, int megabytes)
{
    return megabytes * 1000000 / 8 / shape->head_dim / shape->q_len;
}

// How many heads the last row has: so many that it takes about twice as long as its longest work, if the cache holds
// them. Where nothing keeps blocks in step it has to hold what they read until they are done, or eight of a head run
// at a time, and share that.
static int last_side_of(const schedule &plan, const attention_shape *shape, bool ordered)
{
    const int tiles = max(plan.before[plan.parts] - plan.before[plan.parts - 1], 1);
    const int cached = cached_heads(shape, 30), of_works = cached_heads(shape, 50) / max(plan.group / plan.parts, 1);
    const int heads =
        min(5 * plan.processors / tiles, ordered ? cached : min(cached, max(of_works, plan.processors / 8)));
    return shape->causal ? plan.kv_heads - max(plan.kv_heads - heads, 0) / plan.side * plan.side : 0;
}

struct cuts {
    int parts, last_side, processors;  // for a GPU with so many
};
// As many parts as end soonest, and a longer last row if that ends sooner still. Where there is much work they make
// little difference.
static cuts best_cuts(schedule plan, const attention_shape *shape, bool ordered)
{
    // Causal: blocks have unlike amounts of work. In many query heads they would drift apart, and out of the cache.
    // In turns that counts more; D 32 gains nothing by it.
    int heads = !shape->causal ? plan.group : 4;
    if (ordered && shape->causal)
        heads = shape->head_dim < 64 ? plan.group : max(1, min(256 / shape->head_dim, cached_heads(shape, 29)));
    while (plan.group % heads) heads--;
    const int least = min(plan.group / heads, MOST_PARTS), fewest = ordered ? least : 1;
    int parts = least;
    double best = 1e30;
    for (int n = fewest; n <= min(MOST_PARTS, plan.group * plan.blocks64 / 2); n += 1 + n / 8) {
        cut_group(plan, shape, n);
        if (plan.works > 32 * plan.processors) break;
        // Parts of one head in turns at dQ and at dK and dV, too: they wait for one another.
        if (ordered && shape->causal && n > plan.group && plan.group > 1 && !lies_apart(plan, shape)) continue;
        const double time = time_of(plan, shape, ordered) * (n < least ? 1.1 : 1);
        if (time < best * 0.99) best = time, parts = n;
    }
    cut_group(plan, shape, parts);
    schedule longer = plan;
    longer.last_side = last_side_of(plan, shape, ordered);
    const bool much = plan.works > 32 * plan.processors;
    const bool better = much ? !ordered : time_of(longer, shape, ordered) < time_of(plan, shape, ordered);
    return {parts, better ? longer.last_side : 0, plan.processors};
}

static void cut_best(schedule &plan, const attention_shape *shape, bool ordered)
{
    static thread_local attention_shape asked;  // once for a shape: it may take 0.1 ms
    static thread_local cuts best;
    if (best.processors != plan.processors || memcmp(&asked, shape, sizeof asked))
        asked = *shape, best = best_cuts(plan, shape, ordered);
    cut_group(plan, shape, best.parts);
    plan.last_side = best.last_side;
    plan.apart = lies_apart(plan, shape);
}

// As many heads a part as make the blocks end soonest, in steps. Beside its steps work takes the time of two, and of
// one more where it hands dK and dV on. It comes in rounds of as many as there are multiprocessors, or, as that of the
// last keys is shorter, evenly spread, and in the end there is half of the longest.
static void cut_windows(schedule &plan, const attention_shape *shape)
{
    const int BQ = queries_of(shape), steps = steps_of(shape), clipped = min(plan.key_tiles, steps * BQ / BK);
    plan.W = shape->window, plan.sinks = shape->sinks;
    double best = 1e30;
    int heads = 1;
    for (int share = 1; share <= plan.group; share++) {
        if (plan.group % share || plan.group / share > MOST_PARTS) continue;
        const double works = (double)plan.kv_heads * (plan.group / share) * plan.key_tiles,
                     beside = share < plan.group ? 3 : 2;
        const double longest = share * steps + beside,
                     mean = share * steps * (1 - clipped / 2.0 / plan.key_tiles) + beside;
        const double time =
            max(longest, min(ceil(works / plan.processors) * longest, works / plan.processors * mean + longest / 2));
        if (time < best) best = time, heads = share;
    }
    const int from_afar = (shape->q_len - 1) / BQ + 1 - steps;  // tiles of queries that see a sink left of the window
    cut_group(plan, shape, plan.group / heads);
    if (plan.sinks == 0 || from_afar == 0) {
        plan.apart = lies_apart(plan, shape);
        return;
    }
    plan.far_tiles = (plan.sinks - 1) / BK + 1;
    plan.far_steps = max(1024 / BQ, (from_afar - 1) / MOST_FAR_PARTS + 1);
    plan.far_parts = (from_afar - 1) / plan.far_steps + 1;
    plan.works += plan.far_tiles * plan.far_parts * plan.parts * plan.kv_heads;
}

// How many heads may stand side by side where blocks take turns. The more heads, the fewer tiles of each run at a time,
// and each begins a step after the one before it. But the cache has to hold Q, dO and the sums of dQ, or, without a
// mask, some tiles to share what they read. Of a group the parts, which follow each other, overlap as well.
static int most_side(const schedule &plan, const attention_shape *shape)
{
    const int cached = cached_heads(shape, 26), side = plan.side;
    if (!shape->causal) {
        const int sharing = 8 * plan.processors / shape->head_dim;
        return cached ? max(side, min(8 * side, max(cached / plan.group, sharing))) : max(side, 2);
    }
    if (plan.group == 1) return max(side, min(2 * side, cached));
    return plan.group > 3 || shape->head_dim == 128 ? 1 : side;
}

static schedule plan_of(const attention_shape *shape, bool ordered)
{
    schedule plan = {};
    const bool window = mask_of(shape) == WINDOW;
    plan.processors = wb_this_device().processors;
    plan.kv_heads = shape->batch * shape->kv_heads;
    plan.group = shape->q_heads / shape->kv_heads;
    plan.key_tiles = (shape->kv_len - 1) / BK + 1;
    plan.blocks64 = 2 * ((shape->q_len - 1) / BK + 1);
    plan.side = shape->causal || ordered ? plan.processors / plan.key_tiles : 1;
    plan.side = max(plan.side, 1);
    if (ordered) {
        const int most = most_side(plan, shape), rows = (plan.kv_heads - 1) / most + 1;
        plan.side = (plan.kv_heads - 1) / rows + 1;
    }
    plan.side = min(plan.side, plan.kv_heads);
    if (window)
        cut_windows(plan, shape);
    else
        cut_best(plan, shape, ordered);
    // Its beginning is hidden, which is worth much where it is short. Long work at D = 64, and in windows, is a little
    // faster in blocks of its own.
    const int tiles = window ? steps_of(shape) : (shape->q_len - 1) / queries_of(shape) + 1;
    plan.many =
        plan.works > 3 * plan.processors && ((shape->head_dim == 128 && !window) ||
                                             ((plan.group - 1) / plan.parts + 1) * tiles * queries_of(shape) <= 3072);
    return plan;
}
