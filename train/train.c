// train.c - trains a language model of bytes. Its attention is problems 07 and 09, or loops.
//   train text=FILE [forward=07 backward=09] [NAME=VALUE...]        the names: `options` below; called by train.sh
// Exit status: 0 trained, with right gradients; 1 not so; 2 could not begin.
#include "context.h"
#include "judge/session.h"
#include "model.h"
#include "ranks.h"

#include <errno.h>
#include <math.h>
#include <string.h>

// ------------------------ options

static config c;
static int steps, batch, seed, length, samples, until, ask_recipe, by_ranks;
static double rate;
static bool split;  // each sequence over all ranks
static char *rate_text = "2e-3", *parallel = "data", *text_path, *forward_path, *backward_path, *ring_path,
            *ring_backward_path, *log_path, *checkpoint_path, *table_path;

static const struct {
    const char *name;
    int *number, usual, least, most;
    char **word;
} options[] = {{"layers", &c.layers, 2, 1, MAX_LAYERS, 0},
               {"width", &c.width, 128, 1, 1 << 16, 0},
               {"q_heads", &c.q_heads, 4, 1, 1024, 0},
               {"kv_heads", &c.kv_heads, 2, 1, 1024, 0},
               {"head_dim", &c.head_dim, 16, 16, 128, 0},
               {"hidden", &c.hidden, 256, 1, 1 << 16, 0},
               {"context", &c.context, 256, 2, 1 << 24, 0},
               {"window", &c.window, 32, 1, 1 << 30, 0},
               {"sinks", &c.sinks, 4, 0, 1 << 20, 0},
               {"full", &c.full, 0, 0, MAX_LAYERS, 0},  // each full-th layer sees all; 0: none does
               {"steps", &steps, 2000, 1, 1 << 30, 0},
               {"batch", &batch, 2, 1, 1 << 16, 0},
               {"seed", &seed, 1, 0, 1 << 30, 0},
               {"length", &length, 200, 0, 1 << 16, 0},  // of a sample, in bytes
               {"samples", &samples, 5, 1, 1 << 16, 0},  // how many, with a checkpoint each
               {"until", &until, 0, 0, 1 << 30, 0},      // ends after this step, as if it had been interrupted
               {"recipe", &ask_recipe, 0, 0, 1, 0},      // prints the recipe, and trains nothing
               {"ranks", &by_ranks, 1, 1, MAX_RANKS, 0},
               {"rate", .word = &rate_text},
               {"parallel", .word = &parallel},  // data, or context: each sequence over all ranks
               {"text", .word = &text_path},
               {"forward", .word = &forward_path},
               {"backward", .word = &backward_path},
               {"ring", .word = &ring_path},
               {"ring_backward", .word = &ring_backward_path},
               {"log", .word = &log_path},
               {"checkpoint", .word = &checkpoint_path},
               {"compare", .word = &table_path}};
enum { OPTIONS = sizeof options / sizeof *options, OF_RECIPE = 13 };  // so many make another run

static void read_option(char *name)
{
    char *value = strchr(name, '='), *end;
    if (!value) FAIL("what is %s? Options are NAME=VALUE", name);
    *value++ = 0;
    int i = 0;
    while (i < OPTIONS && strcmp(name, options[i].name) != 0) i++;
    if (i == OPTIONS) FAIL("unknown option %s", name);
    if (options[i].word) {
        *options[i].word = value;
        return;
    }
    const long number = strtol(value, &end, 10);
    if (!*value || *end || number < options[i].least || number > options[i].most)
        FAIL("%s=%s: must be a whole number from %d to %d", name, value, options[i].least, options[i].most);
    *options[i].number = (int)number;
}

// What this run is made of, the text by its hash.
static char recipe[1024];
static void write_recipe(uint64_t text_hash)
{
    size_t n = 0;
    for (int i = 0; i < OF_RECIPE; i++) n += (size_t)sprintf(recipe + n, "%s=%d ", options[i].name, *options[i].number);
    sprintf(recipe + n, "rate=%g text=%016llx", rate, (unsigned long long)text_hash);
}

// ------------------------ text

static unsigned char *text[2];  // what is learned, and what is held out: every tenth block of 1 KB
static size_t text_size[2];

