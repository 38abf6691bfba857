// findings.cpp - what was found, kept until the program ends: the first is printed in full, the others in a line.
//
//   sanitize: race in weighted_row_sum_kernel
//      Two threads access the same memory, at least one of them writes, and nothing orders the two accesses.
//      memory   __shared__ sum_smem[0][1] of 4 x 4
//      before   block (0,0,0), thread (0,0,0), warp 0 lane 0, reads  at problems/02/weighted_row_sum.cu:75
//                  | for (int i = 0; i < WARPS; i++) total += sum_smem[thread][i];
//      now      ...
//      missing  a __syncthreads() between the two lines. ...
//      read     problems/when-it-is-wrong-but-runs.md, "Races"
#include "check.h"
#include "../flight.h"

#include <fstream>
#include <map>

namespace cudacpu
{
struct kind_text {
    const char *name, *meaning, *section;
};

#define ROW(kind, ...) {__VA_ARGS__},
static const kind_text kinds[] = {CUDACPU_FINDINGS(ROW)};

#define SIGNALS "Signals and asynchronous operations"

enum { MOST = 64 };
static finding found[MOST];
static int count;
static int further;  // that had no room

static bool same_places(const finding &f, const place &now, const place &before)
{
    const place &second = f.sides[f.side_count - 1].where, first = f.side_count == 2 ? f.sides[0].where : place{0, 0};
    return (second.code == now.code && first.code == before.code) ||
           (second.code == before.code && first.code == now.code);
}

finding *new_finding(finding_kind kind, place now, access_kind what, place before)
{
    for (int i = 0; i < count; i++)
        if (found[i].kind == kind && same_places(found[i], now, before)) {
            found[i].times++;
            return &found[i];
        }
    if (count == MOST) {
        further++;
        return nullptr;
    }
    finding &f = found[count++];
    f = {};
    f.kind = kind;
    f.times = 1;
    f.side_count = before.code ? 2 : 1;
    f.sides[0].where = before;
    finding_side &side = f.sides[f.side_count - 1];
    side.where = now;
    side.kind = what;
    f.on_host = !current || !current->running;
    if (!f.on_host) {
        side.block = current->index;
        side.thread = current->running->number;
        f.block_size = current->config->block;
        snprintf(f.kernel, sizeof f.kernel, "%s", current->what->name);
    }
    return &f;
}

// What a call of the host's comes to; null: it has been noted.
static finding *of_call(finding_kind kind, const char *call, call_site site, const char *missing)
{
    finding *const f = new_finding(kind, {uint32_t(site.line), 0}, READ);
    if (!f || f->times > 1) return nullptr;
    f->site = site, f->missing = missing;
    snprintf(f->kernel, sizeof f->kernel, "%s", call);
    return f;
}

bool hook_refused(const char *call, const char *why, call_site site)
{
    finding *f = of_call(REFUSED, call, site,
                         "valid arguments. The call did nothing and returned an error: does the program check the "
                         "error?");
    if (f) f->sides[0].where = {0, 0}, snprintf(f->memory, sizeof f->memory, "%s", why);
    return true;
}

void found_unfilled(const char *at, const char *kernel, call_site site)
{
    finding *f = of_call(UNINITIALISED, kernel, students(site),
                         "an earlier message into this buffer, or a kernel that fills it: which buffer received the "
                         "data?");
    if (f) describe_memory(at, 1, f->memory, sizeof f->memory);
}

// ------------------------ printing

static const char UNDER[] = "               ";  // where a line of source stands

static const char *const verbs[] = {"reads", "writes", "does an atomic", "copies asynchronously",
                                    "waits"};  // access_kind

// Where a barrier is missing between two lines of a kernel, which stand where it calls a helper: what comes first since
// the last barrier of both, in a loop perhaps of the next iteration. Of two lines in one call nobody knows.
static const char *between(const finding &f, const source_line lines[2])
{
    static char text[320] = "between the two lines";
    source_line last = {};
    if (f.since.at.code) find_source_lines(&f.since.at, 1, &last);
    const bool turned = lines[0].caller > lines[1].caller;
    const source_line &upper = lines[turned], &lower = lines[!turned];
    if (!f.since.known || !upper.caller || upper.caller == lower.caller || (f.since.at.code && !last.caller))
        return text;
    const auto is_after = [](const source_line &x, const source_line &y) {
        return x.caller > y.caller || (x.caller == y.caller && x.line > y.line);
    };
    const char *form = "between lines %1$d and %2$d, or in a loop between line %2$d and line %1$d of the next "
                       "iteration, or both";
    if (!last.caller || in_a_loop(f.since.at)) form = "between lines %1$d and %2$d";
    if (is_after(last, upper) && is_after(lower, last))
        form = "between line %2$d and line %1$d of the next iteration, as at the end of the loop (the one at line %3$d "
               "separates them within an iteration only)";
    snprintf(text, sizeof text, form, upper.caller, lower.caller, last.caller);
    return text;
}

static const char *missing_order(const finding &f, const source_line lines[2])
{
    static char text[480];
    const bool same_line = lines[0].line == lines[1].line, any_warp = f.across_warps || f.by_async_copy;
    if (f.across_blocks)
        return same_line ? "an index that differs between blocks: which part of blockIdx is missing on this line? If "
                           "blocks must share the element, use an atomic or a second launch."
               : f.sides[0].kind == READ || f.sides[1].kind == READ
                   ? "an order between blocks, which a single launch does not guarantee: let one block own the "
                     "element, use an atomic, or launch twice."
                   : "an index that differs between blocks: both write this element, by one line each. In which of "
                     "them is a dimension missing, or in another order? If blocks must share the element, use an "
                     "atomic or a second launch.";
    if (same_line && (f.across_warps || !f.by_async_copy))
        snprintf(text, sizeof text,
                 "one owner: let one %s do it, give each %s its own element, or use an atomic. If "
                 "these are two iterations of a loop, put a %s into it.",
                 f.across_warps ? "thread" : "lane of the warp", f.across_warps ? "thread" : "lane",
                 f.across_warps ? "__syncthreads()" : "__syncwarp()");
    else
        snprintf(text, sizeof text, "a %s %s: %s.", any_warp ? "__syncthreads()" : "__syncwarp() or __syncthreads()",
                 between(f, lines),
                 f.across_warps    ? "warps run in any order"
                 : f.by_async_copy ? "an asynchronous copy may write at any time once it is issued"
                                   : "lanes of a warp need not run in step, and a shuffle orders no memory");
    return text;
}

static void print_side(const finding &f, const finding_side &side, const char *label, const source_line &line)
{
    char where[320] = "at an unknown place";
    if (line.file[0]) snprintf(where, sizeof where, "at %s:%d", line.file, line.line);
    const char *word = line.word;
    if (f.on_host) {
        fprintf(stderr, "   %-8s host code %s\n", label, where);
    } else {
        const unsigned t = side.thread, x = f.block_size.x, y = f.block_size.y;
        const bool is = f.kind == MISALIGNED || (f.kind == OUT_OF_BOUNDS && strncmp(f.memory, "index", 5) == 0);
        fprintf(stderr, "   %-8s block (%u,%u,%u), thread (%u,%u,%u) = warp %u lane %u, %s%s%s %s\n", label,
                side.block.x, side.block.y, side.block.z, t % x, t / x % y, t / (x * y), t / WARP, t % WARP,
                is ? "is" : verbs[side.kind], word[0] ? " in " : "", word, where);
    }
    if (line.file[0]) report_source(line.file, line.line, UNDER);
    if (line.caller > 0 && line.caller != line.line) {
        fprintf(stderr, "            called at %s:%d\n", line.file, line.caller);
        report_source(line.file, line.caller, UNDER);
    }
}

static void print_in_full(const finding &f, const source_line lines[2])
{
    const kind_text &text = kinds[f.kind];
    const source_line &now = lines[f.side_count - 1];
    if (f.kind == REFUSED) {
        const bool launch = strncmp(f.kernel, "cuda", 4) != 0;
        fprintf(stderr, "sanitize: %s refused: %s\n   %s\n   now      host code at %s:%d\n", launch ? "launch" : "call",
                f.kernel, f.memory, f.site.file, f.site.line);
        report_source(f.site.file, f.site.line, UNDER);
    } else {
        fprintf(stderr, "sanitize: %s in %s\n   %s\n   %s   %s\n", text.name,
                f.site.file     ? f.kernel
                : f.on_host     ? "host code"
                : now.kernel[0] ? now.kernel
                                : f.kernel,
                text.meaning, f.kind == NEVER_COME ? "lanes " : "memory", f.memory);
        if (f.side_count == 2) print_side(f, f.sides[0], "before", lines[0]);
        print_side(f, f.sides[f.side_count - 1], "now", lines[f.side_count - 1]);
    }
    fprintf(stderr, "   missing  %s\n", f.kind == RACE ? missing_order(f, lines) : f.missing);
    if (f.times > 1) fprintf(stderr, "   seen     %lu times\n", f.times);
}

static void print_in_a_line(const finding &f, const source_line lines[2])
{
    const source_line &now = lines[f.side_count - 1];
    const char *const file = f.kind == REFUSED ? f.site.file : lines[0].file;
    const int line = f.kind == REFUSED ? f.site.line : lines[0].line;
    report_names(file, line);
    fprintf(stderr, "            %s at %s:%d", kinds[f.kind].name, file, line);
    if (f.side_count == 2) fprintf(stderr, " and :%d", now.line);
    fprintf(stderr, ", %lu time%s\n", f.times, f.times == 1 ? "" : "s");
}

static bool same_line(const source_line &x, const source_line &y)
{
    return x.line == y.line && strcmp(x.file, y.file) == 0;
}

// Templates and inlining make many instructions of one line. To the student it is one finding.
static void merge(source_line *lines)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int k = 0;
        const source_line *x = lines + 2 * i;
        for (; k < kept; k++) {
            const source_line *y = lines + 2 * k;
            if (found[k].kind != found[i].kind || found[i].kind == REFUSED || !x[0].file[0]) continue;
            if ((same_line(x[0], y[0]) && same_line(x[1], y[1])) || (same_line(x[0], y[1]) && same_line(x[1], y[0])))
                break;
        }
        if (k < kept) {
            if (found[k].farther(found[i].across_blocks, found[i].across_warps, found[i].by_async_copy)) {
                memcpy(found[k].sides, found[i].sides, sizeof found[k].sides);
                memcpy(found[k].memory, found[i].memory, sizeof found[k].memory);
                memcpy(lines + 2 * k, x, 2 * sizeof *x);
            }
            found[k].times += found[i].times;
        } else {
            found[kept] = found[i];
            if (kept != i) memcpy(lines + 2 * kept, x, 2 * sizeof *x);
            kept++;
        }
    }
    count = kept;
}

