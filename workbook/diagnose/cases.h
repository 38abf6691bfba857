// cases.h - what a function is run on to find its mistake.
#pragma once

#include "case/case.h"

// Cases in which mistakes differ; returns how many. A problem that has none of its own takes those of one with the same
// arguments, mask and heads, and small cases if there is none.
enum { MAX_CASES = 32 };
int diagnose_cases(const wb_problem *problem, char cases[MAX_CASES][WB_CASE_TEXT]);
