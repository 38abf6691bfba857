// forward.h - what the parts of the forward share: the steps of a walk, and its blocks.
#pragma once

#include "evidence.h"

// A tile of a walk: its scores and the product with V that belongs to it.
typedef struct step {
    const product *S, *PV;
    int key0;  // its first key
} step;

enum { STEPS = 2048 };
extern step steps[STEPS];
extern int step_count;

void read_steps(const walk *w);
double base2_scale(void);  // scores in base 2: S times this

void look_at_walk(const record *r), conclude_walks(void);       // walks.c: which tiles each block meets
void look_at_softmax(const record *r), conclude_softmax(void);  // softmax.c: what each row makes of its scores
