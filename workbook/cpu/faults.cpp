// faults.cpp - the signals of a wild access, turned into reports. A fault of host code that has nothing to do with
// device memory is left to whoever would have handled it without the layer.
#include "engine.h"
#include "flight.h"

#include <signal.h>
#include <ucontext.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace cudacpu
{
static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGURG};
static struct sigaction before[4];

static void *program_counter(void *context)
{
#ifdef __x86_64__
    return reinterpret_cast<void *>(static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
#else
    return reinterpret_cast<void *>(static_cast<ucontext_t *>(context)->uc_mcontext.pc);
#endif
}

static bool is_write(void *context)  // a fault
{
#ifdef __x86_64__
    return static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    struct record {  // of the kernel's, behind the registers
        uint32_t magic, size;
        uint64_t esr;  // of one about a fault: bit 6 is set if it was a write
    };
    enum { OF_A_FAULT = 0x45535201 };
    const auto *r = reinterpret_cast<const record *>(static_cast<ucontext_t *>(context)->uc_mcontext.__reserved);
    for (; r->magic && r->size; r = reinterpret_cast<const record *>(reinterpret_cast<const char *>(r) + r->size))
        if (r->magic == OF_A_FAULT) return r->esr >> 6 & 1;
    return true;
#endif
}

// Whether a kernel's thread ran out of stack.
static bool is_stack_overflow(const block &b, const char *at)
{
    const ptrdiff_t page = page_size();
    for (unsigned i = 0; i < b.fiber_count; i++)
        if (at < b.fibers[i].stack && at >= b.fibers[i].stack - page) return true;
    const fiber *own = b.running->own;  // a large array may reach over the page, into another thread's stack
    return at < own->stack && at >= own->stack - ptrdiff_t(stack_bytes());
}

// The processor noticed it before the address was looked at; but see __ubsan_handle_type_mismatch_v1 below.
static bool is_misaligned(int number, int code)
{
#ifdef __x86_64__
    return number == SIGSEGV && code == SI_KERNEL;
#else
    return number == SIGBUS && code == BUS_ADRALN;
#endif
}

static void report_fault(int number, int code, const char *at)
{
    char text[256];
    if (number == SIGURG) {
        report_begin("timeout");
        report_line("The kernel did not end in time%s. It was here:", code == SI_TIMER ? " (CUDACPU_TIMEOUT)" : "");
    } else if (number == SIGFPE) {
        report_begin("integer division by zero");
    } else if (is_misaligned(number, code)) {
        report_begin("misaligned access");
        report_line("The address of a vector load or store, such as a float4's, is not a multiple of its size.");
    } else if (current->running && is_stack_overflow(*current, at)) {
        report_begin("stack overflow");
        report_line(
            "The thread's local variables need more than %zu KB (CUDACPU_STACK_KB); is there a large local array?",
            stack_bytes() >> 10);
    } else {
        const bool on_host_stack = is_host_stack(at);
        report_begin("illegal address");
        if (on_host_stack)
            report_line("address %p is a variable of a host function: on a GPU no kernel can read it",
                        static_cast<const void *>(at));
        else if (at < reinterpret_cast<char *>(4096))
            report_line("address %zu: a null pointer", reinterpret_cast<size_t>(at));
        else if (describe_device_address(at, text, sizeof text) ||
                 describe_shared_address(*current, at, text, sizeof text))
            report_line("%s", text);
        else
            report_line("address %p is neither device memory nor shared memory", static_cast<const void *>(at));
    }
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    const char *at = static_cast<char *>(info->si_addr);
    char text[256];
    if (number == SIGSEGV && guard_touched(at, is_write(context))) return;
    if (number == SIGSEGV && flying && flight_touched(at, is_write(context), program_counter(context))) return;
    if (number == SIGSEGV && watch_touched(at, program_counter(context))) return;
    if (number == SIGFPE && info->si_code == FPE_FLTINV && current && current->running && early_read(context)) return;
    const call_site copying = current && number != SIGURG ? engine_here().copying : call_site();
    if (current && (current->running || copying.file)) {
        report_fault(number, info->si_code, at);
        if (copying.file)
            report_place(hook_place(copying, nullptr));
        else
            report_code(program_counter(context), number == SIGURG);
        report_end();
    }
    if (number == SIGURG) return;
    if (number != SIGFPE && describe_device_address(at, text, sizeof text)) {
        report_begin("host code touched device memory");
        report_line("%s; use cudaMemcpy", text);
        report_code(program_counter(context));
        report_end();
    }
    for (int i = 0; i < 4; i++)
        if (signals[i] == number)
            sigaction(number, &before[i], nullptr);  // the instruction faults again, into that handler
}

void catch_faults()
{
    static __thread bool done;
    if (done) return;
    done = true;

    // A stack for the handler, since a thread's own may be what overflowed.
    enum { STACK = 256 << 10 };
    stack_t now;
    sigaltstack(nullptr, &now);
    if (now.ss_flags & SS_DISABLE || now.ss_size < STACK) {
        void *memory = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t stack = {};
        stack.ss_sp = memory;
        stack.ss_size = STACK;
        if (memory != MAP_FAILED) sigaltstack(&stack, nullptr);
    }

    [[maybe_unused]] static const bool installed = [] {  // once in the process
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int i = 0; i < 4; i++) sigaction(signals[i], &action, &before[i]);
        return true;
    }();
}

// ------------------------ launches that take too long
// A thread that spins until another one does something would spin for ever here. So a host thread that has computed for
// more than CUDACPU_TIMEOUT seconds of its own in one launch is asked where it is, by SIGURG, which is ignored where no
// kernel runs. Who waits for a worker's answer sends that signal, too.

static long asked_for = -1;
extern "C" void wb_launch_seconds(long seconds) { asked_for = seconds; }  // for a test of this

// Asks this host thread after so many seconds of its own, and then each second, for between blocks it does not hear.
void watchdog(bool on)
{
    static const long given = environment("CUDACPU_TIMEOUT", 120);
    static __thread timer_t timer;
    static __thread pid_t owner;  // a child of fork() has none of its parent's timers
    const long limit = asked_for >= 0 ? asked_for : given;
    if (limit <= 0) return;
    if (owner != getpid()) {
        sigevent to_me = {};
        to_me.sigev_notify = SIGEV_THREAD_ID;
        to_me.sigev_notify_thread_id = gettid();
        to_me.sigev_signo = SIGURG;
        if (timer_create(CLOCK_THREAD_CPUTIME_ID, &to_me, &timer) != 0) return;
        owner = getpid();
    }
    itimerspec when = {};
    when.it_value.tv_sec = on ? limit : 0;
    when.it_interval.tv_sec = on;
    timer_settime(timer, 0, &when, nullptr);
}
}

// ------------------------ misaligned accesses

// A compiler may copy a float4 in two halves, which no processor notices: with -fsanitize=alignment it announces each
// access whose address is no multiple of what its type asks for. No instruction of a GPU asks for more than 16.
extern "C" __attribute__((weak, visibility("default"))) void
__ubsan_handle_type_mismatch_v1(cudacpu::announced_access *access, uintptr_t address)
{
    using namespace cudacpu;
    const unsigned alignment = access->log2_alignment < 4 ? 1u << access->log2_alignment : 16;
    if (!current || !current->running || address < 4096 || address % alignment == 0) return;
    report("misaligned access", {access->at.file, access->at.line},
           "The address of this %s must be a multiple of %u, but is not.", alignment == 16 ? "vector" : "value",
           alignment);
}
