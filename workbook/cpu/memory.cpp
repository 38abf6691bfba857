// memory.cpp - device memory: memory of this machine that only kernels may touch.
//
// A buffer ends, at a multiple of 256 bytes as on a GPU, where a page begins that nobody may touch. Its bytes are 0xff
// at first: NaN. Outside kernels and cudaMemcpy its own pages may not be touched either. Pages of a guard
// (../layer_requests.h) are given memory when they are touched: most never are. Freed addresses are not handed out
// again as long as there are others, unless somebody asks for them (../layer_requests.h).
#include "flight.h"

#include <algorithm>
#include <mutex>

namespace cudacpu
{
struct buffer {
    char *at;
    size_t bytes;  // asked for
    char *pages;
    size_t page_bytes;
    call_site site;  // of cudaMalloc
    bool managed;
    char *open, *end;  // those pages that are no guard, or one that was touched
    size_t before, behind;
    bool freed = false, constant = false;
    int protection = PROT_READ | PROT_WRITE;     // of these pages
    tensor_name is = {nullptr, nullptr, 1, {}};  // null unless the check build was told what it is
    const char *tensor = at;
    size_t tensor_bytes = bytes;
};

enum { ALIGNMENT = 256 };
// Reserved, not used: 8 TiB, so that places lie 64 GiB apart, or less where addresses are limited.
static const size_t MOST_ADDRESSES = size_t(1) << 43, FEWEST_ADDRESSES = size_t(1) << 28;

// One for the process, made by its first call and never destroyed, since kernels may run until the very end.
struct device_memory {
    std::recursive_mutex mutex;                              // a copy may touch a guard
    char *begin = nullptr, *end = nullptr, *next = nullptr;  // the reserved addresses, and where to look for room
    std::vector<buffer> buffers;
    size_t now = 0, peak = 0;
    int open = 0;                   // launches under way
    int place = -1;                 // where the next buffer is wanted: wb_place_next()
    size_t before = 0, behind = 0;  // its guards: wb_guard_next()
};

static device_memory &device()
{
    static device_memory &the_one = *new device_memory;
    return the_one;
}

struct lock : std::lock_guard<std::recursive_mutex> {
    lock() : lock_guard(device().mutex) {}
};

size_t device_memory_limit()
{
    static const size_t bytes = size_t(environment("CUDACPU_MEM_MB", 8192)) << 20;
    return bytes;
}

static void protect(buffer &x, int protection)
{
    x.protection = protection;
    mprotect(x.open, x.end - x.open, protection);
}

// The buffer that holds this byte, freed ones last; null if there is none.
static buffer *find(const void *pointer)
{
    const char *at = chars(pointer);
    buffer *found = nullptr;
    for (buffer &x : device().buffers)
        if (at >= x.at && at < x.at + x.bytes && (!found || !x.freed)) found = &x;
    return found;
}

// The nearest to an address, of two as near one that is not freed; null if there are none.
static const buffer *nearest(const char *at)
{
    const buffer *found = nullptr;
    ptrdiff_t distance = 0;
    for (const buffer &x : device().buffers) {
        const ptrdiff_t past = at - x.tensor - ptrdiff_t(x.tensor_bytes) + 1;
        const ptrdiff_t away = std::max({x.tensor - at, past, ptrdiff_t{0}});
        if (!found || away < distance || (away == distance && !x.freed)) found = &x, distance = away;
    }
    return found;
}

// ------------------------ allocate and free

static bool meets(const buffer &x, const char *at, size_t bytes)
{
    return x.pages < at + bytes && x.pages + x.page_bytes > at;
}

// The buffer on whose pages one of these bytes lies.
static buffer *holder(const char *at, size_t bytes = 1)
{
    for (buffer &x : device().buffers)
        if (!x.freed && meets(x, at, bytes)) return &x;
    return nullptr;
}

// Addresses for `bytes` with a guard page on each side; null if there are none left.
static char *find_room(size_t bytes)
{
    device_memory &d = device();
    const size_t page = page_size(), all = bytes + 2 * page;
    if (!d.begin) {
        void *range = MAP_FAILED;
        size_t addresses = 2 * MOST_ADDRESSES;
        while (range == MAP_FAILED && addresses > FEWEST_ADDRESSES) {
            addresses /= 2;
            range = mmap(nullptr, addresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        }
        if (range == MAP_FAILED) {
            fprintf(stderr,
                    "cudacpu: cannot reserve 256 MiB of addresses for device memory; does `ulimit -v` limit them?\n");
            return nullptr;
        }
        madvise(range, addresses, MADV_HUGEPAGE);  // or faults, page by page, would cost more than what kernels do
        d.begin = d.next = static_cast<char *>(range);
        d.end = d.begin + addresses;
    }
    enum { PLACES = 64 };
    const size_t room = size_t(d.end - d.begin) / (2 * PLACES) / page * page;  // in the second half
    char *place = d.end - size_t(d.place + 1) * room;
    const bool placed = d.place >= 0 && d.place < PLACES && all <= room && !holder(place, all);
    d.place = -1;
    if (placed) return place + page;
    for (int rounds = 0; rounds < 2;) {
        if (all > size_t(d.end - d.next)) {
            d.next = d.begin;
            rounds++;
            continue;
        }
        const buffer *other = holder(d.next, all);
        if (!other) {
            char *pages = d.next + page;
            d.next += all;
            return pages;
        }
        d.next = other->pages + other->page_bytes + page;
    }
    return nullptr;
}

// Forgets freed buffers whose addresses are used again, and the oldest when there are very many.
static void forget_freed(const char *pages, size_t bytes)
{
    enum { MANY = 4096 };
    std::vector<buffer> &buffers = device().buffers;
    size_t surplus = buffers.size() > MANY ? buffers.size() - MANY : 0;
    erase_if(buffers, [&](const buffer &x) {
        const bool gone = x.freed && (surplus || meets(x, pages, bytes));
        surplus -= gone && surplus;
        return gone;
    });
}

cudaError_t allocate(void **pointer, size_t bytes, bool managed, call_site site)
{
    if (!pointer) return set_error(cudaErrorInvalidValue);
    *pointer = nullptr;
    if (!bytes) return cudaSuccess;
    catch_faults();
    lock guard;
    device_memory &d = device();
    if (bytes > device_memory_limit() || d.now > device_memory_limit() - bytes)
        return set_error(cudaErrorMemoryAllocation);
    const size_t body = round_up(bytes, ALIGNMENT), page_bytes = round_up(body, page_size());
    char *const pages = find_room(page_bytes), *const at = pages + page_bytes - body;
    char *const open = page_of(at + d.before), *const end = page_of(at + bytes - d.behind + page_size() - 1);
    const size_t open_bytes = end - open;
    if (!pages || mprotect(open, open_bytes, PROT_READ | PROT_WRITE) != 0) return set_error(cudaErrorMemoryAllocation);
    forget_freed(pages, page_bytes);
    buffer x = {at, bytes, pages, page_bytes, site, managed, open, end, d.before, d.behind};
    d.before = d.behind = 0;
    if (blocks_run()) {
        madvise(open, open_bytes, 23);  // MADV_POPULATE_WRITE, where there is one: a fault a page costs more
        memset(open, 0xff, open_bytes);
    }
    if (!managed && !d.open) protect(x, PROT_NONE);
    d.buffers.push_back(x);
    d.now += bytes;
    if (d.now > d.peak) d.peak = d.now;
    hook_allocate(x.at, bytes);
    *pointer = x.at;
    return cudaSuccess;
}

cudaError_t release(void *pointer, call_site site)
{
    if (!pointer) return cudaSuccess;
    lock guard;
    buffer *x = find(pointer);
    if (!x || x->at != pointer)
        return refuse("cudaFree", site, cudaErrorInvalidValue, "the pointer did not come from cudaMalloc");
    if (x->freed) return refuse("cudaFree", site, cudaErrorInvalidValue, "the memory has been freed before");
    x->freed = true;
    device().now -= x->bytes;
    hook_free(x->at, x->bytes);
    protect(*x, PROT_NONE);
    madvise(x->pages, x->page_bytes, MADV_DONTNEED);  // the pages go back to the system, the addresses stay taken
    return cudaSuccess;
}

extern "C" size_t wb_memory_current(void) { return device().now; }
extern "C" size_t wb_memory_peak(void) { return device().peak; }

extern "C" void wb_memory_reset_peak(void)
{
    lock guard;
    device().peak = device().now;
}

// ------------------------ who may touch it when

void open_device_memory(bool open)
{
    lock guard;
    if (open ? device().open++ : --device().open) return;
    for (buffer &x : device().buffers)
        if (!x.freed && !x.managed) protect(x, !open ? PROT_NONE : x.constant ? PROT_READ : PROT_READ | PROT_WRITE);
}

extern "C" void wb_open_memory(bool open) { open_device_memory(open); }

bool guard_touched(const char *at, bool write)
{
    if (!is_device_address(at)) return false;
    lock guard;
    buffer *const x = holder(at);
    if (!x) return false;
    const bool may = x->protection & (write ? PROT_WRITE : PROT_READ), behind = at >= x->end;
    if (at >= x->open && !behind) return may && !flying && !watching();  // another thread was first
    char *const from = behind ? x->end : x->pages, *const to = behind ? x->pages + x->page_bytes : x->open;
    const size_t bytes = to - from;
    void *const fresh =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return false;
    memset(fresh, 0xff, bytes);
    mprotect(fresh, bytes, x->protection);
    mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from);  // at once, for others may write there
    (behind ? x->end : x->open) = behind ? to : from;
    return may;
}

// ------------------------ copies

// Whether [at, at + bytes), a call's destination or source, is device memory, or may be host memory. Says why not.
static bool usable(const void *at, size_t bytes, bool on_device, const char *call, const char *role, call_site site)
{
    const buffer *x = find(at);
    const size_t offset = x ? size_t(chars(at) - x->at) : 0;
    if (!on_device && x && !x->managed)
        refuse(call, site, cudaErrorInvalidValue, "the %s is device memory, but the copy's direction says host memory",
               role);
    else if (on_device && !x)
        refuse(call, site, cudaErrorInvalidValue, "the %s is not device memory", role);
    else if (on_device && x->freed)
        refuse(call, site, cudaErrorInvalidValue, "the %s has been freed", role);
    else if (on_device && bytes > x->bytes - offset)
        refuse(call, site, cudaErrorInvalidValue,
               "%zu bytes, beginning at byte %zu, extend past the end of the %s, which has %zu bytes (cudaMalloc at "
               "%s:%d)",
               bytes, offset, role, x->bytes, x->site.file, x->site.line);
    else
        return true;
    return false;
}

struct opened {  // lets this thread touch a buffer for a moment
    buffer *x;
    explicit opened(const void *at) : x(find(at))
    {
        if (x && (x->managed || device().open)) x = nullptr;
        if (x) protect(*x, PROT_READ | PROT_WRITE);
    }
    ~opened()
    {
        if (x) protect(*x, PROT_NONE);
    }
};

cudaError_t copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, call_site site)
{
    if (!bytes) return cudaSuccess;
    if (!to || !from) return refuse("cudaMemcpy", site, cudaErrorInvalidValue, "a pointer is null");
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return refuse("cudaMemcpy", site, cudaErrorInvalidMemcpyDirection, "there is no such direction");
    lock guard;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) {
        to_device = find(to) != nullptr;
        from_device = find(from) != nullptr;
    }
    if (!usable(to, bytes, to_device, "cudaMemcpy", "destination", site) ||
        !usable(from, bytes, from_device, "cudaMemcpy", "source", site))
        return cudaErrorInvalidValue;
    watch_copied(from, bytes, site);
    opened destination(to), source(from);
    memmove(to, from, bytes);
    if (to_device) hook_host_wrote(static_cast<char *>(to), bytes);
    return cudaSuccess;
}

