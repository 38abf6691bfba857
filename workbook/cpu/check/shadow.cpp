// shadow.cpp - what is known about each byte that a kernel may touch, and what the student calls it.
#include "check.h"

namespace cudacpu
{
// Device addresses are one piece (memory.cpp), shared memory is one arena (shared_memory.cpp): two tables of chunks.
enum { DEVICE_CHUNKS = 1 << 20, SHARED_CHUNKS = 8, LEFT_OF_STATIC = 4 * CHUNK };
static chunk **device_chunks, *shared_chunks[SHARED_CHUNKS];
static const char *device_begin, *shared_begin;

static void *zeros(size_t bytes)
{
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) return memory;
    perror("sanitize: memory");
    _exit(1);
}

static chunk *need(chunk *&c) { return c ? c : c = static_cast<chunk *>(zeros(sizeof(chunk))); }

chunk *find_chunk(const char *at, size_t *offset, bool *shared)
{
    const size_t in_device = at - device_begin;
    if (in_device < size_t(DEVICE_CHUNKS) * CHUNK) {
        *offset = in_device % CHUNK;
        *shared = false;
        return device_chunks ? device_chunks[in_device / CHUNK] : nullptr;
    }
    const size_t in_shared = at - shared_begin;
    if (in_shared < size_t(SHARED_CHUNKS) * CHUNK) {
        *offset = in_shared % CHUNK;
        *shared = true;
        return shared_chunks[in_shared / CHUNK];
    }
    return nullptr;
}

// Sets the flags of bytes that may lie in several chunks: flags = (flags & keep) | set.
static void mark(const char *at, size_t bytes, uint8_t keep, uint8_t set)
{
    while (bytes) {
        size_t offset;
        bool shared;
        chunk *c = find_chunk(at, &offset, &shared);
        const size_t here = bytes < CHUNK - offset ? bytes : CHUNK - offset;
        if (c && !keep) memset(c->flags + offset, set, here);
        for (size_t i = 0; c && keep && i < here; i++) c->flags[offset + i] = (c->flags[offset + i] & keep) | set;
        at += here;
        bytes -= here;
    }
}

// ------------------------ device memory

void hook_allocate(char *at, size_t bytes)
{
    if (!device_begin) {  // whole chunks below and above the first address; all others lie higher
        device_begin = reinterpret_cast<const char *>(address_of(at) / CHUNK * CHUNK - CHUNK);
        device_chunks = static_cast<chunk **>(zeros(DEVICE_CHUNKS * sizeof(chunk *)));
    }
    const size_t first = size_t(at - device_begin) / CHUNK, last = size_t(at + bytes - 1 - device_begin) / CHUNK;
    for (size_t i = first; i <= last; i++) need(device_chunks[i]);
    mark(at, bytes, 0, EXISTS);
}

void hook_free(char *at, size_t bytes) { mark(at, bytes, 0, FREED); }
void hook_host_wrote(char *at, size_t bytes) { mark(at, bytes, 0xff, WRITTEN); }

void hook_held(const char *at, size_t bytes, bool reads, const char *kernel, call_site site)
{
    size_t offset;
    bool shared;
    for (size_t i = 0; reads && i < bytes; i++) {
        const chunk *c = find_chunk(at + i, &offset, &shared);
        if (!c || (c->flags[offset] & (EXISTS | WRITTEN)) != EXISTS) continue;
        found_unfilled(at + i, kernel, site);
        break;
    }
    mark(at, bytes, 0xff, WRITTEN);
}

// The worker's tensors. What its allocation has besides, such as an offset, does not exist for kernels.
extern "C" void wb_name_buffer(const void *at, const char *name, const char *type, size_t element, const size_t dim[4])
{
    const char *const from = chars(at);
    size_t all = 0;
    const char *const begin = name_tensor(from, {name, type, element, {dim[0], dim[1], dim[2], dim[3]}}, &all);
    if (!begin) return;
    const char *const end = from + element * dim[0] * dim[1] * dim[2] * dim[3];
    mark(begin, from - begin, 0, 0);
    if (end < begin + all) mark(end, begin + all - end, 0, 0);
}

