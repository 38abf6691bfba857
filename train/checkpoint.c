// checkpoint.c - see model.h. The file: a line of text, "WBTRAIN step=N RECIPE"; parameters and the two moments; and
// the hash of all of that.
#include "model.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *const at = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

char *plain_text(char *text)
{
    for (char *c = text; *c; c++)
        if (*c != '\n' && (*c < ' ' || *c > '~')) *c = '?';
    return text;
}

void checkpoint_write(const char *path, const char *recipe, const model *m, int step)
{
    char fresh[4096], line[1024];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    snprintf(line, sizeof line, "WBTRAIN step=%d %s\n", step, recipe);
    const size_t bytes = 3 * m->at.count * sizeof(real);
    void *const host = malloc(bytes);
    FILE *const file = fopen(fresh, "wb");
    if (host) from_array(host, m->p, bytes);
    const uint64_t hash = host ? hash_bytes(hash_bytes(HASH_BEGIN, line, strlen(line)), host, bytes) : 0;
    bool good = file && host && fputs(line, file) >= 0 && fwrite(host, 1, bytes, file) == bytes;
    good = good && fwrite(&hash, sizeof hash, 1, file) == 1 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (file && fclose(file) != 0) good = false;
    if (!good || rename(fresh, path) != 0) FAIL("the checkpoint %s cannot be written: %s", path, strerror(errno));
    free(host);
}

int checkpoint_read(const char *path, const char *recipe, model *m)
{
    FILE *const file = fopen(path, "rb");
    if (!file && errno == ENOENT) return 0;
    if (!file) FAIL("the checkpoint %s cannot be read: %s", path, strerror(errno));
    char line[1024] = "";
    int step = 0, word = 0;  // where the word begins that is compared
    if (!fgets(line, sizeof line, file) || sscanf(line, "WBTRAIN step=%d %n", &step, &word) != 1 || step < 1)
        FAIL("%s is not a checkpoint, or only the beginning of one", path);
    uint64_t hash = hash_bytes(HASH_BEGIN, line, strlen(line)), written;
    for (const char *its = plain_text(line) + word, *ours = recipe; (*its && *its != '\n') || *ours;) {
        const int its_size = (int)strcspn(its, " \n"), our_size = (int)strcspn(ours, " ");
        if (its_size != our_size || strncmp(its, ours, (size_t)its_size) != 0)
            FAIL("the checkpoint %s belongs to another run: %.*s there, %.*s here", path, its_size, its, our_size,
                 ours);
        its += its_size + (its[its_size] == ' '), ours += our_size + (ours[our_size] == ' ');
    }

    const size_t bytes = 3 * m->at.count * sizeof(real);
    void *const host = malloc(bytes);
    if (!host) FAIL("no memory for the checkpoint %s", path);
    if (fread(host, 1, bytes, file) != bytes || fread(&written, sizeof written, 1, file) != 1)
        FAIL("the checkpoint %s is cut short", path);
    if (hash_bytes(hash, host, bytes) != written)
        FAIL("the checkpoint %s is damaged: its checksum does not match", path);
    to_array(m->p, host, bytes);
    narrow(m->w, m->p, m->at.count);
    fclose(file);
    free(host);
    return step;
}
