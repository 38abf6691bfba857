// roofline.c - see roofline.h.
#include "roofline.h"

#include "case/pages.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ------------------------ peaks

// Bf16 FLOPs a clock of one multiprocessor, added up in float32, without sparsity. GeForce GPUs add up in float32 at
// half the rate of the same chip on a professional card. `share`: of these, what mma.sync reaches.
//   7.5   no tensor core takes bf16: 64 float32 units x 2                    NVIDIA Turing whitepaper (2018)
//   8.0   1024 FMA: 312 TFLOP/s = 108 x 2048 x 1.41 GHz                      NVIDIA A100 whitepaper (2020), table 1
//   8.6   512 FMA: A40 149.7 = 84 x 1024 x 1.74 GHz                          NVIDIA GA102 whitepaper (2020)
//         RTX 3090 71 = 82 x 512 x 1.695 GHz
//   8.9   L40S 362 = 142 x 1024 x 2.52 GHz (data sheet)                      NVIDIA Ada whitepaper (2022)
//         RTX 4090 165 = 128 x 512 x 2.52 GHz
//   9.0   2048 FMA: 989 TFLOP/s = 132 x 4096 x 1.83 GHz, by wgmma alone      NVIDIA H100 whitepaper (2022)
//         A loop of mma.sync did 642 TFLOP/s on an H200 (see the lesson of problem 03), 60 % of what the highest clock,
//         1.98 GHz, would give. Luo et al. 2024, arXiv:2402.13499: 62.9 % on average
//   10.0  B200 2250 = 148 x 8192 x 1.85 GHz (data sheet); needs tcgen05
//   12.0  RTX PRO 6000 504 = 188 x 1024 x 2.617 GHz                          NVIDIA RTX Blackwell whitepaper
//         RTX 5090 209.5 = 170 x 512 x 2.407 GHz
static const struct tensor_core {
    int major, minor;
    double flops, geforce_flops, share;
} tensor_cores[] = {
    {7, 5, 128, 128, 0},     {8, 0, 2048, 2048, 1},  {8, 6, 1024, 512, 1},  {8, 9, 1024, 512, 1},
    {9, 0, 4096, 4096, 0.6}, {10, 0, 8192, 8192, 0}, {12, 0, 1024, 512, 1},
};

static const struct tensor_core *core_of(const roofline_device *device)
{
    for (size_t k = 0; k < sizeof tensor_cores / sizeof *tensor_cores; k++)
        if (tensor_cores[k].major == device->major && tensor_cores[k].minor == device->minor) return &tensor_cores[k];
    return NULL;
}

double roofline_flops_a_clock(const roofline_device *device)
{
    const struct tensor_core *core = core_of(device);
    return !core ? 0 : strstr(device->name, "GeForce") ? core->geforce_flops : core->flops;
}

roofline_peaks roofline_peaks_of(const roofline_device *device)
{
    const double clocks = (double)device->multiprocessors * device->clock_khz * 1e3;  // a second, all together
    roofline_peaks p = {.multiprocessors = device->multiprocessors};
    p.tflops = clocks * roofline_flops_a_clock(device) * 1e-12;
    if (p.tflops > 0) p.mma_tflops = p.tflops * core_of(device)->share;
    p.gbps = 2.0 * device->memory_khz * 1e3 * device->bus_bits / 8 * 1e-9;  // two transfers a clock
    // CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions".
    if (p.tflops > 0) p.gexps = clocks * ROOFLINE_EXPS_A_CLOCK * 1e-9;
    return p;
}

// ------------------------ work

