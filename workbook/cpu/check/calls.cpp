// calls.cpp - where in the program: a tree of calls while kernels run, and source lines at the end.
//
// The compiler announces each call. The functions that a thread is in are one node of a tree, so that an access can
// remember all of them as one number. Lines are looked up once there is something to print.
#include "check.h"

extern "C" char __executable_start[];

namespace cudacpu
{
struct call_node {
    uint32_t caller, code;
    uint32_t last_code, last;  // the call that was made from here most recently
};

static std::vector<call_node> &tree()
{
    static std::vector<call_node> &all = *new std::vector<call_node>{{0, 0, 0, 0}};
    return all;
}

static uint32_t now[MAX_THREADS];  // the node that each thread of the block is in

static uint32_t code_number(void *code) { return static_cast<char *>(code) - __executable_start; }

place place_of(void *code, const thread &t) { return {code_number(code), now[t.number]}; }

place place_of(void *code)
{
    const bool in_kernel = current && current->running;
    return {code_number(code), in_kernel ? now[current->running->number] : 0};
}

void calls_begin(const block &b) { memset(now, 0, b.thread_count * sizeof *now); }

// The node for a call from `node`; made when it is new.
static uint32_t call_from(uint32_t node, uint32_t code)
{
    enum { SLOTS = 1 << 14 };
    static uint32_t slots[SLOTS];
    uint32_t slot = (node * 31 + code) * 2654435761u >> 18;
    for (int tries = 0; tries < 64; tries++, slot = (slot + 1) % SLOTS) {
        if (!slots[slot]) {
            slots[slot] = tree().size();
            tree().push_back({node, code, 0, 0});
            return slots[slot];
        }
        const call_node &known = tree()[slots[slot]];
        if (known.caller == node && known.code == code) return slots[slot];
    }
    tree().push_back({node, code, 0, 0});  // the table is full: the same call, once more
    return tree().size() - 1;
}

extern "C" void __tsan_func_entry(void *caller)
{
    if (!current || !current->running) return;
    uint32_t &node = now[current->running->number];
    const uint32_t code = code_number(caller);
    if (tree()[node].last_code != code) {
        const uint32_t found = call_from(node, code);
        tree()[node].last_code = code;
        tree()[node].last = found;
    }
    node = tree()[node].last;
}

extern "C" void __tsan_func_exit()
{
    if (!current || !current->running) return;
    uint32_t &node = now[current->running->number];
    node = tree()[node].caller;
}

// ------------------------ source lines

void find_source_lines(const place *places, int count, source_line *lines)
{
    std::vector<uintptr_t> codes;  // of all places, each followed by its callers
    std::vector<int> owner;
    const auto look_up = [&](uint32_t code, int i) {  // less 1: inside of the call, not behind it
        codes.push_back(address_of(__executable_start) + code - 1), owner.push_back(i);
    };
    for (int i = 0; i < count; i++) {
        lines[i] = {};
        if (!places[i].code) continue;
        look_up(places[i].code, i);
        for (uint32_t node = places[i].calls, n = 0; node && n < 32; node = tree()[node].caller, n++)
            look_up(tree()[node].code, i);
    }
    char tile_word[48] = "";
    int last = -1;
    each_line(codes, [&](size_t n, const char *function, const char *path, int number) {
        if (owner[n] != last) last = owner[n], tile_word[0] = 0;
        source_line &line = lines[last];
        const char *const file = from_here(path);
        char name[64];  // of the student's functions the outermost one that has a name is the kernel
        if (is_tile_vocabulary(file)) {
            short_name(function, name, sizeof tile_word);
            if (name[0]) strcpy(tile_word, name);
        } else if (is_students(file)) {
            short_name(function, name, sizeof name);
            if (!line.file[0]) {
                snprintf(line.file, sizeof line.file, "%.255s", file);
                line.line = number;
                strcpy(line.word, tile_word);
            }
            if (!name[0]) return;
            strcpy(line.kernel, name);
            if (strcmp(line.file, file) == 0) line.caller = number;
        }
    });
}
}
