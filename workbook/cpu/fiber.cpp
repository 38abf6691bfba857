// fiber.cpp - the switch between two stacks: push the registers that a call preserves, swap stack pointers, pop others.
#include "fiber.h"

#include <stdint.h>

namespace cudacpu
{
// What cudacpu_switch will pop. A zero follows, where a caller's address would be: backtraces end there.
void fiber_prepare(fiber &f, void (*main)())
{
    void **top = reinterpret_cast<void **>(reinterpret_cast<uintptr_t>(f.stack + f.bytes) & ~uintptr_t(15));
#ifdef __x86_64__
    enum { REGISTERS = 6, RETURN = 6, WORDS = 8 };
#else
    enum { REGISTERS = 20, RETURN = 11, WORDS = 20 };
#endif
    void **saved = top - WORDS;
    for (int i = 0; i < WORDS; i++) saved[i] = nullptr;
    saved[RETURN] = reinterpret_cast<void *>(main);
    f.stack_pointer = saved;
}
}

#ifdef __x86_64__
// System V: rbx, rbp and r12 to r15 survive a call. "jmp" instead of "ret", because the processor predicts the target
// of a return from the calls that it saw, and the one for this stack is not among them.
asm(R"(
    .text
    .globl  cudacpu_switch
    .hidden cudacpu_switch
    .type   cudacpu_switch, @function
cudacpu_switch:
    .irp    register, r15, r14, r13, r12, rbp, rbx
    pushq   %\register
    .endr
    movq    %rsp, (%rdi)
    movq    %rsi, %rsp
    .irp    register, rbx, rbp, r12, r13, r14, r15, rcx
    popq    %\register
    .endr
    jmp     *%rcx
    .size   cudacpu_switch, . - cudacpu_switch
    .section .note.GNU-stack, "", @progbits
    .text
)");
#elif defined(__aarch64__)
// AAPCS64: x19 to x30 and d8 to d15 survive a call.
asm(R"(
    .text
    .macro  all what
    \what   x19, x20, [sp, #0]
    \what   x21, x22, [sp, #16]
    \what   x23, x24, [sp, #32]
    \what   x25, x26, [sp, #48]
    \what   x27, x28, [sp, #64]
    \what   x29, x30, [sp, #80]
    \what   d8, d9, [sp, #96]
    \what   d10, d11, [sp, #112]
    \what   d12, d13, [sp, #128]
    \what   d14, d15, [sp, #144]
    .endm
    .globl  cudacpu_switch
    .hidden cudacpu_switch
    .p2align 4
cudacpu_switch:
    sub     sp, sp, #160
    all     stp
    mov     x9, sp
    str     x9, [x0]
    mov     sp, x1
    all     ldp
    add     sp, sp, #160
    ret
)");
#else
#error "the CPU execution layer supports only x86-64 and AArch64"
#endif
