// async_copy.cpp - cp.async. The source is read at once; the bytes arrive only when the thread waits for their group.
#include "hooks.h"

#include <cuda_pipeline.h>

namespace cudacpu
{
struct pending_copy {
    char *to;
    unsigned bytes;
    unsigned group;
    char data[16];
};

// Of one thread. Copies arrive in the order in which they were issued.
struct copy_queue {
    std::vector<pending_copy> copies;
    size_t arrived;   // how many of them
    unsigned groups;  // closed so far
};

static copy_queue *queues()  // one for each thread of the block that this host thread runs
{
    static __thread copy_queue *all;
    if (!all) all = new copy_queue[MAX_THREADS]();
    return all;
}

static copy_queue &queue_of(const thread &t) { return queues()[t.number]; }

void async_copies_begin(block &b)
{
    for (unsigned i = 0; i < b.thread_count; i++) {
        queues()[i].copies.clear();
        queues()[i].arrived = queues()[i].groups = 0;
    }
}
}

using namespace cudacpu;

void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros, call_site site)
{
    thread &me = running_thread("__pipeline_memcpy_async()", site);
    me.code = __builtin_return_address(0);
    if (bytes != 4 && bytes != 8 && bytes != 16)
        report("bad asynchronous copy", site, "a copy of %zu bytes: the size must be 4, 8 or 16 bytes", bytes);
    if (zeros > bytes)
        report("bad asynchronous copy", site, "%zu bytes are to be filled with zeros, but the copy has only %zu bytes",
               zeros, bytes);
    const size_t to_past = address_of(to) % bytes, from_past = address_of(from) % bytes;
    if (to_past || from_past)
        report("misaligned asynchronous copy", site,
               "both addresses of a copy of %zu bytes must be multiples of this size, but the destination is %zu bytes "
               "past one, and the source %zu bytes",
               bytes, to_past, from_past);
    if (!is_shared_address(*current, static_cast<char *>(to)))
        report("bad asynchronous copy", site, "the destination must be shared memory");

    hook_async_issued(static_cast<char *>(to), chars(from), bytes, bytes - zeros);
    copy_queue &q = queue_of(me);
    pending_copy c = {static_cast<char *>(to), unsigned(bytes), q.groups, {}};
    memcpy(c.data, from, bytes - zeros);
    q.copies.push_back(c);
    memset(to, 0xff, bytes);
}

void __pipeline_commit(call_site site) { queue_of(running_thread("__pipeline_commit()", site)).groups++; }

void __pipeline_wait_prior(size_t pending, call_site site)
{
    copy_queue &q = queue_of(running_thread("__pipeline_wait_prior()", site));
    for (; q.arrived < q.copies.size() && q.copies[q.arrived].group + pending < q.groups; q.arrived++) {
        const pending_copy &c = q.copies[q.arrived];
        memcpy(c.to, c.data, c.bytes);
        hook_async_arrived(c.to, c.bytes);
    }
    if (q.arrived == q.copies.size()) {
        q.copies.clear();
        q.arrived = 0;
    }
}
