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

static wb_counted now;

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
    enum { NOTED = 80 };
    static size_t bytes;
    if (bytes) return bytes;
    take();
    wb_counted_record r;
    for (size_t at = COVERAGE_HEAD; at + sizeof r <= now.bytes;
         at += sizeof r + (size_t)(r.length > 0 ? r.length : 0)) {
        memcpy(&r, now.gcda + at, sizeof r);
        bytes += r.tag == COVERAGE_COUNTERS ? (size_t)abs(r.length) : r.tag == COVERAGE_FUNCTION ? NOTED : 0;
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