// A missing barrier often shows first as a read of what the other thread has not written yet. The race says more.
static bool follows_from_race(const finding &f, const source_line &line, const source_line *lines)
{
    if (f.kind != UNINITIALISED) return false;
    const bool shared = strstr(f.memory, "__shared__");
    for (int i = 0; i < count; i++)
        if (found[i].kind == RACE && (shared || found[i].across_blocks) &&
            (same_line(lines[2 * i], line) || same_line(lines[2 * i + 1], line)))
            return true;
    return false;
}

// Where to read about a report of the layer's own.
static const char *section_of(const char *kind)
{
    static const struct {
        const char *kinds, *section;
    } sections[] = {
        {"|misaligned access|misaligned tile|misaligned copy|misaligned asynchronous copy|", "Alignment"},
        {"|illegal address|", "Outside of the memory"},
        {"|host code touched device memory|device code on the host|", "Host and device"},
        {"|too much static shared memory|launch in a kernel|", "Launches that are refused"},
        {"|no such page|no such length|no such tile|", "Pages and lengths"},
        {"|a buffer was touched before it arrived|a message overwrites what is still needed|a send buffer was "
         "overwritten in flight|a message is sent before it is written|two messages in one buffer|two operations are "
         "not in order|a message of another size|a message extends past its buffer|a message in a kernel|too many "
         "messages|too much is sent|deadlock between ranks, seen|",
         "Messages between GPUs"},
        {"|a tile was read that should have been skipped|keys were copied|", "Tiles that should be skipped"},
        {"|no signal|bad signal|too many signals|signal not ready|too many arrivals|bytes not promised|"
         "tile used before it arrived|tile overwritten too early|written tile not visible|tile changed in flight|"
         "registers changed in flight|result read too early|result thrown away|returned too early|announced too early|"
         "race with an asynchronous operation|warps of a group disagree|bad number of registers|box of another size|"
         "bad barrier|barrier of two sizes|too few products overlap the softmax|",
         SIGNALS},
    };
    // A deadlock is one of signals where nobody waits for lanes of a warp, or at a barrier.
    bool deadlock = strcmp(kind, "deadlock") == 0, signals = deadlock, parked = false;
    for (unsigned n = 0; deadlock && n < current->warp_count; n++) {
        const warp &w = current->warps[n];
        parked |= w.parked != 0, signals &= !w.at_barrier && (!w.waiting || w.parked & w.waiting);
    }
    if (signals && parked) return SIGNALS;
    for (const auto &s : sections) {
        const char *at = strstr(s.kinds, kind);
        if (at && at[-1] == '|' && at[strlen(kind)] == '|') return s.section;
    }
    return "Barriers and lanes";
}

