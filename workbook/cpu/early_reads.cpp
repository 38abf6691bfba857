// early_reads.cpp - arithmetic on the result of a product that is not done. The result is a signalling NaN until then,
// and on x86-64 arithmetic on one traps: so the read has a line. Elsewhere it is found when somebody writes there, or
// as NaN in the outputs.
#include "engine.h"

#include <ucontext.h>

namespace cudacpu
{
#ifdef __x86_64__
enum { INVALID = 1, INVALID_MASKED = 1 << 7 };  // of MXCSR

void trap_early_reads(bool on)
{
    const unsigned csr = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(on ? csr & ~static_cast<unsigned>(INVALID_MASKED | INVALID) : csr | INVALID_MASKED);
}

// The tag of a product in flight among these bytes; null if there is none.
static const product *tagged(const void *at, size_t bytes)
{
    const engine &e = engine_here();
    for (size_t i = 0; i + 4 <= bytes; i += 4)
        for (const product *p : e.queue[warp_number(*current->running)])
            if (!memcmp(static_cast<const char *>(at) + i, &p->tag, 4)) return p;
    return nullptr;
}

// Where the memory operand of an SSE instruction lies; null if it has none.
static const void *memory_operand(const ucontext_t &c)
{
    static const int numbered[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    const auto *i = reinterpret_cast<const unsigned char *>(c.uc_mcontext.gregs[REG_RIP]);
    int rex = 0;
    while (*i == 0x66 || *i == 0xf2 || *i == 0xf3) i++;
    if (*i >> 4 == 4) rex = *i++;
    if (*i++ != 0x0f) return nullptr;
    if (*i == 0x38 || *i == 0x3a) i++;
    const int modrm = *++i, mod = modrm >> 6;
    int base = modrm & 7;
    if (mod == 3) return nullptr;
    i++;
    long long at = 0;
    if (base == 4) {
        const int sib = *i++, index = (sib >> 3 & 7) | (rex & 2) << 2;
        base = sib & 7;
        if (index != 4) at += c.uc_mcontext.gregs[numbered[index]] << (sib >> 6);
        if (base == 5 && mod == 0) return nullptr;
    } else if (base == 5 && mod == 0) {
        return nullptr;  // a constant
    }
    at += c.uc_mcontext.gregs[numbered[base | (rex & 1) << 3]];
    int32_t far;
    memcpy(&far, i, 4);
    at += mod == 1 ? static_cast<signed char>(*i) : mod == 2 ? far : 0;
    return reinterpret_cast<const void *>(at);
}

bool early_read(void *context)
{
    ucontext_t &c = *static_cast<ucontext_t *>(context);
    const product *p = tagged(c.uc_mcontext.fpregs->_xmm, sizeof c.uc_mcontext.fpregs->_xmm);
    const void *operand = p ? nullptr : memory_operand(c);
    if (operand) p = tagged(operand, 4);
    if (p) {
        report_begin("result read too early");
        report_line("this arithmetic uses the result of a product that is not complete: products_done must come first");
        report_code(reinterpret_cast<void *>(c.uc_mcontext.gregs[REG_RIP]));
        report_line("the product was issued");
        report_place(p->of.site);
        report_end();
    }
    c.uc_mcontext.fpregs->mxcsr |= INVALID_MASKED;  // some other invalid operation: it may be
    return true;
}
#else
void trap_early_reads(bool) {}
bool early_read(void *) { return false; }
#endif
}