static void read_text(void)
{
    FILE *const file = text_path ? fopen(text_path, "rb") : NULL;
    if (!file) FAIL("the text, text=%s, cannot be read: %s", text_path ? text_path : "", strerror(errno));
    uint64_t hash = HASH_BEGIN;
    for (size_t block = 0, n = 1024; n == 1024; block++) {
        const size_t part = block % 10 == 9, at = text_size[part];
        if (!(text[part] = realloc(text[part], at + 1024))) FAIL("no memory for the text");
        n = fread(text[part] + at, 1, 1024, file);
        hash = hash_bytes(hash, text[part] + at, n);
        text_size[part] += n;
    }
    if (ferror(file)) FAIL("only a part of the text %s could be read", text_path);
    fclose(file);
    write_recipe(hash);
    if (text_size[0] <= (size_t)c.context || text_size[1] <= (size_t)c.context)
        FAIL("the text %s is too short: %zu bytes to learn and %zu held out, and a context is %d", text_path,
             text_size[0], text_size[1], c.context);
}

// This rank's part of `count` sequences, which begin at these bytes of a text: some of them, or its two chunks of each.
static void take_part(unsigned char *x, unsigned char *y, const unsigned char *const *begins, int count)
{
    const pieces p = split ? context_pieces(count, c.context, 0) : (pieces){count / ranks.all, c.context, 0, {0, 0}};
    for (int b = 0; b < p.B; b++, x += p.T, y += p.T) {
        const unsigned char *const from =
            split ? begins[b % count] + p.position[b >= count] : begins[ranks.mine * p.B + b];
        memcpy(x, from, (size_t)p.T);
        memcpy(y, from + 1, (size_t)p.T);
    }
}

// The batch of a step depends on seed and step alone: a run that is resumed sees what it would have seen.
static void take_batch(unsigned char *x, unsigned char *y, int step)
{
    unsigned short state[3] = {(unsigned short)seed, (unsigned short)step, (unsigned short)(step >> 16)};
    const size_t T = (size_t)c.context;
    const unsigned char *begins[batch];
    for (int i = 0; i < 8; i++) nrand48(state);
    for (int b = 0; b < batch; b++) {
        const size_t draw = (size_t)nrand48(state) << 31 | (size_t)nrand48(state);
        begins[b] = text[0] + draw % (text_size[0] - T);
    }
    take_part(x, y, begins, batch);
}

// The loss on the held-out text, one context after another, of the first 64 KB: by rank 0, or of split contexts by all.
static double held_out_loss(model *m, unsigned char *x, unsigned char *y)
{
    const size_t T = (size_t)c.context;
    double loss = 0;
    int n = 0;
    for (size_t at = 0; at + T < text_size[1] && at < 65536; at += T, n++) {
        const unsigned char *const begin = text[1] + at;
        if (split) take_part(x, y, &begin, 1);
        loss += model_loss(m, split ? x : begin, split ? y : begin + 1, 1, (int)T);
    }
    return split ? ranks_mean(loss / n) : loss / n;
}

// What the model makes of a beginning, at temperature 0.7: one rank alone, in a context that it has room for.
static void write_sample(model *m, int room)
{
    static const char begin[] = "The ";
    const int context = c.context < room ? c.context : room, end = (int)strlen(begin) + length;
    unsigned char *const line = calloc((size_t)end + (size_t)context, 1);
    real logits[VOCABULARY];
    unsigned short state[3] = {(unsigned short)seed, 7, 7};
    if (!line) FAIL("no memory for a sample");
    memcpy(line, begin, strlen(begin));
    m->split = false;
    for (int n = (int)strlen(begin); n < end; n++) {
        const int seen = n < context ? n : context, T = seen + 63 < context ? (seen + 63) / 64 * 64 : context;
        model_forward(m, line + n - seen, 1, T);  // beyond n there are zeros, which no byte before them sees
        from_array(logits, m->logits + (size_t)(seen - 1) * VOCABULARY, sizeof logits);
        double weight[VOCABULARY], sum = 0, max = logits[0];
        for (int b = 1; b < VOCABULARY; b++) max = fmax(max, logits[b]);
        for (int b = 0; b < VOCABULARY; b++) sum += weight[b] = exp((logits[b] - max) / 0.7);
        double left = erand48(state) * sum;
        while (line[n] < VOCABULARY - 1 && (left -= weight[line[n]]) > 0) line[n]++;
    }
    for (int i = 0; i < end; i++) {
        if (i == 0 || line[i - 1] == '\n') printf("    | ");
        putchar(line[i] == '\n' || (line[i] >= ' ' && line[i] <= '~') ? line[i] : '.');
    }
    printf("\n");
    m->split = split;
    free(line);
}