roofline_work roofline_work_of(const wb_problem *problem, const wb_case *c)
{
    roofline_work w = {0};
    wb_tensor tensors[WB_MAX_TENSORS];
    const int count = wb_case_tensors(problem, c, tensors);
    for (int k = 0; k < count; k++) w.bytes += (double)tensors[k].bytes;
    if (problem->signature == WB_ROW_SUM) {
        w.flops = 2.0 * c->rows * c->cols;
        return w;
    }
    const attention_shape *s = &c->shape;
    if (problem->signature == WB_DECODE) {  // pages that no sequence has are not read, and all blocks share all keys
        double keys = 0;
        for (int b = 0; b < s->batch; b++) keys += wb_case_keys(c, b);
        w.exps = (double)s->batch * s->q_heads * wb_case_visible_pairs(problem, c);
        w.flops = 4.0 * s->head_dim * w.exps;
        w.bytes = (double)tensors[0].bytes + (double)tensors[1].bytes + (double)tensors[2].bytes +
                  2 * keys * s->kv_heads * s->head_dim * (double)wb_type_bytes(tensors[3].type) + 4.0 * s->batch +
                  4 * keys / c->page + (problem->int8_cache ? 2 * 4 * keys * s->kv_heads : 0);  // a scale a row
        return w;
    }
    const bool backward = problem->signature == WB_BACKWARD;
    w.exps = (double)s->batch * s->q_heads * wb_case_visible_pairs(problem, c);
    w.flops = (backward ? 2.5 : 1) * 4.0 * s->head_dim * w.exps;
    // A backward gives dK and dV to a block a tile of keys: of a group's query heads none has its own.
    w.blocks = ceil((double)s->q_len / problem->tile) * s->batch * (backward ? s->kv_heads : s->q_heads);
    return w;
}

// ------------------------ verdict

// A kernel of no work takes 4 us on an H200 by this bench: problem 02 at 256 x 256, 2026-11-20.
static const double EMPTY_MS = 0.004;

// With each byte: its rate is one of bytes.
static bool does_little(const wb_problem *problem)
{
    return problem->signature == WB_ROW_SUM || problem->signature == WB_DECODE;
}

// The share of what a copy does, as far as that is known.
static double of_copy(const roofline_peaks *p, const roofline_work *w, double ms)
{
    return w->bytes / ms * 1e-6 / (p->copy_gbps > 0 ? p->copy_gbps : p->gbps);
}

static roofline_advice choose(const wb_problem *problem, const roofline_peaks *p, const roofline_work *w,
                              const roofline_verdict *v, double ms)
{
    if (v->best_ms < EMPTY_MS && ms < 5 * EMPTY_MS) return ROOFLINE_TOO_SMALL;
    if (w->blocks > 0 && w->blocks < p->multiprocessors && v->fraction < 0.7) return ROOFLINE_FEW_BLOCKS;
    if (v->fraction >= 0.85) return ROOFLINE_THERE;
    if (v->roof == ROOFLINE_EXPONENTIALS) return ROOFLINE_FEWER_EXPS;
    if (v->roof == ROOFLINE_MEMORY) {
        if (of_copy(p, w, ms) >= 0.9) return ROOFLINE_THERE;
        if (does_little(problem)) return of_copy(p, w, ms) < 0.5 ? ROOFLINE_COALESCE : ROOFLINE_IN_FLIGHT;
        return problem->window ? ROOFLINE_SHARE_KEYS : ROOFLINE_SHORT_LOOPS;
    }
    const double of_mma = v->reached / (p->mma_tflops > 0 ? p->mma_tflops : p->tflops);
    return of_mma < 0.1 ? ROOFLINE_TENSOR_CORES : of_mma < 0.5 ? ROOFLINE_OVERLAP : ROOFLINE_LEANER;
}

roofline_verdict roofline_judge(const wb_problem *problem, const roofline_peaks *p, const roofline_work *w, double ms)
{
    roofline_verdict v = {.roof = ROOFLINE_NONE};
    if (!(ms > 0) || !(w->flops > 0) || !(w->bytes > 0)) return v;
    v.intensity = w->flops / w->bytes;
    v.reached = w->flops / ms * 1e-9;
    if (!(p->tflops > 0) || !(p->gbps > 0)) return v;

    v.roof = ROOFLINE_MEMORY, v.best_ms = w->bytes / p->gbps * 1e-6;
    const double rate = problem->signature == WB_FP8 ? 2 : 1;  // products of e4m3 take half as long
    const double arithmetic_ms = w->flops / (rate * p->tflops) * 1e-9;
    if (arithmetic_ms > v.best_ms) v.roof = ROOFLINE_ARITHMETIC, v.best_ms = arithmetic_ms;
    const double exps_ms = p->gexps > 0 ? w->exps / p->gexps * 1e-6 : 0;
    if (exps_ms > v.best_ms) v.roof = ROOFLINE_EXPONENTIALS, v.best_ms = exps_ms;
    v.attainable = w->flops / v.best_ms * 1e-9;
    v.fraction = v.best_ms / ms;
    v.advice = choose(problem, p, w, &v, ms);
    return v;
}

