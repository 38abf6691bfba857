// cases.h - what a function is run on to find its mistake.
#pragma once

#include "case/case.h"

// Cases in which mistakes differ; returns how many.
enum { MAX_CASES = 32 };
int diagnose_cases(const wb_problem *problem, char cases[MAX_CASES][WB_CASE_TEXT]);
