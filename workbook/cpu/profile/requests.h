// requests.h - what a warp asks of memory at once, as a GPU serves it: sectors of global memory, and passes over the
// banks of shared memory. Pure arithmetic on addresses.
#pragma once

#include "../layer.h"

namespace cudacpu
{
// The accesses of a warp's lanes in one execution of one instruction, `bytes` each: 1 to 16. to: of an asynchronous
// copy, where in shared memory; else 0.
struct request {
    unsigned lanes, bytes;
    uintptr_t at[WARP], to[WARP];
};

struct request_cost {
    unsigned requests;  // of global memory 1; of shared memory one for every 128 bytes that lanes ask for at once
    unsigned units;     // sectors of 32 bytes; or passes: how often the banks have to be read or written
    unsigned fewest;    // of global memory: sectors that as many different bytes fill, side by side
};

enum { SECTOR = 32, BANKS = 32, BANK = 4 };

// A copy that puts the halves of a sector into two of shared memory asks for it twice: so Nsight Compute counts it.
inline request_cost global_cost(const request &r)
{
    std::pair<uintptr_t, uintptr_t> touched[2 * WARP];
    uintptr_t at[WARP], end = 0, different = 0;  // bytes
    unsigned count = 0, sectors = 0;
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (!(r.lanes >> lane & 1)) continue;
        at[count++] = r.at[lane];
        for (uintptr_t s = r.at[lane] / SECTOR; s <= (r.at[lane] + r.bytes - 1) / SECTOR; s++)
            touched[sectors++] = {s, r.to[lane] / SECTOR};
    }
    std::sort(touched, touched + sectors);
    sectors = static_cast<unsigned>(std::unique(touched, touched + sectors) - touched);
    std::sort(at, at + count);
    for (unsigned i = 0; i < count; i++) {
        different += at[i] + r.bytes - std::max(end, at[i]);
        end = at[i] + r.bytes;
    }
    return {1, sectors, static_cast<unsigned>((different + SECTOR - 1) / SECTOR)};
}

// The lanes whose words may be different are served at once: all for 4 bytes each, half of the warp for 8, a quarter
// for 16. A bank gives one word in a pass, to all lanes that want it.
inline request_cost shared_cost(const request &r)
{
    const unsigned parts = r.bytes > 8 ? 4 : r.bytes > 4 ? 2 : 1, lanes = WARP / parts;
    request_cost cost = {};
    for (unsigned part = 0; part < parts; part++) {
        uintptr_t words[BANKS][WARP];
        unsigned different[BANKS] = {}, passes = 0;
        for (unsigned lane = part * lanes; lane < (part + 1) * lanes; lane++) {
            if (!(r.lanes >> lane & 1)) continue;
            for (uintptr_t w = r.at[lane] / BANK; w <= (r.at[lane] + r.bytes - 1) / BANK; w++) {
                uintptr_t *const of_bank = words[w % BANKS], *const end = of_bank + different[w % BANKS];
                if (std::find(of_bank, end, w) != end) continue;
                *end = w;
                passes = std::max(passes, ++different[w % BANKS]);
            }
        }
        cost.requests += passes > 0;
        cost.units += passes;
    }
    return cost;
}
}
