// train.c - trains a language model of bytes. Its attention is problems 07 and 09, or loops.
//   train text=FILE [forward=07 backward=09] [NAME=VALUE...]        the names: `words` and `numbers` below; called by train.sh
// Exit status: 0 trained, with right gradients; 1 not so; 2 could not begin.
#include "checkpoint.h"
#include "compare.h"
#include "supervise.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "train: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    exit(2);
}

// ---------------------------------------------------------------------------------------------------------------- options

static recipe r = {.model = {.layers = 2,
                             .width = 128,
                             .q_heads = 4,
                             .kv_heads = 2,
                             .head_dim = 16,
                             .hidden = 256,
                             .context = 256,
                             .window = 32,
                             .sinks = 4},
                   .steps = 2000,
                   .batch = 2,
                   .seed = 1,
                   .rate = 2e-3};
static int length = 200, samples = 5, until, resume, ask_recipe;
static char *text_path, *forward_path, *backward_path, *log_path, *checkpoint_path, *table_path, *prompt = "The ";

static const struct {
    const char *name;
    int *value;
    int least;
} numbers[] = {{"layers", &r.model.layers, 1},
               {"width", &r.model.width, 1},
               {"q_heads", &r.model.q_heads, 1},
               {"kv_heads", &r.model.kv_heads, 1},
               {"head_dim", &r.model.head_dim, 1},
               {"hidden", &r.model.hidden, 1},
               {"context", &r.model.context, 2},
               {"window", &r.model.window, 1},
               {"sinks", &r.model.sinks, 0},
               {"steps", &r.steps, 1},
               {"batch", &r.batch, 1},
               {"seed", &r.seed, 0},
               {"length", &length, 0},
               {"samples", &samples, 1},
               {"until", &until, 0},
               {"resume", &resume, 0},
               {"recipe", &ask_recipe, 0}};
static const struct {
    const char *name;
    char **value;
} words[] = {{"text", &text_path}, {"forward", &forward_path},       {"backward", &backward_path},
             {"log", &log_path},   {"checkpoint", &checkpoint_path}, {"compare", &table_path},
             {"prompt", &prompt}};

static void read_option(char *argument)
{
    char *const value = strchr(argument, '='), *end;
    if (!value) fail("what is %s? Options are NAME=VALUE", argument);
    *value = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(argument, numbers[i].name) == 0) {
            const long number = strtol(value + 1, &end, 10);
            if (!value[1] || *end || number < numbers[i].least || number > 1 << 30)
                fail("%s=%s: a whole number from %d on is needed", argument, value + 1, numbers[i].least);
            *numbers[i].value = (int)number;
            return;
        }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(argument, words[i].name) == 0) {
            *words[i].value = value + 1;
            return;
        }
    if (strcmp(argument, "rate") != 0) fail("what is %s? There is no such option", argument);
    r.rate = strtod(value + 1, &end);
    if (*end || !(r.rate > 0 && r.rate < 1)) fail("rate=%s: a number between 0 and 1 is needed", value + 1);
}

// ------------------------------------------------------------------------------------------------------------------- text

static unsigned char *text[2];  // what is learned, and what is held out: every tenth block of 1 KB
static size_t text_size[2];

static void read_text(const char *path)
{
    FILE *const file = fopen(path, "rb");
    if (!file) fail("the text %s cannot be read: %s", path, strerror(errno));
    unsigned char block[1024];
    size_t n, room[2] = {0, 0};
    for (size_t i = 0; (n = fread(block, 1, sizeof block, file)) > 0; i++) {
        const int held_out = i % 10 == 9;
        if (text_size[held_out] + n > room[held_out])
            text[held_out] = realloc(text[held_out], room[held_out] = 2 * room[held_out] + sizeof block);
        if (!text[held_out]) fail("no memory for the text %s", path);
        memcpy(text[held_out] + text_size[held_out], block, n);
        text_size[held_out] += n;
        r.text = hash_bytes(r.text, block, n);
    }
    fclose(file);
    for (int i = 0; i < 2; i++)
        if (text_size[i] <= (size_t)r.model.context)
            fail("the text %s is too short: %zu bytes to learn and %zu held out, and a context is %d", path,
                 text_size[0], text_size[1], r.model.context);
}