// kind: of the layer's report that comes before; null if there is none. Returns the section that tells more.
static const char *print_findings(const char *kind)
{
    static place places[2 * MOST];
    static source_line lines[2 * MOST];
    for (int i = 0; i < count; i++)
        for (int k = 0; k < found[i].side_count; k++) places[2 * i + k] = found[i].sides[k].where;
    find_source_lines(places, 2 * count, lines);
    for (int i = 0; i < count; i++)
        if (found[i].kind == UNINITIALISED && found[i].site.file)
            snprintf(lines[2 * i].file, sizeof lines[2 * i].file, "%s", found[i].site.file),
                lines[2 * i].line = found[i].site.line;
    merge(lines);

    int first = -1, more = further;
    for (int i = 0; i < count; i++) {
        if (follows_from_race(found[i], lines[2 * i], lines)) continue;
        if (first < 0 && !kind)
            first = i;
        else
            more++;
    }
    const char *section = kind ? section_of(kind) : "";
    if (first >= 0) {
        print_in_full(found[first], lines + 2 * first);
        section = kinds[found[first].kind].section;
    }
    if (more) {
        fprintf(stderr, "   and %d more; fix the first, then run again:\n", more);
        enum { SHOWN = 6 };
        int shown = 0;
        for (int i = 0; i < count && shown < SHOWN; i++)
            if (i != first && !follows_from_race(found[i], lines[2 * i], lines))
                print_in_a_line(found[i], lines + 2 * i), shown++;
        if (more > SHOWN) fprintf(stderr, "            ...\n");
    }
    fprintf(stderr, "   read     problems/when-it-is-wrong-but-runs.md, \"%s\"\n", section);
    if (first >= 0) report_record(kinds[found[first].kind].name, section);
    return section;
}

