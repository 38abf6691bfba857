// fiber.h - stacks that the scheduler switches between: one for each CUDA thread that is on its way, one for the host
// thread.
//
// x86-64 and AArch64 have a switch written by hand (fiber.cpp), which takes a few nanoseconds.
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define CUDACPU_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDACPU_ASAN
#endif
#endif
#ifdef CUDACPU_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace cudacpu
{
struct fiber {
    void *stack_pointer;  // where the registers are saved while it sleeps
    char *stack;          // lowest address; the page before it may not be touched
    size_t bytes;
    void *asan_stack;
};

// Makes the fiber begin with main() on its next turn. main must not return.
void fiber_prepare(fiber &f, void (*main)());

extern "C" void cudacpu_switch(void **save_stack_pointer, void *load_stack_pointer);

// Sleeps in `from`, which runs now, and goes on in `to`. `last`: from will never go on.
inline void fiber_switch(fiber &from, fiber &to, bool last = false)
{
    (void)last;
#ifdef CUDACPU_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from.asan_stack, to.stack, to.bytes);
#endif
    cudacpu_switch(&from.stack_pointer, to.stack_pointer);
#ifdef CUDACPU_ASAN
    __sanitizer_finish_switch_fiber(from.asan_stack, nullptr, nullptr);
#endif
}

// The first thing in main().
inline void fiber_begin()
{
#ifdef CUDACPU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

// Describes the stack that the calling host thread runs on.
void fiber_from_host_thread(fiber &f);
}
