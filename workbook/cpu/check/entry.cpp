// entry.cpp - the calls that the compiler puts into a kernel: -fsanitize=thread announces loads, stores and calls,
// -fsanitize=bounds,alignment what it found wrong. The names are the compiler's.
#include "check.h"

#include <math.h>

using namespace cudacpu;

#define CALLER      __builtin_return_address(0)
#define BYTES(p)    static_cast<const char *>(p)
#define UNSIGNED(n) static_cast<unsigned>(n)

extern "C" {
// ------------------------ loads and stores
// An access of 16 bytes may be of a type that is aligned to 8.
#define ALIGNMENT(size) ((size) < 8 ? (size) : 8)

#define ACCESS(size)                                                                                                   \
    void __tsan_read##size(void *p)                                                                                    \
    {                                                                                                                  \
        check_alignment(BYTES(p), ALIGNMENT(size), CALLER);                                                            \
        check_access(BYTES(p), size, READ, CALLER);                                                                    \
    }                                                                                                                  \
    void __tsan_write##size(void *p)                                                                                   \
    {                                                                                                                  \
        check_alignment(BYTES(p), ALIGNMENT(size), CALLER);                                                            \
        check_access(BYTES(p), size, WRITE, CALLER);                                                                   \
    }                                                                                                                  \
    void __tsan_read_write##size(void *p)                                                                              \
    {                                                                                                                  \
        check_alignment(BYTES(p), ALIGNMENT(size), CALLER);                                                            \
        check_access(BYTES(p), size, READ, CALLER);                                                                    \
        check_access(BYTES(p), size, WRITE, CALLER);                                                                   \
    }                                                                                                                  \
    void __tsan_unaligned_read##size(void *p) { check_access(BYTES(p), size, READ, CALLER); }                          \
    void __tsan_unaligned_write##size(void *p) { check_access(BYTES(p), size, WRITE, CALLER); }                        \
    void __tsan_unaligned_read_write##size(void *p)                                                                    \
    {                                                                                                                  \
        check_access(BYTES(p), size, READ, CALLER);                                                                    \
        check_access(BYTES(p), size, WRITE, CALLER);                                                                   \
    }                                                                                                                  \
    void __tsan_volatile_read##size(void *p) { check_access(BYTES(p), size, READ, CALLER); }                           \
    void __tsan_volatile_write##size(void *p) { check_access(BYTES(p), size, WRITE, CALLER); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *p, size_t n) { check_access(BYTES(p), UNSIGNED(n), READ, CALLER); }
void __tsan_write_range(void *p, size_t n) { check_access(BYTES(p), UNSIGNED(n), WRITE, CALLER); }

// The Makefile renames a kernel's calls of memcpy and its relatives to these; clang calls __tsan_memcpy.
#define COPY(name, function)                                                                                           \
    void *name(void *to, const void *from, size_t n)                                                                   \
    {                                                                                                                  \
        if (n)                                                                                                         \
            check_access(BYTES(from), UNSIGNED(n), READ, CALLER), check_access(BYTES(to), UNSIGNED(n), WRITE, CALLER); \
        return function(to, from, n);                                                                                  \
    }
#define SET(name)                                                                                                      \
    void *name(void *to, int value, size_t n)                                                                          \
    {                                                                                                                  \
        if (n) check_access(BYTES(to), UNSIGNED(n), WRITE, CALLER);                                                    \
        return memset(to, value, n);                                                                                   \
    }
COPY(check_memcpy, memcpy)
COPY(check_memmove, memmove)
COPY(__tsan_memcpy, memcpy)
COPY(__tsan_memmove, memmove)
SET(check_memset)
SET(__tsan_memset)

// ------------------------ C++ atomics and fences
// They order nothing here. A flag that one block sets and another waits for is reported as a race.
#define CXX_ATOMIC(bits, type)                                                                                         \
    type __tsan_atomic##bits##_load(const volatile type *p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }      \
    void __tsan_atomic##bits##_store(volatile type *p, type x, int) { __atomic_store_n(p, x, __ATOMIC_SEQ_CST); }      \
    type __tsan_atomic##bits##_exchange(volatile type *p, type x, int)                                                 \
    {                                                                                                                  \
        return __atomic_exchange_n(p, x, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                                  \
    type __tsan_atomic##bits##_fetch_add(volatile type *p, type x, int)                                                \
    {                                                                                                                  \
        return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                                  \
    type __tsan_atomic##bits##_fetch_sub(volatile type *p, type x, int)                                                \
    {                                                                                                                  \
        return __atomic_fetch_sub(p, x, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *p, type *expected, type x, int, int)              \
    {                                                                                                                  \
        return __atomic_compare_exchange_n(p, expected, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                 \
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
struct ub_place {
    const char *file;
    uint32_t line, column;
};
struct ub_type {
    uint16_t kind, info;
    char name[1];
};
struct ub_bounds {
    ub_place at;
    const ub_type *array, *index;
};
struct ub_mismatch {
    ub_place at;
    const ub_type *type;
    uint8_t log2_alignment, kind;
};

static void out_of_array(const ub_bounds *data, uintptr_t index, void *code)
{
    const bool is_signed = data->index->info & 1, is_int = data->index->info >> 1 <= 5;
    const long value = is_signed && is_int ? static_cast<int32_t>(index) : static_cast<long>(index);
    finding *f = new_finding(OUT_OF_BOUNDS, place_of(code), READ);
    if (f) {
        snprintf(f->memory, sizeof f->memory, "index %ld of an array %s", value, data->array->name);
        f->missing = "an index below the size of the array: which values can the index have on this line?";
    }
    finish();
}

void __ubsan_handle_out_of_bounds(ub_bounds *data, uintptr_t index) { out_of_array(data, index, CALLER); }
void __ubsan_handle_out_of_bounds_abort(ub_bounds *data, uintptr_t index) { out_of_array(data, index, CALLER); }

static void type_mismatch(const ub_mismatch *data, uintptr_t address, void *code)
{
    const char *at = reinterpret_cast<const char *>(address);
    if (address < 4096)
        check_access(at, 1, READ, code);
    else
        check_alignment(at, 1u << data->log2_alignment, code);
}

void __ubsan_handle_type_mismatch_v1(ub_mismatch *data, uintptr_t address) { type_mismatch(data, address, CALLER); }
void __ubsan_handle_type_mismatch_v1_abort(ub_mismatch *data, uintptr_t address)
{
    type_mismatch(data, address, CALLER);
}
}