// The batch of a step depends on seed and step alone: a run that is resumed sees what it would have seen.
static void take_batch(unsigned char *x, unsigned char *y, unsigned step)
{
    unsigned short state[3] = {(unsigned short)r.seed, (unsigned short)step, (unsigned short)(step >> 16)};
    const size_t T = (size_t)r.model.context;
    for (int i = 0; i < 8; i++) nrand48(state);
    for (size_t b = 0; b < (size_t)r.batch; b++) {
        const size_t draw = (size_t)nrand48(state) << 31 | (size_t)nrand48(state);
        const unsigned char *const from = text[0] + draw % (text_size[0] - T);
        memcpy(x + b * T, from, T);
        memcpy(y + b * T, from + 1, T);
    }
}

// The loss on the held-out text, one context after another, of the first 64 KB.
static double held_out_loss(model *m)
{
    const size_t T = (size_t)r.model.context;
    double loss = 0;
    int n = 0;
    for (size_t at = 0; at + T < text_size[1] && at < 65536; at += T, n++)
        loss += model_loss(m, text[1] + at, text[1] + at + 1, 1, (int)T);
    return loss / n;
}

// What the model makes of the prompt, at temperature 0.7.
static void write_sample(model *m)
{
    const int context = r.model.context, begin = (int)strlen(prompt), end = begin + length;
    unsigned char *const line = calloc((size_t)end + (size_t)context, 1);
    real *const logits = malloc((size_t)context * VOCABULARY * sizeof *logits);
    unsigned short state[3] = {(unsigned short)r.seed, 7, 7};
    if (!line || !logits) abort();
    memcpy(line, prompt, (size_t)begin);
    for (int n = begin; n < end; n++) {
        const int seen = n < context ? n : context, T = seen + 63 < context ? (seen + 63) / 64 * 64 : context;
        model_forward(m, line + n - seen, 1, T);  // beyond n there are zeros, which no byte before them sees
        from_array(logits, m->logits, (size_t)T * VOCABULARY * sizeof *logits);
        const real *const last = logits + (size_t)(seen - 1) * VOCABULARY;
        double weight[VOCABULARY], sum = 0, max = last[0];
        for (int c = 1; c < VOCABULARY; c++) max = fmax(max, last[c]);
        for (int c = 0; c < VOCABULARY; c++) sum += weight[c] = exp((last[c] - max) / 0.7);
        double left = erand48(state) * sum;
        int c = 0;
        while (c < VOCABULARY - 1 && (left -= weight[c]) > 0) c++;
        line[n] = (unsigned char)c;
    }
    printf("    | ");
    for (int i = 0; i < end; i++) {
        if (line[i] == '\n')
            printf("\n    | ");
        else
            putchar(line[i] < ' ' || line[i] > '~' ? '.' : line[i]);
    }
    printf("\n");
    free(line), free(logits);
}

// -------------------------------------------------------------------------------------------------------------------- log

// step, seconds, mean training loss since the row before, held-out loss or -. Of an earlier run the rows up to `step` are kept.
static FILE *open_log(int step, double *seconds_before)
{
    if (!log_path) return NULL;
    char *rows = NULL, line[256];
    size_t size = 0;
    FILE *const kept = open_memstream(&rows, &size), *const old = step > 0 ? fopen(log_path, "r") : NULL;
    int at;
    double when;
    while (old && kept && fgets(line, sizeof line, old))
        if (sscanf(line, "%d\t%lf", &at, &when) == 2 && at <= step) fputs(line, kept), *seconds_before = when;
    if (old) fclose(old);
    if (!kept || fclose(kept)) fail("no memory for the log");
    FILE *const log = fopen(log_path, "w");
    if (!log) fail("the log %s cannot be written: %s", log_path, strerror(errno));
    fprintf(log, "step\tseconds\tloss\theld_out\n%s", rows);
    free(rows);
    return log;
}

static void print_time(double s)
{
    if (s < 100)
        printf("%.0f s", s);
    else
        printf("%.0f min %02d s", floor(s / 60), (int)s % 60);
}

// ------------------------------------------------------------------------------------------------------------------- main