// ------------------------ shared memory

static size_t static_used;  // by variables of the last block

void shadow_block_begin(block &b)
{
    if (!shared_begin) {
        shared_begin = b.static_shared - LEFT_OF_STATIC;
        for (chunk *&c : shared_chunks) need(c);
    }
    static size_t dynamic_used;
    mark(b.static_shared, static_used, 0, 0);
    mark(b.static_shared - page_size() - dynamic_used, dynamic_used, 0, 0);
    static_used = 0;
    dynamic_used = (b.config->shared + 127) / 128 * 128;
    mark(b.dynamic_shared, b.config->shared, 0, EXISTS);
}

void hook_shared(const shared_variable &variable, char *at)
{
    static_used = size_t(at - current->static_shared) + variable.bytes;
    mark(at, variable.bytes, 0, EXISTS);
}

static void describe_shared(const char *at, unsigned bytes, char *text, size_t size)
{
    const block &b = *current;
    if (at < b.static_shared - page_size() / 2) {
        const ptrdiff_t offset = at - b.dynamic_shared, all = b.config->shared;
        if (offset >= 0 && offset < all)
            snprintf(text, size, "extern __shared__ %s, bytes %td to %td of %td",
                     b.dynamic_name ? b.dynamic_name : "shared memory", offset, offset + bytes - 1, all);
        else if (!describe_shared_address(b, at, text, size))
            snprintf(text, size, "address %p", static_cast<const void *>(at));
        return;
    }
    const shared_slot *nearest = nullptr;
    for (unsigned i = 0; i < b.slot_count; i++)
        if (at >= b.slots[i].at && (!nearest || b.slots[i].at > nearest->at)) nearest = &b.slots[i];
    if (!nearest) {
        snprintf(text, size, "before the first __shared__ variable");
        return;
    }
    const shared_variable &v = *nearest->variable;
    const size_t offset = at - nearest->at, count = v.bytes / v.element;
    if (offset < v.bytes && v.element > 16)  // a structure
        snprintf(text, size, "__shared__ %s, bytes %zu to %zu of %zu", v.name, offset, offset + bytes - 1, v.bytes);
    else if (offset < v.bytes && v.extent > v.element)
        snprintf(text, size, "__shared__ %s[%zu][%zu] of %zu x %zu", v.name, offset / v.extent,
                 offset % v.extent / v.element, v.bytes / v.extent, v.extent / v.element);
    else if (offset < v.bytes && count > 1)
        snprintf(text, size, "__shared__ %s[%zu] of %zu", v.name, offset / v.element, count);
    else if (offset < v.bytes)
        snprintf(text, size, "__shared__ %s", v.name);
    else
        snprintf(text, size, "%zu elements past the last of __shared__ %s, which has %zu elements of %zu bytes",
                 (offset - v.bytes) / v.element + 1, v.name, count, v.element);
}

void describe_unwritten(const char *at, char *text, size_t size)
{
    const char *begin = current->dynamic_shared, *end = begin + current->config->shared, *from = at, *to = at;
    size_t offset;
    bool shared;
    const auto unwritten = [&](const char *byte) {
        const chunk *c = find_chunk(byte, &offset, &shared);
        return c && (c->flags[offset] & (EXISTS | WRITTEN | PENDING)) == EXISTS;
    };
    if (at < begin || at >= end) return;
    while (from > begin && unwritten(from - 1)) from--;
    while (to < end && unwritten(to)) to++;
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "; bytes %td to %td were never written", from - begin, to - begin - 1);
}

void describe_memory(const char *at, unsigned bytes, char *text, size_t size)
{
    const size_t in_shared = at - shared_begin;
    if (shared_begin && current && in_shared < size_t(SHARED_CHUNKS) * CHUNK)
        describe_shared(at, bytes, text, size);
    else if (!describe_device_address(at, text, size))
        snprintf(text, size, "address %p", static_cast<const void *>(at));
}
}
