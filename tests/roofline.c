// roofline.c - the arithmetic of the roofline verdict, against numbers worked by hand.
#include "bench/roofline.h"

#include <criterion/criterion.h>

static void near(double got, double want, const char *what)
{
    cr_expect(fabs(got - want) <= 1e-4 * fabs(want), "%s: %.8g instead of %.8g", what, got, want);
}

static roofline_work work_of(int problem, wb_case c)
{
    const wb_problem *p = wb_problem_number(problem);
    return roofline_work_of(p, &(wb_case){.shape = wb_case_defaults(p, c).shape, .rows = c.rows, .cols = c.cols});
}

// 100 TFLOP/s, half of it by mma.sync, 1000 GB/s: the rooflines meet at 100 FLOPs per byte. 10^12 exponentials a
// second.
static const roofline_peaks round_peaks = {.tflops = 100, .mma_tflops = 50, .gbps = 1000, .gexps = 1000};

static roofline_verdict judge(int problem, roofline_work w, double ms)
{
    return roofline_judge(wb_problem_number(problem), &round_peaks, &w, ms);
}

// ------------------------ work

Test(roofline, work)
{
    const struct {
        int problem;
        wb_case c;
        double flops, bytes, exps;
    } all[] = {
        // 2 x 4096 x 8192 FLOPs; x and w in 2 bytes, y in 4
        {2, {.rows = 4096, .cols = 8192}, 67108864, 2.0 * 4096 * 8192 + 2 * 8192 + 4 * 4096, 0},
        // 4 x 4 x 16 x 128 x 4096^2 FLOPs; Q, K, V, O of 64 MiB each, L of 1 MiB
        {3, {.shape = {4, 16, .q_len = 4096, .head_dim = 128}}, 549755813888.0, 257.0 * (1 << 20), 1073741824.0},
        // four rows see 1 + 2 + 3 + 4 = 10 keys: 4 x 16 x 10 FLOPs
        {4, {.shape = {.q_len = 4, .head_dim = 16, .causal = 1}}, 640, 4 * 128 + 16, 10},
        // W = 2 and S = 1: 1 + 2 + 3 + 3 = 9
        {7, {.shape = {.q_len = 4, .head_dim = 16, .causal = 1, .window = 2, .sinks = 1}}, 576, 4 * 128 + 16, 9},
        // two query heads over one of K and V: 10 x 16 x 20 FLOPs; dQ Q O dO of 256 bytes each, dK dV K V of 128, delta
        // and L of 32
        {8, {.shape = {1, 2, 1, .q_len = 4, .head_dim = 16, .causal = 1}}, 3200, 4 * 256 + 4 * 128 + 2 * 32, 20},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const roofline_work w = work_of(all[k].problem, all[k].c);
        near(w.flops, all[k].flops, "FLOPs");
        near(w.bytes, all[k].bytes, "bytes");
        near(w.exps, all[k].exps, "exponentials");
    }
}

// ------------------------ peaks

Test(roofline, peaks_of_known_devices)
{
    // The data sheets' numbers, from what the devices say; the H200 is at its highest clock.
    const roofline_peaks rtx =
        roofline_peaks_of(&(roofline_device){"NVIDIA GeForce RTX 4090", 8, 9, 128, 2520000, 10501000, 384});
    near(rtx.tflops, 165.1507, "RTX 4090, TFLOP/s");
    near(rtx.gbps, 1008.096, "RTX 4090, GB/s");
    const roofline_peaks h200 = roofline_peaks_of(&(roofline_device){"NVIDIA H200", 9, 0, 132, 1980000, 3201000, 6144});
    near(h200.tflops, 1070.530, "H200, TFLOP/s");
    near(h200.mma_tflops, 642.318, "H200, mma.sync");
    near(h200.gbps, 4916.736, "H200, GB/s");
    near(h200.gexps, 4181.76, "H200, exponentials");
}

// ------------------------ verdict

static void writes(int problem, roofline_verdict v, const char *want)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    roofline_columns(out, &v, wb_problem_number(problem));
    fclose(out);
    cr_expect(strcmp(text, want) == 0, "'%s' instead of '%s'", text, want);
    free(text);
}

// FLOPs a byte, the roof, what it lets be reached (TFLOP/s; GB/s where memory is the roof), and the part that was.
Test(roofline, the_nearest_roof)
{
    // 10 GB and 100 GFLOP: 10 ms by memory, 1 ms by arithmetic.
    writes(2, judge(2, (roofline_work){.flops = 1e11, .bytes = 1e10}, 20), "\t10\tmemory\t1000\t0.5");
    // 1 GB and 1 TFLOP: 1 ms by memory, 10 ms by arithmetic.
    writes(3, judge(3, (roofline_work){.flops = 1e12, .bytes = 1e9, .exps = 1e9}, 40), "\t1000\tarithmetic\t100\t0.25");
    // 64 FLOPs a pair: 10^10 pairs take 10 ms of exponentials and 6.4 ms of products.
    const roofline_verdict v = judge(3, (roofline_work){.flops = 6.4e11, .bytes = 1e9, .exps = 1e10}, 20);
    writes(3, v, "\t640\texponentials\t64\t0.5");
    near(v.best_ms, 10, "time under the roof");
    writes(3, (roofline_verdict){0}, "\t-\t-\t-\t-");
}