void finish()
{
    nccl_alone();
    fflush(stdout);
    print_findings(nullptr);
    fflush(stderr);
    _exit(EXIT_REPORT);
}

// The worker ends: with what was found, if anything was.
static void at_exit()
{
    if (count) finish();
}

__attribute__((constructor)) static void at_start() { atexit(at_exit); }
void hook_rank_end() { at_exit(); }

// ------------------------ the layer's own reports
// Deadlocks, divergent barriers, absent lanes and the like.

const char *hook_report_end(const char *kind) { return print_findings(kind); }

// Where a thread has called the layer.
static const source_line &line_of_call(const thread &t)
{
    static source_line line;
    const place where = place_of(t.code, t);
    find_source_lines(&where, 1, &line);
    return line;
}

const char *hook_kernel_name(const block &b)
{
    const thread &t = b.running ? *b.running : b.threads[0];
    const char *const name = t.code ? line_of_call(t).kernel : "";
    return name[0] ? name : b.what->name;
}

call_site hook_place(call_site site, const thread *t)
{
    if (!t || !t->code || !site.file || !is_tile_vocabulary(site.file)) return site;
    const source_line &line = line_of_call(*t);
    if (!line.file[0]) return site;
    static char files[8][256];  // several may be on their way to be printed
    static int turn;
    return {strcpy(files[turn++ % 8], line.file), line.line};
}

// The line of the condition around the line where t waits, in which `other` was not. 0: there is none, or `other` may
// have left before, by a return behind the line where it has met others last.
static int condition_around(const thread &t, const thread &other)
{
    const int met = other.site.file ? line_of_call(other).caller : 0;
    const source_line &call = line_of_call(t);
    std::ifstream file(call.file);
    std::vector<std::string> text(1);
    for (std::string line; std::getline(file, line);) text.push_back(line);
    if (size_t(call.caller) >= text.size()) return 0;
    int around = 0;
    size_t least = text[call.caller].find_first_not_of(' ');
    for (int n = call.caller - 1; n > met && least; n--) {
        const size_t begin = text[n].find_first_not_of(' ');
        if (text[n].find("return") != std::string::npos) return 0;
        if (begin >= least || text[n][begin] == '#') continue;
        least = begin;
        if (!around && (text[n].compare(begin, 4, "if (") == 0 || text[n].find("else") != std::string::npos))
            around = n;
    }
    return around;
}

void found_absent(block &b, warp &w, unsigned lanes)
{
    thread &t = w.threads[__builtin_ctz(lanes)];
    const unsigned absent = t.request.mask & w.all & ~lanes;
    if (!absent) return;
    const thread &other = w.threads[__builtin_ctz(absent)];
    static auto &lines = *new std::map<std::pair<void *, void *>, int>;
    const auto [at, fresh] = lines.insert({{t.code, other.code}, 0});
    if (fresh) at->second = condition_around(t, other);
    if (!at->second) return;
    thread *const running = b.running;
    b.running = &t;
    finding *const f = new_finding(NEVER_COME, place_of(t.code, t), WAITS);
    b.running = running;
    if (!f || f->times > 1) return;
    char missing[300];
    lane_list(absent, f->memory, sizeof f->memory);
    snprintf(missing, sizeof missing,
             "these lanes: the condition in line %d keeps them away. Call it outside of the "
             "condition, or with a mask of the lanes that come, such as __ballot_sync() gives before it.",
             at->second);
    f->missing = strdup(missing);
}
}
