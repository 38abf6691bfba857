// entry.cpp - the calls that the compiler puts into a kernel: -fsanitize=thread announces loads, stores and calls,
// -fsanitize=bounds,alignment what it found wrong. The names are the compiler's.
#include "check.h"

using namespace cudacpu;

#define CALLER __builtin_return_address(0)

enum { READS = 1, WRITES = 2, ALIGNED = 4 };

static inline void announced(const void *p, size_t size, int what, void *code)
{
    const char *at = chars(p);
    const unsigned bytes = size;
    if (what & ALIGNED) check_alignment(at, bytes < 8 ? bytes : 8, code);  // 16 bytes: of a type aligned to 8, perhaps
    if (what & READS) check_access(at, bytes, READ, code);
    if (what & WRITES) check_access(at, bytes, WRITE, code);
}

void cudacpu::hook_atomic(const void *at, size_t bytes, void *code) { check_access(chars(at), bytes, ATOMIC, code); }

extern "C" {
// ------------------------ loads and stores
#define ENTRY(name, size, what) \
    void __tsan_##name##size(void *p) { announced(p, size, what, CALLER); }
#define ACCESS(size) \
    ENTRY(read, size, READS | ALIGNED) \
    ENTRY(write, size, WRITES | ALIGNED) \
    ENTRY(unaligned_read, size, READS) \
    ENTRY(unaligned_write, size, WRITES)
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *p, size_t n) { announced(p, n, READS, CALLER); }
void __tsan_write_range(void *p, size_t n) { announced(p, n, WRITES, CALLER); }

// The Makefile renames a kernel's calls of memcpy and its relatives to these; clang calls __tsan_memcpy.
#define COPY(name, function) \
    void *name(void *to, const void *from, size_t n) \
    { \
        if (n) announced(from, n, READS, CALLER), announced(to, n, WRITES, CALLER); \
        return function(to, from, n); \
    }
#define SET(name) \
    void *name(void *to, int value, size_t n) \
    { \
        if (n) announced(to, n, WRITES, CALLER); \
        return memset(to, value, n); \
    }
COPY(check_memcpy, memcpy)
COPY(check_memmove, memmove)
COPY(__tsan_memcpy, memcpy)
COPY(__tsan_memmove, memmove)
SET(check_memset)
SET(__tsan_memset)

// ------------------------ C++ atomics and fences
// They order nothing here. A flag that one block sets and another waits for is reported as a race.
#define CHANGE(bits, type, name, function) \
    type __tsan_atomic##bits##_##name(volatile type *p, type x, int) { return function(p, x, __ATOMIC_SEQ_CST); }
#define CXX_ATOMIC(bits, type) \
    type __tsan_atomic##bits##_load(const volatile type *p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); } \
    void __tsan_atomic##bits##_store(volatile type *p, type x, int) { __atomic_store_n(p, x, __ATOMIC_SEQ_CST); } \
    CHANGE(bits, type, exchange, __atomic_exchange_n) \
    CHANGE(bits, type, fetch_add, __atomic_fetch_add) \
    CHANGE(bits, type, fetch_sub, __atomic_fetch_sub) \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *p, type *expected, type x, int, int) \
    { \
        return __atomic_compare_exchange_n(p, expected, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
CXX_ATOMIC(8, uint8_t)
CXX_ATOMIC(16, uint16_t)
CXX_ATOMIC(32, uint32_t)
CXX_ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
void __tsan_init() {}
void __tsan_vptr_update(void *, void *) {}
void __tsan_vptr_read(void *) {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}

// ------------------------ bounds, alignment
struct ub_type {
    uint16_t kind, info;
    char name[1];
};
struct ub_bounds {
    announced_place at;
    const ub_type *array, *index;
};

void __ubsan_handle_out_of_bounds(ub_bounds *data, uintptr_t index)
{
    const bool is_signed = data->index->info & 1, is_int = data->index->info >> 1 <= 5;
    const long value = is_signed && is_int ? int32_t(index) : long(index);
    finding *f = new_finding(OUT_OF_BOUNDS, place_of(CALLER), READ);
    if (f) {
        snprintf(f->memory, sizeof f->memory, "index %ld of an array %s", value, data->array->name);
        f->missing = "an index below the size of the array: which values can the index have on this line?";
    }
    finish();
}

void __ubsan_handle_type_mismatch_v1(announced_access *access, uintptr_t address)
{
    const char *at = reinterpret_cast<const char *>(address);
    if (address < 4096)
        check_access(at, 1, READ, CALLER);
    else
        check_alignment(at, 1u << access->log2_alignment, CALLER);
}
}