cudaError_t set(void *to, int value, size_t bytes, call_site site)
{
    if (!bytes) return cudaSuccess;
    lock guard;
    if (!usable(to, bytes, true, "cudaMemset", "destination", site)) return cudaErrorInvalidValue;
    opened destination(to);
    memset(to, value, bytes);
    hook_host_wrote(static_cast<char *>(to), bytes);
    return cudaSuccess;
}

// ------------------------ for flight.h

bool protect_pages_of(const char *at, size_t bytes, int protection)
{
    const buffer *const x = is_device_address(at) ? holder(at) : nullptr;
    if (!x || x->managed || at < x->at) return false;
    char *const from = std::max(page_of(at), x->open), *const end =
                                                           std::min(page_of(at + bytes - 1) + page_size(), x->end);
    if (from < end) mprotect(from, end - from, protection);
    return true;
}

size_t buffer_bytes(const void *at)
{
    const lock guard;
    const buffer *x = find(at);
    return x && !x->freed ? size_t(x->at + x->bytes - chars(at)) : 0;
}

bool inside_one_buffer(const void *at, size_t bytes, char *why, size_t size)
{
    const lock guard;
    const buffer *x = find(at);
    const size_t offset = x ? size_t(chars(at) - x->at) : 0;
    if (!x)
        snprintf(why, size, "the address is not in device memory");
    else if (x->freed)
        snprintf(why, size, "the memory has been freed");
    else if (bytes > x->bytes - offset)
        snprintf(why, size, "from byte %zu on they extend past the end of the %zu bytes of cudaMalloc at %s:%d", offset,
                 x->bytes, x->site.file, x->site.line);
    else
        return true;
    return false;
}