// Trains from the step after `begin` on. Returns whether it came to the end.
static bool run(model *m, int begin, unsigned char *x, unsigned char *y)
{
    const int rows = r.batch * r.model.context, each = r.steps < 100 ? 1 : r.steps / 100,
              sample = (r.steps / each + samples - 1) / samples * each;
    double before = 0, aside = 0, sum = 0, shown_sum = 0;  // seconds of earlier runs, and of samples; losses
    int count = 0, shown = 0;
    FILE *const log = open_log(begin, &before);
    const double start = seconds();
    m->attention_seconds = 0;
    for (int step = begin + 1; step <= r.steps; step++) {
        take_batch(x, y, (unsigned)step);
        const double loss = model_loss(m, x, y, r.batch, r.model.context);
        model_backward(m, r.batch, r.model.context);
        if (*kernel_failure()) {
            printf("step %d: the training ends here. %s\n", step, kernel_failure());
            return false;
        }
        if (!isfinite(loss) || *kernel_not_finite()) {
            printf("step %d: the training ends here, for %s. The weights are those of the step before.\n", step,
                   *kernel_not_finite() ? kernel_not_finite() : "the loss is not a number any more");
            return false;
        }
        const double warm = fmin(1, step / 20.0), cosine = 0.55 + 0.45 * cos(3.14159265358979 * step / r.steps);
        model_update(m, step, r.rate * warm * cosine);

        const bool logged = step % each == 0 || step == r.steps || step == 1;
        const bool sampled = step % sample == 0 || step == r.steps,
                   printed = step % (2 * each) == 0 || sampled || step == 1;
        sum += loss, count++, shown_sum += loss, shown++;
        const double spent = seconds() - start - aside;
        if (printed) {
            printf("step %5d/%d  loss %.3f  %6.0f tokens/s  attention %2.0f %%  ", step, r.steps, shown_sum / shown,
                   (double)(step - begin) * rows / spent, 100 * m->attention_seconds / spent);
            print_time(spent / (step - begin) * (r.steps - step));
            printf(" left\n");
            shown_sum = shown = 0;
        }
        double held_out = 0;
        if (sampled) {
            const double from = seconds(), attention = m->attention_seconds;
            char fault[512];
            held_out = held_out_loss(m);
            printf("step %5d/%d  held-out loss %.4f, %.2f bits a byte\n", step, r.steps, held_out,
                   held_out / 0.69314718);
            if (length > 0) write_sample(m);
            if (checkpoint_path && !checkpoint_write(checkpoint_path, &r, m, step, fault)) fail("%s", fault);
            aside += seconds() - from, m->attention_seconds = attention;
        }
        if (log && logged) {
            fprintf(log, "%d\t%.2f\t%.5f\t", step, before + spent, sum / count);
            fprintf(log, sampled ? "%.5f\n" : "-\n", held_out);
            fflush(log);
            sum = count = 0;
        }
        if (step == until) exit(1);  // as if it had been interrupted here
    }
    if (log) fclose(log);
    return true;
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++) read_option(arguments[i]);
    if (!text_path) fail("text=FILE is missing");
    if (config_fault(&r.model)) fail("there is no such model: %s", config_fault(&r.model));
    read_text(text_path);
    if (ask_recipe) {  // for train.sh: a name for this run
        printf("%016llx\n", (unsigned long long)hash_bytes(0, &r, sizeof r));
        return 0;
    }
    const bool kernels = forward_path && backward_path;
    if (kernels) supervise();
    static model m;
    model_create(&m, &r.model, kernels ? kernel_attention(forward_path, backward_path) : &naive_attention,
                 r.batch * r.model.context, (unsigned)r.seed);
    unsigned char *const x = malloc((size_t)r.batch * r.model.context), *const y =
                                                                            malloc((size_t)r.batch * r.model.context);
    if (!x || !y) abort();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%zu parameters in %d layers; %zu bytes of text and %zu held out; %d tokens a step, %s attention\n",
           m.at.count, r.model.layers, text_size[0], text_size[1], r.batch * r.model.context, m.attention->name);

    char fault[512];
    const int begin = resume && checkpoint_path ? checkpoint_read(checkpoint_path, &r, &m, fault) : 0;
    if (begin < 0) fail("%s", fault);
    if (begin > 0) printf("goes on from %s after step %d\n", checkpoint_path, begin);
    const bool whole = run(&m, begin, x, y);
    if (!kernels || *kernel_failure()) return whole ? 0 : 1;
    take_batch(x, y, 0);
    return compare_gradients(&m, x, y, r.batch, r.model.context, table_path) && whole ? 0 : 1;
}