const char *roofline_roof_text(roofline_roof roof)
{
    switch (roof) {
    case ROOFLINE_MEMORY: return "memory";
    case ROOFLINE_ARITHMETIC: return "arithmetic";
    case ROOFLINE_EXPONENTIALS: return "exponentials";
    default: return "-";
    }
}

void roofline_advice_text(const roofline_verdict *v, const wb_problem *problem, const roofline_peaks *p,
                          const roofline_work *w, double ms, char text[ROOFLINE_TEXT])
{
    const double gbps = w->bytes / ms * 1e-6;
    char mma[96] = "";
    if (p->mma_tflops > 0 && p->mma_tflops < 0.99 * p->tflops)
        snprintf(mma, sizeof mma, " (%.0f %% of the %.0f TFLOP/s that mma.sync does)", 100 * v->reached / p->mma_tflops,
                 p->mma_tflops);
    switch (v->advice) {
    case ROOFLINE_TOO_SMALL:
        snprintf(text, ROOFLINE_TEXT,
                 "a larger shape. Here the work itself takes %.2g us; a kernel takes about %.0f us to start and end.",
                 1e3 * v->best_ms, 1e3 * EMPTY_MS);
        break;
    case ROOFLINE_FEW_BLOCKS:
        snprintf(text, ROOFLINE_TEXT,
                 "more blocks. %.0f tiles of %d rows leave %.0f of %d multiprocessors idle: smaller tiles, or several "
                 "blocks that share the keys of one tile of rows.",
                 w->blocks, problem->tile, p->multiprocessors - w->blocks, p->multiprocessors);
        break;
    case ROOFLINE_THERE:
        snprintf(text, ROOFLINE_TEXT, "nothing, this is the roof. %s",
                 v->roof == ROOFLINE_MEMORY       ? "Only fewer bytes would be faster."
                 : v->roof == ROOFLINE_ARITHMETIC ? "Only fewer products would be faster."
                                                  : "Only fewer exponentials, or some of them as polynomials on other "
                                                    "units (FlashAttention-4), would be faster.");
        break;
    case ROOFLINE_COALESCE:
        snprintf(text, ROOFLINE_TEXT,
                 "look at the addresses. %.0f GB/s is %.0f %% of what a copy does: do neighbouring threads read "
                 "neighbouring elements, 16 bytes each, and are there enough threads for every multiprocessor?",
                 gbps, 100 * of_copy(p, w, ms));
        break;
    case ROOFLINE_IN_FLIGHT:
        snprintf(
            text, ROOFLINE_TEXT,
            "more loads in flight. %.0f GB/s is %.0f %% of what a copy does: let each thread issue several 16-byte "
            "loads before it uses the first.",
            gbps, 100 * of_copy(p, w, ms));
        break;
    case ROOFLINE_SHORT_LOOPS:
        snprintf(text, ROOFLINE_TEXT,
                 "smaller blocks, more of them at a time. The loop over keys is short, so a block mostly waits for its "
                 "first tiles: with less shared memory and fewer registers another one computes meanwhile.");
        break;
    case ROOFLINE_SHARE_KEYS:
        snprintf(text, ROOFLINE_TEXT,
                 "one block for several query heads of a group. With a window the loop over keys is short: most time "
                 "goes into a block's first loads and into the masked half of its edge tiles, and rows of several "
                 "heads in one tile share both.");
        break;
    case ROOFLINE_FEWER_EXPS:
        snprintf(text, ROOFLINE_TEXT,
                 "fewer instructions around each exponential. The %.3g million of them take %.2g ms of these %.2g ms, "
                 "more than the products do: one exp2 with log2(e) in the scale, masks in the edge tiles alone, the "
                 "maximum moved only when it must (lesson 03, version two).",
                 w->exps * 1e-6, v->best_ms, ms);
        break;
    case ROOFLINE_TENSOR_CORES:
        snprintf(text, ROOFLINE_TEXT,
                 "find what the tensor cores wait for. %.0f TFLOP/s%s is no more than plain float32 would do: tiles in "
                 "local memory (`-Xptxas -v` says `spill`), rows in shared memory that collide, or a product outside "
                 "of the tile vocabulary.",
                 v->reached, mma);
        break;
    case ROOFLINE_OVERLAP:
        snprintf(text, ROOFLINE_TEXT,
                 "overlap. At %.0f TFLOP/s%s the products wait: start the copy of the next tile before this one is "
                 "used, keep P in registers, one barrier a tile, and small enough tiles that two blocks share a "
                 "multiprocessor.",
                 v->reached, mma);
        break;
    case ROOFLINE_LEANER:
        snprintf(
            text, ROOFLINE_TEXT,
            "fewer other instructions beside the products: the maximum moved only when it must (lesson 03, version "
            "two), masks in the edge tiles alone. %.0f TFLOP/s%s; past that %s.",
            v->reached, mma,
            *mma && v->reached < p->mma_tflops ? "lie wgmma and TMA, the words of problem 10's hopper.cuh"
                                               : "nothing is left but the exponentials");
        break;
    case ROOFLINE_SAY_NOTHING: *text = 0; break;
    }
}

