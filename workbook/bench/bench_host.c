// bench_host.c - what the bench program asks of the machine it runs on.
#include "bench.h"

#include <cblas.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void bench_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}

void bench_must(wb_status status)
{
    if (status == WB_OK) return;
    bench_say("\nbench: %s: %s\n", wb_status_text(status), wb_last_message());
    exit(1);
}

double bench_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void *bench_alloc(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 256, bytes ? bytes : 1) == 0) return p;
    fprintf(stderr, "bench: no memory for %zu bytes on this machine\n", bytes);
    exit(1);
}

// The text after "name:" in a file of such lines, without the blanks around it.
static bool proc_field(const char *path, const char *name, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    char line[512];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, name, strlen(name)) != 0) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(text, size, "%s", colon);
        found = true;
    }
    if (file) fclose(file);
    return found;
}

static size_t proc_kilobytes(const char *path, const char *name)
{
    char text[64];
    return proc_field(path, name, text, sizeof text) ? (size_t)strtoull(text, NULL, 10) * 1024 : 0;
}

size_t bench_free_host_bytes(void)
{
    const size_t available = proc_kilobytes("/proc/meminfo", "MemAvailable");
    return available ? available : (size_t)4 << 30;
}

int bench_threads(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

void bench_machine(char *text, size_t size)
{
    char model[128];
    if (!proc_field("/proc/cpuinfo", "model name", model, sizeof model)) snprintf(model, sizeof model, "unnamed CPU");
    snprintf(text, size, "%d x %s", bench_threads(), model);
}

double bench_roof_sgemm(void)
{
    enum { M = 128, N = 128, K = 64, CALLS = 200, RUNS = 9 };
    float *A = bench_alloc(sizeof(float) * M * K), *B = bench_alloc(sizeof(float) * N * K),
          *C = bench_alloc(sizeof(float) * M * N);
    for (int i = 0; i < M * K; i++) A[i] = (float)(i % 17) / 17 - 0.5f;
    for (int i = 0; i < N * K; i++) B[i] = (float)(i % 13) / 13 - 0.5f;
    const int threads = openblas_get_num_threads();
    openblas_set_num_threads(1);
    double best = 0;
    for (int run = 0; run < RUNS; run++) {  // a roof is the best run, not the median
        const double start = bench_now_ms();
        for (int call = 0; call < CALLS; call++)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, M, N, K, 1, A, K, B, K, 0, C, N);
        const double gflops = 2.0 * M * N * K * CALLS / (bench_now_ms() - start) * 1e-6;
        if (gflops > best) best = gflops;
    }
    openblas_set_num_threads(threads);
    free(A), free(B), free(C);
    return best * bench_threads();
}

// OpenBLAS keeps a packing buffer for each thread for ever. A large product makes them resident before anything is
// measured; its matrices stay allocated, so that the peak until now is what is resident now.
static void warm_openblas(void)
{
    enum { N = 768 };
    float *A = bench_alloc(3 * sizeof(float) * N * N);
    memset(A, 0, 3 * sizeof(float) * N * N);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, A, N, A + N * N, N, 0, A + 2 * N * N, N);
}

wb_status bench_host_growth(const bench_inputs *inputs, wb_function function, size_t *bytes)
{
    void *pointers[WB_MAX_TENSORS];
    warm_openblas();
    for (int k = 0; k < inputs->count; k++) {
        pointers[k] = inputs->host[k];
        if (pointers[k]) continue;
        pointers[k] = bench_alloc(inputs->tensor[k].bytes);
        memset(pointers[k], 0xff, inputs->tensor[k].bytes);
    }
    // VmHWM is this program's own peak; getrusage's starts at that of the process which started it.
    const size_t before = proc_kilobytes("/proc/self/status", "VmRSS");
    const wb_status status = wb_call(inputs->problem, function, &inputs->c, pointers, NULL);
    const size_t peak = proc_kilobytes("/proc/self/status", "VmHWM");
    *bytes = peak > before ? peak - before : 0;
    return status;
}
