// results.h - of a function without products: what is regular about output k, which is wrong.
#pragma once
#include "judge/expect.h"
void look_at_results(const worker_run *run, int k, const expected *want);
