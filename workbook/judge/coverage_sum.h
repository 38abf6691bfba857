// coverage_sum.h - what all workers of a suite have counted (worker/coverage.h), added up in the folder WB_COVERAGE:
// sum.gcda, for gcov, and `served`, a line a worker, how many cases that was.
#pragma once

int coverage_file(void);                   // for a worker to write to; -1: nobody asks
void coverage_keep(int file, int served);  // adds it, of a worker that has ended, and closes the file
