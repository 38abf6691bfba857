// coverage.c - see coverage.h.
#include "worker/coverage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// One a source, in a section whose ends the linker names; and libgcov's, which build.mk links into the worker's own
// object, so that a function that asks for more of libgcov (__gcov_reset) finds none.
struct gcov_info;
extern const struct gcov_info *const __start_wb_counters[] __attribute__((weak));
extern const struct gcov_info *const __stop_wb_counters[] __attribute__((weak));
void __gcov_info_to_gcda(const struct gcov_info *info, void (*name)(const char *, void *),
                         void (*put)(const void *, unsigned, void *), void *(*room)(unsigned, void *), void *)
    __attribute__((weak));

// Counters name it, for those that add up files.
__attribute__((visibility("default"))) void __gcov_merge_add(int64_t *counters, unsigned count)
{
    (void)counters, (void)count;
}

static coverage now;

static void name(const char *path, void *context) { (void)path, (void)context; }

static void put(const void *data, unsigned bytes, void *context)
{
    (void)context;
    if (now.bytes + bytes > sizeof now.gcda) return;
    memcpy(now.gcda + now.bytes, data, bytes);
    now.bytes += bytes;
}

static void *room(unsigned bytes, void *context) { return (void)context, malloc(bytes); }

static void take(void)
{
    now.bytes = 0;
    for (const struct gcov_info *const *at = __start_wb_counters; at < __stop_wb_counters && __gcov_info_to_gcda; at++)
        __gcov_info_to_gcda(*at, name, put, room, NULL);
}

// Counters, and what gcc notes of each function that has some.
size_t coverage_statics(void)
{
    enum { HEAD = 16, FUNCTION = 0x01000000, COUNTERS = 0x01a10000, NOTED = 80 };
    static size_t bytes;
    if (bytes) return bytes;
    take();
    for (uint64_t at = HEAD; at + 8 <= now.bytes;) {
        uint32_t tag;
        int32_t length;  // below 0: so many bytes of counters, all 0, which are left out
        memcpy(&tag, now.gcda + at, sizeof tag);
        memcpy(&length, now.gcda + at + 4, sizeof length);
        bytes += tag == COUNTERS ? (size_t)abs(length) : tag == FUNCTION ? NOTED : 0;
        at += 8 + (uint64_t)(length > 0 ? length : 0);
    }
    return bytes;
}

int coverage_wanted(void)
{
    struct stat is;
    return fstat(COVERAGE_FILE, &is) == 0 && S_ISREG(is.st_mode) && is.st_size == COVERAGE_ROOM;
}

void coverage_write(void)
{
    take();
    if (pwrite(COVERAGE_FILE, &now, sizeof now.bytes + now.bytes, 0) < 0) now.bytes = 0;
}
