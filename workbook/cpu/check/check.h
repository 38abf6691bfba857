// check.h - the check build: what it remembers of each access, and who says what about it.
//
// A kernel is compiled with -fsanitize=thread,bounds,alignment, so the compiler announces every load and store by a
// call. These end in entry.cpp, go through access.cpp, and what is wrong becomes a finding.
#pragma once

#include "../hooks.h"

namespace cudacpu
{
// ------------------------ calls.cpp
// A place in the program, as two numbers: where the announcing call returns to, and the calls that led there.
struct place {
    uint32_t code;   // bytes from the start of the program
    uint32_t calls;  // a node of the tree of calls
};

place place_of(void *code);                   // in the running thread
place place_of(void *code, const thread &t);  // in another one
void calls_begin(const block &b);             // no thread has called anything

// What a place is to the student: the first line outside the tile vocabulary and the layer.
struct source_line {
    char file[256];  // "" if unknown
    int line;
    char word[48];  // the word of the tile vocabulary that was called there, "" if none
    int caller;  // the line of the kernel that led there: `line`, or where it called a function or lambda of its file
    char kernel[64];  // the function that was launched
};

void find_source_lines(const place *places, int count, source_line *lines);

// ------------------------ order.cpp
enum access_kind { READ, WRITE, ATOMIC, ASYNC, WAITS };  // ASYNC: a write by an asynchronous copy; WAITS: none

// One access, as the memory it went to remembers it.
struct access_record {
    uint32_t epoch;  // when: see order.cpp; 0: never
    uint32_t code, calls;
    uint16_t clock;  // of the thread
    uint16_t thread : 10, bytes : 4, kind : 2;
};

extern uint32_t epoch, block_epoch, launch_epoch;
extern uint16_t seen[MAX_THREADS][MAX_THREADS];
extern bool learned;  // of threads of other warps, in this epoch

// Whether `then` comes before what thread t does now, in every run of the kernel.
inline bool ordered(const access_record &then, unsigned t, bool shared)
{
    if (then.epoch < launch_epoch) return true;
    if (then.epoch < block_epoch) return shared;  // another block of the launch, whose shared memory was another
    if (then.epoch < epoch) return true;          // a barrier of the block lies between
    if (then.thread == t) return true;
    return (learned || then.thread / WARP == t / WARP) && then.clock <= seen[t][then.thread];
}

uint3 block_at(uint32_t epoch);  // whose access that was

// The last barrier that both threads of a block have passed, the block's or their warp's; code 0: there was none.
struct last_barrier {
    place at;
    bool known;  // false: signals order them, too
};
last_barrier barrier_before(unsigned t, unsigned other);
bool in_a_loop(place barrier);  // a block has passed it more than once

// ------------------------ shadow.cpp
// What is known about each byte of device and shared memory.
enum byte_flag : uint8_t {
    EXISTS = 1,
    WRITTEN = 2,
    PENDING = 4,  // an asynchronous copy was issued, and nobody has waited for it
    FREED = 8
};

struct word_history {  // of 4 bytes: one line of the cache
    access_record writes[2], reads[2];
};

enum { CHUNK = 1 << 16 };
struct chunk {
    uint8_t flags[CHUNK];
    word_history words[CHUNK / 4];
};

// The chunk that knows about a byte, and where in it; null if it is neither device nor shared memory that ever existed.
chunk *find_chunk(const char *at, size_t *offset, bool *shared);

// What a byte is to the student: "__shared__ sum_smem[0][3] of 4 x 4".
void describe_memory(const char *at, unsigned bytes, char *text, size_t size);
void describe_unwritten(const char *at, char *text,
                        size_t size);  // appends how much of shared memory around it nobody has written

// ------------------------ access.cpp
void check_access(const char *at, unsigned bytes, access_kind kind, void *code);
void check_alignment(const char *at, unsigned bytes, void *code);

// ------------------------ findings.cpp
// A name, what it means, and the section that tells more.
// clang-format off
#define CUDACPU_FINDINGS(row_) \
    row_(RACE, "race", \
         "Two threads access the same memory, at least one of them writes, and nothing orders the two accesses.", \
         "Races") \
    row_(NOT_WAITED, "asynchronous copy not waited for", \
         "The bytes of an asynchronous copy are used while they may still be in flight.", "Asynchronous copies") \
    row_(OUT_OF_BOUNDS, "out of bounds", "The address is outside of the memory that was meant.", \
         "Outside of the memory") \
    row_(USE_AFTER_FREE, "use after free", "The memory has been freed.", "Outside of the memory") \
    row_(UNINITIALISED, "uninitialised read", "A value is used that was never written.", "Nobody wrote it") \
    row_(MISALIGNED, "misaligned access", \
         "The address of a load or store of several bytes is not a multiple of its size.", "Alignment") \
    row_(NULL_POINTER, "null pointer", "A kernel uses an address that is 0, or close to it.", "Host and device") \
    row_(HOST_POINTER, "host pointer in a kernel", "A kernel uses host memory.", "Host and device") \
    row_(DEVICE_POINTER, "device pointer on the host", "Host code uses device memory.", "Host and device") \
    row_(STRANGE_POINTER, "another thread's variable", "A kernel uses a local variable of another thread.", \
         "Host and device") \
    row_(NEVER_COME, "lanes that never come", \
         "A mask names lanes that end without this operation. The others wait for them until then.", \
         "Barriers and lanes") \
    row_(REFUSED, "refused", "", "Launches that are refused")
// clang-format on
enum finding_kind { CUDACPU_FINDINGS(CUDACPU_FIRST) };

struct finding_side {
    place where;
    uint3 block;
    unsigned thread;
    access_kind kind;
};

struct finding {
    finding_kind kind;
    const char *missing;  // one sentence; of a RACE it follows from the next line
    bool across_blocks, across_warps, by_async_copy;
    last_barrier since;  // of a RACE in a block
    char memory[320];
    finding_side sides[2];  // the one before, if there is one; the one now
    int side_count;
    bool on_host;
    call_site site;  // of a REFUSED one
    char kernel[128];
    uint3 block_size;
    unsigned long times;

    // Whether the threads of another pair are farther apart than those before: of several pairs the farthest is shown.
    bool farther(bool blocks, bool warps, bool async)
    {
        const bool is = (blocks && !across_blocks) || (warps && !across_warps && !across_blocks);
        across_blocks |= blocks, across_warps |= warps, by_async_copy |= async;
        return is;
    }
};

// Takes down what the running thread does at `now`. The caller completes it if it is `times` 1: new.
finding *new_finding(finding_kind kind, place now, access_kind what, place before = {0, 0});
void found_unfilled(const char *at, const char *kernel, call_site site);  // by a product of a rank's
void found_absent(block &b, warp &w, unsigned lanes);                     // only these lanes have met
[[noreturn]] void finish();                                               // prints the findings and ends the process
}
