// launch.cpp - a launch: is it allowed, and who runs its blocks. Host threads take them in order.
#include "engine.h"
#include "flight.h"

#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <sys/syscall.h>

extern "C" void *__libc_stack_end;

namespace cudacpu
{
// The environment as it was when the program started: what a kernel's file puts there later sets nothing here.
static const char *given_environment(const char *name)
{
    static char all[1 << 17];
    static const size_t bytes = [] {
        FILE *file = fopen("/proc/self/environ", "r");
        const size_t n = file ? fread(all, 1, sizeof all - 1, file) : 0;
        if (file) fclose(file);
        return n;
    }();
    const size_t length = strlen(name);
    for (const char *text = all; text < all + bytes; text += strlen(text) + 1)
        if (strncmp(text, name, length) == 0 && text[length] == '=') return text + length + 1;
    return nullptr;
}

long environment(const char *name, long otherwise)
{
    const char *text = given_environment(name);
    return text && *text ? atol(text) : otherwise;
}

bool one_host_thread;

static int host_threads()
{
    static const long count = environment("CUDACPU_THREADS", sysconf(_SC_NPROCESSORS_ONLN));
    return count < 1 || one_host_thread || flying || order || watching() || recording ? 1
           : count > 256                                                              ? 256
                                                                                      : int(count);
}

// ------------------------ what a launch may ask for

static std::mutex launching;  // one launch at a time

static std::map<const void *, size_t> &shared_limits()  // of kernels
{
    static std::map<const void *, size_t> &all = *new std::map<const void *, size_t>;
    return all;
}

static int shared_kb;  // that a case asks for

extern "C" void wb_have_shared_kb(int count) { shared_kb = count; }

int shared_at_most()
{
    if (shared_kb) return shared_kb * 1024;
    static const int bytes = [] {
        const char *text = given_environment("WB_SHARED_KB");
        if (!text) return int{SHARED_AT_MOST};
        const int least = SHARED_BY_DEFAULT / 1024, most = SHARED_AT_MOST / 1024, kilobytes = atoi(text);
        if (kilobytes < least || kilobytes > most) {
            fprintf(stderr, "cudacpu: WB_SHARED_KB=%s: must be %d to %d, the KB of shared memory per block\n", text,
                    least, most);
            _exit(2);
        }
        return kilobytes * 1024;
    }();
    return bytes;
}

cudaError_t set_shared_limit(const void *kernel, int bytes, call_site site)
{
    if (bytes < 0 || bytes > shared_at_most()) {
        fprintf(stderr,
                "cudacpu: cudaFuncSetAttribute refused: %d bytes of dynamic shared memory, but the device has %d  at "
                "%s:%d\n",
                bytes, shared_at_most(), site.file, site.line);
        return set_error(cudaErrorInvalidValue);
    }
    const std::lock_guard<std::mutex> one(launching);
    shared_limits()[kernel] = bytes;
    return cudaSuccess;
}

// An overloaded kernel has no address here: any opt-in counts for it.
static size_t shared_limit_of(const kernel &what)
{
    size_t limit = SHARED_BY_DEFAULT;
    for (const auto &x : shared_limits())
        if ((x.first == what.address || !what.address) && x.second > limit) limit = x.second;
    return limit;
}

static cudaError_t allowed(const kernel &what, const launch_config &c)
{
    const unsigned long threads = static_cast<unsigned long>(c.block.x) * c.block.y * c.block.z;
    if (!threads || c.block.x > MAX_THREADS || c.block.y > MAX_THREADS || c.block.z > 64 || threads > MAX_THREADS)
        return refuse(what.name, what.site, cudaErrorInvalidConfiguration,
                      "a block of %u x %u x %u threads, but it may have 1 to 1024 threads, at most 64 of them in z",
                      c.block.x, c.block.y, c.block.z);
    if (!c.grid.x || !c.grid.y || !c.grid.z || c.grid.x > 0x7fffffffu || c.grid.y > 65535 || c.grid.z > 65535)
        return refuse(what.name, what.site, cudaErrorInvalidConfiguration,
                      "a grid of %u x %u x %u blocks, but x may be 1 to 2147483647, y and z 1 to 65535", c.grid.x,
                      c.grid.y, c.grid.z);
    if (c.shared > shared_limit_of(what))
        return refuse(what.name, what.site, cudaErrorInvalidValue,
                      "%zu bytes of dynamic shared memory, but the limit is %zu; cudaFuncSetAttribute(kernel, "
                      "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) raises it, up to %d",
                      c.shared, shared_limit_of(what), shared_at_most());
    return cudaSuccess;
}

// ------------------------ away from the host's stack
// A kernel that reads a variable of a host function would crash on a GPU. So a launch runs on a stack of its own, and
// that of the process, from the launching function up to main, may not be touched.

bool strict;  // wb_play_strictly()

static struct {
    fiber host, side;
    char *from;  // null: open
    size_t bytes;
    void (*work)(void *);
    void *data;
} side_stack;

bool is_host_stack(const void *at)
{
    return side_stack.from && at >= side_stack.from && at < side_stack.from + side_stack.bytes;
}

void open_host_stack()
{
    if (side_stack.from) mprotect(side_stack.from, side_stack.bytes, PROT_READ | PROT_WRITE);
    side_stack.from = nullptr;
}

static void side_main()
{
    mprotect(side_stack.from, side_stack.bytes, PROT_NONE);
    side_stack.work(side_stack.data);
    open_host_stack();
    fiber_switch(side_stack.side, side_stack.host);
}

// work(data), where the variables of host functions that are under way may not be touched.
static void away_from_host_stack(void (*work)(void *), void *data)
{
    enum { STACK = 256 << 10 };
    char *const from = page_of(&work), *const end = page_of(__libc_stack_end);
    // The check build looks at every address by itself. Another thread's stack has more in it than variables.
    if (!strict || one_host_thread || syscall(SYS_gettid) != getpid() || from >= end) return work(data);
    if (!side_stack.side.stack) {
        void *const memory = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return work(data);
        side_stack.side.stack = static_cast<char *>(memory), side_stack.side.bytes = STACK;
    }
    side_stack.work = work, side_stack.data = data, side_stack.from = from, side_stack.bytes = end - from;
    fiber_prepare(side_stack.side, side_main);
    fiber_switch(side_stack.host, side_stack.side);
}

// ------------------------ who runs the blocks

struct job : kernel_work {
    std::atomic<unsigned long> next_block;
    unsigned long blocks, all;  // few of all run
};

static unsigned long few = ~0ul;  // wb_launch_few()

bool blocks_run() { return few > 0; }

static void run_blocks(job &j)
{
    static __thread block *mine;  // storage, kept for the next launch
    if (!mine) mine = static_cast<block *>(calloc(1, sizeof(block)));
    if (!mine) report("out of host memory", {}, "no memory to run a block");
    catch_faults();
    block &b = *mine;
    static_cast<kernel_work &>(b) = j;
    current = &b;
    watchdog(true);
    const dim3 grid = j.config->grid;
    for (unsigned long n; (n = j.next_block++) < j.blocks;) {
        const unsigned long chosen = n == 0 ? 0 : n == 1 ? j.all - 1 : (n * 0x9e3779b97f4a7c15ul ^ j.all) % j.all;
        const unsigned long i = j.blocks < j.all ? chosen : rearranged(n, j.blocks);
        run_block(b, {unsigned(i % grid.x), unsigned(i / grid.x % grid.y), unsigned(i / grid.x / grid.y)});
    }
    watchdog(false);
    current = nullptr;
    runners_under_way(-1);
}

// Helpers sleep until a job has a ticket for them. The launching thread works too.
struct helpers {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
    int count = 0, tickets = 0, busy = 0;
    job *now = nullptr;
};

static void *help(void *data)
{
    helpers &h = *static_cast<helpers *>(data);
    pthread_mutex_lock(&h.mutex);
    for (;;) {
        while (!h.tickets) pthread_cond_wait(&h.work, &h.mutex);
        h.tickets--;
        job &j = *h.now;
        pthread_mutex_unlock(&h.mutex);
        run_blocks(j);
        pthread_mutex_lock(&h.mutex);
        if (--h.busy == 0) pthread_cond_signal(&h.done);
    }
    return nullptr;
}

static void run_job(job &j)
{
    const unsigned threads = j.config->block.x * j.config->block.y * j.config->block.z;
    // Each has a stack for every thread of its block, and a process may not have too many mappings.
    const long wanted = std::min({long(host_threads()), 24000l / threads, long(j.blocks)});
    if (wanted <= 1) {
        runners_under_way(1);
        run_blocks(j);
        return;
    }
    static helpers *mine;
    static pid_t owner;  // a child of fork() has none of its parent's threads and makes its own
    if (!mine || owner != getpid()) mine = new helpers, owner = getpid();
    helpers &h = *mine;
    pthread_mutex_lock(&h.mutex);
    while (h.count < wanted - 1) {
        pthread_t id;
        if (pthread_create(&id, nullptr, help, &h) != 0) break;
        pthread_detach(id);
        h.count++;
    }
    h.now = &j;
    h.tickets = h.busy = h.count < wanted - 1 ? h.count : int(wanted) - 1;
    runners_under_way(1 + h.tickets);
    for (int i = 0; i < h.tickets; i++) pthread_cond_signal(&h.work);
    pthread_mutex_unlock(&h.mutex);
    run_blocks(j);
    pthread_mutex_lock(&h.mutex);
    while (h.busy) pthread_cond_wait(&h.done, &h.mutex);
    pthread_mutex_unlock(&h.mutex);
}

static wb_asked launched;
static std::atomic<uint64_t> products_of_first, products_of_last, products_of_all;

// Of a block that has ended: what it multiplied on the engine.
void count_products(const block &b, uint64_t products)
{
    if (!products) return;
    const dim3 grid = b.config->grid;
    const uint3 i = b.index;
    products_of_all += products;
    if (!i.x && !i.y && !i.z) products_of_first = products;
    if (i.x == grid.x - 1 && i.y == grid.y - 1 && i.z == grid.z - 1) products_of_last = products;
}

// A launch with its arguments, which are read here: the launching function may have ended when it runs.
struct queued_launch {
    kernel what;
    launch_config config;
    void (*body)(void *);
    std::vector<max_align_t> arguments;
    size_t argument_bytes;
};

static void run_queued(void *data)
{
    queued_launch &l = *static_cast<queued_launch *>(data);
    job j = {{&l.what, &l.config, l.body, l.arguments.data(), l.argument_bytes}, {0}, 0, 0};
    j.all = static_cast<unsigned long>(l.config.grid.x) * l.config.grid.y * l.config.grid.z;
    j.blocks = j.all < few ? j.all : few;
    if (!flying) open_device_memory(true);  // there each page is opened when it is touched
    order_begin_launch();
    hook_launch_begin();
    run_job(j);
    hook_launch_end();
    if (!flying) open_device_memory(false);
}

void run_grid(const kernel &what, const launch_config &config, void (*body)(void *), void *arguments,
              size_t argument_bytes)
{
    if (current) report("launch in a kernel", what.site, "a kernel cannot launch %s here", what.name);
    {
        const std::lock_guard<std::mutex> one(launching);
        if (allowed(what, config) != cudaSuccess) return;
        launched.launches++, launched.blocks = uint64_t(config.grid.x) * config.grid.y * config.grid.z;
    }
    if (!few) return;
    const auto l = std::make_shared<queued_launch>(queued_launch{what, config, body, {}, argument_bytes});
    l->arguments.resize(argument_bytes / sizeof(max_align_t) + 1);
    memcpy(static_cast<void *>(l->arguments.data()), arguments, argument_bytes);
    const auto run = [l] {
        const std::lock_guard<std::mutex> one(launching);
        away_from_host_stack(run_queued, l.get());
    };
    if (flying)
        flight_kernel(what, config.stream, run);
    else
        in_turn(config.stream, run);
}

void count_launches(wb_asked &since)
{
    launched.multiplied = multiplied.exchange(0), launched.products = products_of_all,
    launched.of_first = products_of_first, launched.of_last = products_of_last;
    count_fetches(launched);
    since = launched;
    launched = {};
    products_of_all = products_of_first = products_of_last = 0;
}

extern "C" void wb_launch_few(unsigned most) { few = most; }
extern "C" void wb_play_strictly(void) { strict = true; }
}
