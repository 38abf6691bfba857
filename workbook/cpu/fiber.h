// fiber.h - stacks that the scheduler switches between: one for each CUDA thread under way, one for the host thread.
//
// x86-64 and AArch64 have a switch written by hand (fiber.cpp), which takes a few nanoseconds.
#pragma once

#include <stddef.h>

namespace cudacpu
{
struct fiber {
    void *stack_pointer;  // where the registers are saved while it sleeps
    char *stack;          // lowest address; the page before it may not be touched
    size_t bytes;
};

// Makes the fiber begin with main() on its next turn. main must not return.
void fiber_prepare(fiber &f, void (*main)());

extern "C" void cudacpu_switch(void **save_stack_pointer, void *load_stack_pointer);

// Sleeps in `from`, which runs now, and goes on in `to`.
inline void fiber_switch(fiber &from, fiber &to) { cudacpu_switch(&from.stack_pointer, to.stack_pointer); }
}
