// shared_memory.cpp - one arena for each host thread, used again by every block it runs.
//
//   | guard page | room for dynamic shared memory, used from the right | guard page | static variables, used from the
//   left | guard page |
//
// Between static variables are gaps. All of it is NaN when a block starts, 0x7fffffff, as a GPU computes it: what comes
// of it does not look like an output that was not written (bytes 0xff).
#include "hooks.h"

#include <wchar.h>

namespace cudacpu
{
enum { GAP = 64, ALIGNMENT = 128 };

static size_t dynamic_room() { return round_up(SHARED_AT_MOST, page_size()); }
static size_t static_room()
{
    return round_up(SHARED_BY_DEFAULT + MAX_SHARED_VARIABLES * (GAP + ALIGNMENT), page_size());
}

static void make_arena(block &b)
{
    const size_t page = page_size();
    char *at = static_cast<char *>(
        mmap(nullptr, 3 * page + dynamic_room() + static_room(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (at == MAP_FAILED) report("out of host memory", {}, "not enough host memory for the shared memory of a block");
    b.static_shared = at + 2 * page + dynamic_room();
    mprotect(at + page, dynamic_room(), PROT_READ | PROT_WRITE);
    mprotect(b.static_shared, static_room(), PROT_READ | PROT_WRITE);
}

static void fill_with_nan(char *at, size_t bytes)
{
    wmemset(reinterpret_cast<wchar_t *>(at), 0x7fffffff, bytes / sizeof(wchar_t));
    memset(at + bytes / sizeof(wchar_t) * sizeof(wchar_t), 0xff, bytes % sizeof(wchar_t));
}

void shared_memory_begin(block &b)
{
    if (!b.static_shared) make_arena(b);
    b.slot_count = 0;
    b.static_used = b.static_bytes = 0;
    b.dynamic_name = nullptr;
    const size_t bytes = round_up(b.config->shared, ALIGNMENT);
    b.dynamic_shared = b.static_shared - page_size() - bytes;
    fill_with_nan(b.dynamic_shared, bytes);
}

static char *new_variable(block &b, const shared_variable &v)
{
    const size_t limit = b.config->shared > SHARED_BY_DEFAULT ? size_t(shared_at_most()) : size_t(SHARED_BY_DEFAULT);
    if (b.static_bytes + v.bytes > SHARED_BY_DEFAULT)
        report("too much static shared memory", v.site,
               "%s brings static shared memory to %zu bytes, but the limit is %d: use extern __shared__ and "
               "cudaFuncSetAttribute",
               v.name, b.static_bytes + v.bytes, SHARED_BY_DEFAULT);
    if (b.static_bytes + v.bytes + b.config->shared > limit)
        report("too much shared memory", v.site,
               "%s brings static shared memory to %zu bytes; with %zu bytes of dynamic shared memory this exceeds the "
               "limit of %zu",
               v.name, b.static_bytes + v.bytes, b.config->shared, limit);
    if (b.slot_count == MAX_SHARED_VARIABLES)
        report("too many __shared__ variables", v.site, "the limit is %d", MAX_SHARED_VARIABLES);

    const size_t alignment = v.alignment < 16 ? 16 : v.alignment;
    const size_t start = round_up(b.static_used, alignment);
    b.static_used = start + v.bytes + GAP;
    b.static_bytes += v.bytes;
    char *at = b.static_shared + start;
    fill_with_nan(at, v.bytes);
    b.slots[b.slot_count++] = {&v, at};
    hook_shared(v, at);
    return at;
}

void *shared_address(const shared_variable &variable)
{
    running_thread("a function with __shared__ variables", variable.site);
    block &b = *current;
    for (unsigned i = 0; i < b.slot_count; i++)
        if (b.slots[i].variable == &variable) return b.slots[i].at;
    return new_variable(b, variable);
}

void *dynamic_shared(const char *name, size_t, call_site site)
{
    running_thread("a function with extern __shared__", site);
    current->dynamic_name = name;
    return current->dynamic_shared;
}

bool is_shared_address(const block &b, const char *at)
{
    return at >= b.static_shared - dynamic_room() - 2 * page_size() &&
           at < b.static_shared + static_room() + page_size();
}

bool describe_shared_address(const block &b, const char *at, char *text, size_t size)
{
    if (!is_shared_address(b, at)) return false;
    if (at < b.static_shared && !b.config->shared)
        snprintf(text, size, "%s has no memory: the third launch argument in <<<...>>> is 0",
                 b.dynamic_name ? b.dynamic_name : "dynamic shared memory");
    else if (at < b.static_shared)
        snprintf(text, size, "%td bytes %s extern __shared__ %s (%zu bytes)",
                 at < b.dynamic_shared ? b.dynamic_shared - at : at - b.dynamic_shared - ptrdiff_t(b.config->shared),
                 at < b.dynamic_shared ? "before" : "past the end of", b.dynamic_name ? b.dynamic_name : "memory",
                 b.config->shared);
    else
        snprintf(text, size, "past the end of the kernel's __shared__ variables");
    return true;
}
}