// ------------------------ in the table

void roofline_columns(FILE *out, const roofline_verdict *v, const wb_problem *problem)
{
    if (v->roof == ROOFLINE_NONE)
        fprintf(out, "\t-\t-\t-\t-");
    else
        fprintf(out, "\t%.7g\t%s\t%.4g\t%.5g", v->intensity, roofline_roof_text(v->roof),
                does_little(problem) ? 1e3 / v->intensity * v->attainable : v->attainable, v->fraction);
}

// 5.498e11 and "FLOP" as "550 GFLOP".
static void amount(char *text, size_t size, double value, const char *unit)
{
    static const char prefixes[] = " kMGTP";
    int k = 0;
    while (value >= 999.5 && prefixes[k + 1]) value /= 1e3, k++;
    snprintf(text, size, value < 9.95 ? "%.1f %.1s%s" : "%.0f %.1s%s", value, k ? &prefixes[k] : "", unit);
}

void roofline_say(FILE *out, const char *what, const roofline_verdict *v, const wb_problem *problem,
                  const roofline_peaks *p, const roofline_work *w, double ms)
{
    char flops[32], bytes[32], advice[ROOFLINE_TEXT];
    const double gbps = w->bytes / ms * 1e-6;
    if (v->roof == ROOFLINE_NONE) return;
    amount(flops, sizeof flops, w->flops, "FLOP");
    amount(bytes, sizeof bytes, w->bytes, "B");
    roofline_advice_text(v, problem, p, w, ms, advice);
    fprintf(out,
            "# verdict: %s: %s, %s with each input read once and each output written once: %.4g FLOPs a byte.\n"
            "# verdict: bounded by %s: ",
            what, flops, bytes, v->intensity, roofline_roof_text(v->roof));
    if (v->roof == ROOFLINE_MEMORY && p->copy_gbps > 0)
        fprintf(out, "%.4g GB/s at most, %.4g reached, %.0f %% of it and %.0f %% of what a copy reaches.\n", p->gbps,
                gbps, 100 * v->fraction, 100 * gbps / p->copy_gbps);
    else
        fprintf(out, "%.4g TFLOP/s at most, %.4g reached, %.0f %% of it.\n", v->attainable, v->reached,
                100 * v->fraction);
    fprintf(out, "# verdict: next: %s\n", advice);
}
