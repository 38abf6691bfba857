#include "coverage_sum.h"

#include "session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

int coverage_file(void) { return getenv("WB_COVERAGE") ? session_memory(COVERAGE_ROOM) : -1; }

// A .gcda is a head and then records: a tag, a length, so many bytes. Counters that are all 0 are left out, and their
// length stands there below 0: adds them, so that two of one program have their records in the same places. Returns how
// long it is then; 0 if it is none, or too long.
static size_t whole(const wb_counted *c, char *to, size_t most)
{
    size_t from = COVERAGE_HEAD, at = COVERAGE_HEAD;
    if (c->bytes < from || c->bytes > sizeof c->gcda) return 0;
    memcpy(to, c->gcda, at);
    while (from + sizeof(wb_counted_record) <= c->bytes) {
        wb_counted_record r;
        memcpy(&r, c->gcda + from, sizeof r);
        from += sizeof r;
        const size_t length = (size_t)llabs((long long)r.length), here = r.length > 0 ? length : 0;
        if (here > c->bytes - from || length > most - at || most - at - length < sizeof r) return 0;
        r.length = (int32_t)length;
        memcpy(to + at, &r, sizeof r);
        memset(to + at + sizeof r, 0, length);
        memcpy(to + at + sizeof r, c->gcda + from, here);
        from += here, at += sizeof r + length;
    }
    return at;
}

// Counter by counter; all else stays.
static void add(char *sum, const char *one, size_t bytes)
{
    for (size_t at = COVERAGE_HEAD; at + sizeof(wb_counted_record) <= bytes;) {
        wb_counted_record r;
        memcpy(&r, sum + at, sizeof r);
        at += sizeof r;
        for (size_t k = at; r.tag == COVERAGE_COUNTERS && k + 8 <= at + (size_t)r.length; k += 8) {
            uint64_t a, b;
            memcpy(&a, sum + k, sizeof a), memcpy(&b, one + k, sizeof b);
            a += b;
            memcpy(sum + k, &a, sizeof a);
        }
        at += (size_t)r.length;
    }
}

void coverage_keep(int file, int served)
{
    enum { MOST = 4 * COVERAGE_ROOM };
    static wb_counted counted;
    static char one[MOST], sum[MOST];
    char path[4096];
    if (file < 0) return;
    counted.bytes = 0;
    const size_t bytes = pread(file, &counted, sizeof counted, 0) < 0 ? 0 : whole(&counted, one, MOST);
    close(file);
    if (!served) return;
    snprintf(path, sizeof path, "%s/served", getenv("WB_COVERAGE"));
    const int told = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    snprintf(path, sizeof path, "%s/sum.gcda", getenv("WB_COVERAGE"));
    const int to = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (told < 0 || to < 0 || flock(to, LOCK_EX)) return;
    dprintf(told, "%d\n", served);
    const ssize_t known = pread(to, sum, sizeof sum, 0);
    if (known == 0) memcpy(sum, one, bytes);
    if (known == (ssize_t)bytes) add(sum, one, bytes);
    if (bytes && (known == 0 || known == (ssize_t)bytes) && pwrite(to, sum, bytes, 0) < 0) unlink(path);
    close(to);
    close(told);
}
