// host_stack.cpp - a kernel that is given a pointer to a variable of a host function reads it here as if nothing were
// wrong, and on a GPU it crashes. So a launch runs on a stack of its own, and that of the process, from the launching
// function up to main, may not be touched. Arguments of the program and its environment lie above.
#include "layer.h"

#include <sys/syscall.h>

namespace cudacpu
{
bool strict;  // wb_play_strictly()

extern "C" void *__libc_stack_end;

static struct {
    fiber host, side;
    char *from;  // null: open
    size_t bytes;
    void (*work)(void *);
    void *data;
} s;

bool is_host_stack(const void *at) { return s.from && at >= s.from && at < s.from + s.bytes; }

void open_host_stack()
{
    if (s.from) mprotect(s.from, s.bytes, PROT_READ | PROT_WRITE);
    s.from = nullptr;
}

static void side_main()
{
    mprotect(s.from, s.bytes, PROT_NONE);
    s.work(s.data);
    open_host_stack();
    fiber_switch(s.side, s.host);
}

void away_from_host_stack(void (*work)(void *), void *data)
{
    enum { STACK = 256 << 10 };
    char *const from = page_of(&work), *const end = page_of(__libc_stack_end);
    // The check build looks at every address by itself. Another thread's stack has more in it than variables.
    if (!strict || one_host_thread || syscall(SYS_gettid) != getpid() || from >= end) return work(data);
    if (!s.side.stack) {
        void *const memory = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) return work(data);
        s.side.stack = static_cast<char *>(memory), s.side.bytes = STACK;
    }
    s.work = work, s.data = data, s.from = from, s.bytes = static_cast<size_t>(end - from);
    fiber_prepare(s.side, side_main);
    fiber_switch(s.host, s.side);
}
}

extern "C" void wb_play_strictly(void) { cudacpu::strict = true; }
