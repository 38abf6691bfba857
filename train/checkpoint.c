// checkpoint.c - see checkpoint.h. The file: header, parameters, the two moments (float32, `count` each), and the hash of all before it.
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct header {
    char magic[8];
    int size_of_real, step;
    recipe recipe;
} header;

uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    if (hash == 0) hash = 0xcbf29ce484222325u;
    for (const char *at = data; bytes > 0;) {
        const size_t n = bytes < 8 ? bytes : 8;
        uint64_t word = n;
        memcpy(&word, at, n);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;  // the upper half of a word counts too
        at += n, bytes -= n;
    }
    return hash;
}

static header header_of(const recipe *r, int step)
{
    header h;
    memset(&h, 0, sizeof h);  // what pads it is part of the hash
    memcpy(h.magic, "WBTRAIN", 8);
    h.size_of_real = sizeof(real), h.step = step;
    h.recipe.model = r->model, h.recipe.steps = r->steps, h.recipe.batch = r->batch, h.recipe.seed = r->seed;
    h.recipe.rate = r->rate, h.recipe.text = r->text;
    return h;
}

bool checkpoint_write(const char *path, const recipe *r, const model *m, int step, char fault[512])
{
    char fresh[4096];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    const size_t bytes = m->at.count * sizeof(real);
    void *const host = malloc(bytes);
    FILE *const file = fopen(fresh, "wb");
    bool good = file && host;
    const header h = header_of(r, step);
    uint64_t hash = hash_bytes(0, &h, sizeof h);
    good = good && fwrite(&h, sizeof h, 1, file) == 1;
    const real *const arrays[] = {m->p, m->m, m->v};
    for (int i = 0; good && i < 3; i++) {
        from_array(host, arrays[i], bytes);
        hash = hash_bytes(hash, host, bytes);
        good = fwrite(host, 1, bytes, file) == bytes;
    }
    good = good && fwrite(&hash, sizeof hash, 1, file) == 1 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (file && fclose(file) != 0) good = false;
    good = good && rename(fresh, path) == 0;
    if (!good) snprintf(fault, 512, "the checkpoint %s cannot be written: %s", path, strerror(errno));
    free(host);
    return good;
}

// What the two recipes differ in, "" if in nothing.
static void compare_recipes(const recipe *its, const recipe *ours, char difference[512])
{
#define SAME(field, format)                                                                                            \
    if (its->field != ours->field)                                                                                     \
    return (void)snprintf(difference, 512, #field " is " format " there and " format " here", its->field, ours->field)
    SAME(model.layers, "%d");
    SAME(model.width, "%d");
    SAME(model.q_heads, "%d");
    SAME(model.kv_heads, "%d");
    SAME(model.head_dim, "%d");
    SAME(model.hidden, "%d");
    SAME(model.context, "%d");
    SAME(model.window, "%d");
    SAME(model.sinks, "%d");
    SAME(steps, "%d");
    SAME(batch, "%d");
    SAME(seed, "%d");
    SAME(rate, "%g");
    if (its->text != ours->text) snprintf(difference, 512, "it has read another text");
}

int checkpoint_read(const char *path, const recipe *r, model *m, char fault[512])
{
    FILE *const file = fopen(path, "rb");
    if (!file && errno == ENOENT) return 0;
    const size_t bytes = m->at.count * sizeof(real);
    header h;
    uint64_t hash, written;
    char difference[512] = "", *const host = malloc(3 * bytes);
    int step = -1;
    if (!file || !host)
        snprintf(fault, 512, "the checkpoint %s cannot be read: %s", path, strerror(errno));
    else if (fread(&h, sizeof h, 1, file) != 1 || memcmp(h.magic, "WBTRAIN", 8) != 0)
        snprintf(fault, 512, "%s is no checkpoint, or the beginning of one", path);
    else if (compare_recipes(&h.recipe, r, difference), *difference || h.size_of_real != sizeof(real))
        snprintf(fault, 512, "the checkpoint %s is of another run: %s", path, difference);
    else if (fread(host, 1, 3 * bytes, file) != 3 * bytes || fread(&written, sizeof written, 1, file) != 1)
        snprintf(fault, 512, "the checkpoint %s is cut short", path);
    else {
        hash = hash_bytes(0, &h, sizeof h);
        for (int i = 0; i < 3; i++) hash = hash_bytes(hash, host + i * bytes, bytes);
        if (hash != written || h.step < 1 || h.step > r->steps)
            snprintf(fault, 512, "the checkpoint %s is damaged: its sum is not that of what it holds", path);
        else
            step = h.step;
    }
    if (step > 0) {
        to_array(m->p, host, bytes), to_array(m->m, host + bytes, bytes), to_array(m->v, host + 2 * bytes, bytes);
        narrow(m->w, m->p, m->at.count);
    }
    if (file) fclose(file);
    free(host);
    return step;
}
