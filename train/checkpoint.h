// checkpoint.h - a run that was interrupted goes on from a file, bit for bit as if it had not been.
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "model.h"

// What a run is made of: two runs with the same recipe and kernels give the same bits.
typedef struct recipe {
    config model;
    int steps, batch, seed;
    double rate;
    uint64_t text;  // its hash_bytes
} recipe;

uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes);  // FNV-1a, by words of 8 bytes; begin with 0

// The file appears whole or not at all. False, with a sentence in `fault`, if it cannot be written.
bool checkpoint_write(const char *path, const recipe *r, const model *m, int step, char fault[512]);

// Returns the step that the file was written after, its parameters and moments in m; 0 if there is no such file; -1, with a sentence in
// `fault` and m as it was, if it is damaged or belongs to another run.
int checkpoint_read(const char *path, const recipe *r, model *m, char fault[512]);

#endif