// ------------------------ main

// Whether this is the same on all ranks; if not, some learn so.
static bool all_have(const void *data, size_t bytes)
{
    const double hash = (double)(hash_bytes(HASH_BEGIN, data, bytes) >> 20);  // 64 of these have an exact sum
    return ranks_mean(hash) == hash;
}

// No weight travels, so all are the same only if each step's gradients were.
static void see_weights(const model *m)
{
    const size_t bytes = m->at.count * sizeof *m->p;
    if (ranks.all == 1) return;
    real *const p = malloc(bytes);
    if (!p) FAIL("no memory for the weights");
    from_array(p, m->p, bytes);
    if (!all_have(p, bytes)) FAIL("the weights of rank %d differ from those of others", ranks.mine);
    free(p);
}

// Trains from the step after `begin` on. Returns whether it came to the end. The log has step, seconds, mean training
// loss since the row before, held-out loss or -.
static bool run(model *m, int begin, unsigned char *x, unsigned char *y)
{
    const int each = steps < 100 ? 1 : steps / 100, sample = (steps / each + samples - 1) / samples * each;
    double before = 0, spent = 0, sum = 0;  // seconds of the steps up to `begin`, and of these; losses
    int count = 0;
    FILE *const log = log_path ? fopen(log_path, begin > 0 ? "a+" : "w") : NULL;
    if (log_path && !log) FAIL("the log %s cannot be written: %s", log_path, strerror(errno));
    if (log && begin == 0) fprintf(log, "step\tseconds\tloss\theld_out\n");
    if (log && begin > 0) rewind(log);
    for (char row[256]; log && begin > 0 && fgets(row, sizeof row, log);) sscanf(row, "%*d %lf", &before);
    for (int step = begin + 1; step <= steps; step++) {
        if (until > 0 && step > until) exit(1);
        const double start = spent_now();
        take_batch(x, y, step);
        const int sequences = split ? batch : batch / ranks.all;
        double loss = model_loss(m, x, y, sequences, c.context);
        model_backward(m, sequences, c.context);
        const char *const why = *kernel_failure() ? kernel_failure() : kernel_not_finite();
        loss = ranks_mean(*why ? NAN : loss);  // so all of them know
        if (!isfinite(loss)) {
            fprintf(*why && ranks.mine > 0 ? stderr : stdout,
                    "step %d: the training ends here. %s. The weights are those of the step before.\n", step,
                    *why ? why : "The loss is not a number any more");
            return false;
        }
        const double warm = fmin(1, step / 20.0), cosine = 0.55 + 0.45 * cos(3.14159265358979 * step / steps);
        model_update(m, step, rate * warm * cosine);
        spent += spent_now() - start, sum += loss, count++;
        if (split && step == begin + 1) printf("%.2f GB of arrays per rank\n", (double)array_bytes() / 1e9);

        const bool sampled = step % sample == 0 || step == steps;
        double held_out = 0;
        if (!sampled && step % each != 0 && step != 1) continue;
        if (sampled || step % (2 * each) == 0 || step == 1) {
            const int left = (int)(spent / (step - begin) * (steps - step));
            printf("step %5d/%d  loss %.3f  %6.0f bytes/s  %d:%02d left\n", step, steps, sum / count,
                   (double)(step - begin) * batch * c.context / spent, left / 60, left % 60);
        }
        if (sampled && (split || ranks.mine == 0)) held_out = held_out_loss(m, x, y);
        if (sampled && ranks.mine == 0) {
            printf("step %5d/%d  held-out loss %.4f, %.2f bits per byte\n", step, steps, held_out,
                   held_out / 0.69314718);
            if (length > 0) write_sample(m, batch * c.context / ranks.all);
        }
        if (log) {
            fprintf(log, "%d\t%.3f\t%.5f\t", step, before + spent, sum / count);
            fprintf(log, sampled ? "%.5f\n" : "-\n", held_out);
            if (sampled) fflush(log);
        }
        if (sampled && checkpoint_path && ranks.mine == 0) checkpoint_write(checkpoint_path, recipe, m, step);
        if (sampled) see_weights(m);  // the others wait here, where no clock of a kernel runs
        sum = count = 0;
    }
    if (log) fclose(log);
    return true;
}