void poke(void *to, const void *from, size_t bytes)
{
    const lock guard;
    const opened destination(to);
    if (from)
        memcpy(to, from, bytes);
    else
        memset(to, 0xff, bytes);
    if (from) hook_host_wrote(static_cast<char *>(to), bytes);
}

void peek(void *to, const void *from, size_t bytes)
{
    const lock guard;
    const opened source(from);
    memcpy(to, from, bytes);
}

bool is_device_address(const void *at) { return at >= device().begin && at < device().end; }

const char *name_tensor(const char *at, const tensor_name &is, size_t *bytes)
{
    buffer *const x = find(at);
    if (!x || x->freed) return nullptr;
    x->is = is, x->tensor = at, x->tensor_bytes = is.element * is.dim[0] * is.dim[1] * is.dim[2] * is.dim[3];
    *bytes = x->bytes;
    return x->at;
}

bool was_freed(const char *at)
{
    const buffer *const x = nearest(at);
    return x && x->freed && at >= x->tensor && at < x->tensor + x->tensor_bytes;
}

bool is_before(const char *at)
{
    const buffer *const x = nearest(at);
    return x && at < x->tensor;
}

bool describe_device_address(const char *at, char *text, size_t size)
{
    const buffer *const x = is_device_address(at) ? nearest(at) : nullptr;
    if (!x) return false;
    const size_t unit = x->is.element, from = at - x->tensor;
    const bool before = at < x->tensor, inside = !before && from < x->tensor_bytes, named = x->is.name;
    const size_t away = before ? size_t(x->tensor - at) + unit - 1 : from - x->tensor_bytes;
    const size_t units = (inside ? from : away) / unit + (named && !before && !inside);
    std::string what = "the " + std::to_string(x->tensor_bytes) + " bytes of cudaMalloc at " + x->site.file + ":" +
                       std::to_string(x->site.line);
    std::string where = inside && !named ? "byte " + std::to_string(units)
                        : inside         ? x->is.name
                                 : std::to_string(units) + (named ? " element" : " byte") + (units == 1 ? "" : "s");
    int first = 0;  // of the dimensions that are not 1
    while (first < 3 && x->is.dim[first] == 1) first++;
    if (named) what = std::string(x->is.name) + ", " + x->is.type + " ";
    size_t below = x->tensor_bytes / unit;
    for (int i = 0; i < 4 && named; i++) {
        below /= x->is.dim[i];
        if (i < first) continue;
        what += "[" + std::to_string(x->is.dim[i]) + "]";
        if (inside) where += "[" + std::to_string(units / below % x->is.dim[i]) + "]";
    }
    snprintf(text, size, "%s %s %s%s", where.c_str(),
             inside   ? "of"
             : before ? named ? "before the first of" : "before"
             : named  ? "past the last of"
                      : "past the end of",
             what.c_str(),
             x->freed                ? named ? ", which has been freed" : ", which have been freed"
             : x->constant && inside ? ", an input, which must not be written, not even with the same value"
                                     : "");
    return true;
}
}

// ------------------------ as CUDA names them

using namespace cudacpu;

cudaError_t cudaFree(void *pointer, call_site site)
{
    if (flying) flight_host_waits_for_all();  // it waits for the whole device
    catch_up_all();
    return release(pointer, site);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    *total = device_memory_limit();
    *free = *total - wb_memory_current();
    return cudaSuccess;
}

extern "C" void wb_place_next(int number) { device().place = number; }

extern "C" void wb_guard_next(size_t before, size_t behind) { device().before = before, device().behind = behind; }

extern "C" size_t wb_open_guard(const void *buffer, bool behind)
{
    lock guard;
    const cudacpu::buffer *const x = find(buffer);
    if (!x) return 0;
    const char *const from = behind ? x->at + x->bytes - x->behind : std::max(x->at, x->open);
    const char *const end = behind ? std::min(x->at + x->bytes, x->end) : x->at + x->before;
    return end > from ? size_t(end - from) : 0;
}

extern "C" void wb_constant(const void *at)
{
    lock guard;
    buffer *x = find(at);
    if (x) x->constant = true;
}
