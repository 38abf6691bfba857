// roofline.c - see roofline.h.
#include "roofline.h"

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
    roofline_peaks p = {0};
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
    for (int k = 0; k < count; k++) w.bytes += tensors[k].bytes;
    if (problem->signature == WB_ROW_SUM) {
        w.flops = 2.0 * c->rows * c->cols;
        return w;
    }
    const attention_shape *s = &c->shape;
    if (problem->signature == WB_DECODE) {  // pages that no sequence has are not read
        double keys = 0;
        for (int b = 0; b < s->batch; b++) keys += wb_case_keys(c, b);
        w.exps = (double)s->batch * s->q_heads * wb_case_visible_pairs(problem, c);
        w.flops = 4.0 * s->head_dim * w.exps;
        w.bytes = (double)tensors[0].bytes + (double)tensors[1].bytes + (double)tensors[2].bytes +
                  2 * keys * s->kv_heads * s->head_dim * (double)wb_type_bytes(tensors[3].type) + 4.0 * s->batch +
                  4 * keys / c->page + (problem->int8_cache ? 2 * 4 * keys * s->kv_heads : 0);  // a scale a row
        return w;
    }
    w.exps = (double)s->batch * s->q_heads * wb_case_visible_pairs(problem, c);
    w.flops = (problem->signature == WB_BACKWARD ? 2.5 : 1) * 4.0 * s->head_dim * w.exps;
    return w;
}

// ------------------------ verdict

roofline_verdict roofline_judge(const wb_problem *problem, const roofline_peaks *p, const roofline_work *w, double ms)
{
    roofline_verdict v = {.roof = ROOFLINE_NONE};
    if (!(ms > 0) || !(w->flops > 0) || !(w->bytes > 0)) return v;
    if (!(p->tflops > 0) || !(p->gbps > 0)) return v;

    v.intensity = w->flops / w->bytes;
    v.roof = ROOFLINE_MEMORY, v.best_ms = w->bytes / p->gbps * 1e-6;
    const double rate = problem->signature == WB_FP8 ? 2 : 1;  // products of e4m3 take half as long
    const double arithmetic_ms = w->flops / (rate * p->tflops) * 1e-9;
    if (arithmetic_ms > v.best_ms) v.roof = ROOFLINE_ARITHMETIC, v.best_ms = arithmetic_ms;
    const double exps_ms = p->gexps > 0 ? w->exps / p->gexps * 1e-6 : 0;
    if (exps_ms > v.best_ms) v.roof = ROOFLINE_EXPONENTIALS, v.best_ms = exps_ms;
    v.attainable = w->flops / v.best_ms * 1e-9;
    v.fraction = v.best_ms / ms;
    return v;
}

// ------------------------ in the table

void roofline_columns(FILE *out, const roofline_verdict *v, const wb_problem *problem)
{
    static const char *const names[] = {"-", "memory", "arithmetic", "exponentials"};  // by roofline_roof
    const bool by_bytes = problem->signature == WB_ROW_SUM || problem->signature == WB_DECODE;
    if (v->roof == ROOFLINE_NONE)
        fprintf(out, "\t-\t-\t-\t-");
    else
        fprintf(out, "\t%.7g\t%s\t%.4g\t%.5g", v->intensity, names[v->roof],
                by_bytes ? 1e3 / v->intensity * v->attainable : v->attainable, v->fraction);
}