static void see_parts(int count)
{
    const int chunk = c.context / (2 * count), room = c.sinks + c.window - 1;
    if (split && c.context % (2 * count))
        FAIL("context=%d: each of %d ranks takes two chunks, so context must be a multiple of %d", c.context, count,
             2 * count);
    if (split && c.full != 1 && chunk < room)
        FAIL("with %d ranks a chunk has %d tokens, but the next one borrows %d (sinks and tail): use fewer ranks, or a "
             "longer context",
             count, chunk, room);
    if (!split && batch % count)
        FAIL("batch=%d: all %d ranks take equally many, so batch must be a multiple of %d", batch, count, count);
}

// The step that all ranks go on from, in m what there is of it. Rank 0 reads first: what is wrong with a checkpoint is
// said once.
static int begin_together(model *m)
{
    char where[1100];
    if (ranks.mine > 0) ranks_mean(0);
    const int begin = checkpoint_path ? checkpoint_read(checkpoint_path, recipe, m) : 0;
    if (ranks.mine == 0) ranks_mean(0);
    snprintf(where, sizeof where, "step %d of %s", begin, recipe);
    if (!all_have(where, strlen(where)))
        FAIL("rank %d begins after %s, and others elsewhere: all need the same text and checkpoint", ranks.mine, where);
    return begin;
}

int main(int count, char **arguments)
{
    for (int i = 0; i < OPTIONS; i++)
        if (options[i].number) *options[i].number = options[i].usual;
    for (int i = 1; i < count; i++) read_option(arguments[i]);
    rate = atof(rate_text);
    if (!(rate > 0 && rate < 1)) FAIL("rate=%s: must be a number between 0 and 1", rate_text);
    if (c.q_heads % c.kv_heads) FAIL("kv_heads must divide q_heads");
    if (c.head_dim & (c.head_dim - 1)) FAIL("head_dim must be 16, 32, 64 or 128");
    if (strcmp(parallel, "data") != 0 && strcmp(parallel, "context") != 0)
        FAIL("parallel=%s: must be data or context", parallel);
    split = parallel[0] == 'c';
    if (split && c.full > 0 && !(ring_path && ring_backward_path))
        FAIL("layers with full attention on several ranks need problems 17 and 18, so BACKEND=cuda");
    if (split && c.full > 0 && c.head_dim < 64)
        FAIL("17 and 18 do not support head_dim=%d, only 64 and 128", c.head_dim);
    read_text();
    if (ask_recipe) return puts(recipe) < 0;
    if (by_ranks > 1) see_parts(by_ranks);
    ranks_begin(by_ranks);
    see_parts(ranks.all);
    const bool kernels = forward_path && backward_path, first = ranks.mine == 0;
    const size_t rows = (size_t)batch * c.context / ranks.all;
    const int more = split ? 2 * batch * (c.sinks + c.window - 1) : 0;
    static model m;
    model_create(&m, &c, kernels ? kernel_attention(forward_path, backward_path) : &naive_attention, (int)rows, more,
                 (unsigned)seed);
    m.split = split;
    if (split && c.full > 0) m.ring = kernel_ring(ring_path, ring_backward_path);
    unsigned char *const x = malloc(rows), *const y = malloc(rows);
    if (!x || !y) FAIL("no memory for a batch");
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%zu parameters in %d layers; %zu bytes of text and %zu held out; %zu bytes per step, %s attention",
           m.at.count, c.layers, text_size[0], text_size[1], rows * ranks.all, m.attention->name);
    if (ranks.all > 1) printf("; %d ranks", ranks.all);
    printf(split ? ", which split each sequence\n" : "\n");
    const int begin = begin_together(&m);
    if (begin > 0) printf("continuing from %s after step %d\n", checkpoint_path, begin);
    if (!first) log_path = NULL;
    const bool whole = run(&m, begin, x, y);
    take_batch(x, y, 0);  // rank 0 compares its part of it, chunks as sequences of their own
    const int length_there = split ? c.context / (2 * ranks.all) : c.context;
    m.split = false;
    ranks_end();
    if (!first || !kernels || *kernel_failure()) return !whole;
    return !(compare_gradients(&m, x, y, (int)rows / length_there, length_there, table_path) && whole);
}
