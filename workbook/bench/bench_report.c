// bench_report.c - what is measured, as TSV.
#include "bench.h"

#include "reference/naive.h"

// What the device can do at most, and how that is known. Nothing if it does not say so.
static void peaks(FILE *out, const wb_problem *problem)
{
    roofline_device d;
    char shape[80];
    if (wb_timer_device(&d) != WB_OK) return;
    const roofline_peaks p = roofline_peaks_of(&d);
    const wb_case main_shape = bench_main_shape(problem);
    bench_shape_text(problem, &main_shape, shape, sizeof shape);
    fprintf(out, "# compute capability: %d.%d\n# multiprocessors: %d\n", d.major, d.minor, d.multiprocessors);
    if (p.tflops > 0)
        fprintf(out, "# peak_tflops: %.5g in bf16 products = %d SMs x %.0f FLOPs per clock x %.3f GHz\n", p.tflops,
                d.multiprocessors, roofline_flops_a_clock(&d), d.clock_khz * 1e-6);
    if (p.mma_tflops > 0)
        fprintf(out, "# peak_mma_sync_tflops: %.5g = %.0f %% of it\n", p.mma_tflops, 100 * p.mma_tflops / p.tflops);
    fprintf(out, "# peak_gbps: %.5g = %d bits x 2 x %.3f GHz / 8\n", p.gbps, d.bus_bits, d.memory_khz * 1e-6);
    if (p.gexps > 0)
        fprintf(out, "# peak_gexps: %.5g = %d SMs x %d exponentials per clock x %.3f GHz\n", p.gexps, d.multiprocessors,
                ROOFLINE_EXPS_A_CLOCK, d.clock_khz * 1e-6);
    if (problem->on_host) return;
    bench->peaks = p;
    fprintf(out, "# main shape: %s\n", shape);
}

size_t bench_proc_bytes(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[512];
    size_t kilobytes = 0;
    while (file && !kilobytes && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) kilobytes = strtoull(line + strcspn(line, "0123456789"), NULL, 10);
    if (file) fclose(file);
    return kilobytes * 1024;
}

void bench_tsv_header(FILE *out, const wb_problem *problem, int argc, char **argv, bool cuda)
{
    char command[4096] = "", line[512];
    size_t n = 0;
    for (int i = 0; i < argc && n < sizeof command; i++)
        n += (size_t)snprintf(command + n, sizeof command - n, "%s%s", i ? " " : "", argv[i]);
    setenv("COMMAND", command, 1);
    fprintf(out, "# problem: %02d %s\n", problem->number, problem->name);
    snprintf(line, sizeof line, ". workbook/loop/source.sh; head_lines %s \"$COMMAND\"", cuda ? "cuda" : "cpu");
    FILE *head = popen(line, "r");
    while (head && fgets(line, sizeof line, head)) fputs(line, out);
    if (head) pclose(head);
    fprintf(out, "# naive: %s\n",
            problem->on_host                   ? "OpenBLAS, one head's score matrix in memory"
            : problem->signature == WB_ROW_SUM ? "one thread a row"
            : problem->signature == WB_DECODE  ? "one block per query head"
                                               : naive_gpu_products());
    if (cuda) peaks(out, problem);
    fprintf(out, "# columns: see plots/README.md; - means that a column does not apply\n");
    fprintf(
        out,
        "problem\timpl\tB\tHq\tHkv\tNq\tNk\tD\tW\tS\trows\tcols\tcausal\tms\tms_p10\tms_p90\ttflops\tgbps\tpeak_bytes\t"
        "io_bytes\tmax_error\truns%s\tshape" ROOFLINE_COLUMNS "\n",
        problem->signature == WB_DECODE       ? "\tpage\tlens"
        : problem->signature == WB_BLOCK_MASK ? "\tmask\tq_tile"
                                              : "");
    fflush(out);  // whatever crashes later
}

// Columns B to causal.
static void tsv_shape(FILE *out, const wb_problem *problem, const wb_case *c)
{
    const attention_shape *s = &c->shape;
    if (problem->signature == WB_ROW_SUM)
        fprintf(out, "-\t-\t-\t-\t-\t-\t-\t-\t%d\t%d\t-\t", c->rows, c->cols);
    else {
        fprintf(out, "%d\t%d\t%d\t%d\t%d\t%d\t", s->batch, s->q_heads, s->kv_heads, s->q_len, s->kv_len, s->head_dim);
        fprintf(out, problem->window ? "%d\t" : "-\t", s->window);
        fprintf(out, problem->sinks ? "%d\t" : "-\t", s->sinks);
        fprintf(out, "-\t-\t%d\t", s->causal);
    }
}

void bench_tsv_row(FILE *out, const wb_problem *problem, const char *label, const wb_case *c, const bench_result *r)
{
    char shape[80];
    const roofline_work w = r->emulated ? (roofline_work){0} : roofline_work_of(problem, c);
    const roofline_verdict v = roofline_judge(problem, &bench->peaks, &w, r->ms);
    bench_shape_text(problem, c, shape, sizeof shape);
    fprintf(out, "%02d\t%s\t", problem->number, label);
    tsv_shape(out, problem, c);
    if (r->emulated)
        fprintf(out, "emulated\t-\t-\t-\t-\t");
    else
        fprintf(out, "%.5g\t%.5g\t%.5g\t%.5g\t%.5g\t", r->ms, r->ms_p10, r->ms_p90, w.flops / r->ms * 1e-9,
                w.bytes / r->ms * 1e-6);
    fprintf(out, "%zu\t%zu\t%.3g\t%d", r->peak_bytes, r->io_bytes, r->max_error, r->runs);
    if (problem->signature == WB_DECODE) fprintf(out, "\t%d\t%s", c->page, wb_lens_name(c->lens));
    if (problem->signature == WB_BLOCK_MASK)
        fprintf(out, "\t%s/%d\t%d", wb_mask_names[c->mask], c->mask_size, c->q_tile);
    fprintf(out, "\t%s", shape);
    roofline_columns(out, &v, problem);
    fprintf(out, "\n");
    fflush(out);
}

void bench_tsv_roof(FILE *out, const wb_problem *problem, const char *label, double tflops, double gbps)
{
    fprintf(out, "%02d\t%s\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t", problem->number, label);
    fprintf(out, tflops > 0 ? "%.5g\t" : "-\t", tflops);
    fprintf(out, gbps > 0 ? "%.5g\t" : "-\t", gbps);
    const bool more = problem->signature == WB_DECODE || problem->signature == WB_BLOCK_MASK;  // columns
    fprintf(out, "-\t-\t-\t-%s\t-\t-\t-\t-\t-\n", more ? "\t-\t-" : "");
    fflush(out);
}
