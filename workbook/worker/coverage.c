// coverage.c - see exchange.h.
#include "worker/exchange.h"

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
__attribute__((visibility("default"))) void __gcov_merge_add(void) {}

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

void coverage_write(void)
{
    struct stat is;
    if (fstat(COVERAGE_FILE, &is) || !S_ISREG(is.st_mode) || is.st_size != COVERAGE_ROOM) return;  // nobody asks
    now.bytes = 0;
    for (const struct gcov_info *const *at = __start_wb_counters; at < __stop_wb_counters && __gcov_info_to_gcda; at++)
        __gcov_info_to_gcda(*at, name, put, room, NULL);
    if (pwrite(COVERAGE_FILE, &now, sizeof now.bytes + now.bytes, 0) < 0) now.bytes = 0;
}
