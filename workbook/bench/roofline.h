// roofline.h - how fast a problem can be on a GPU at all, and how near a measured time comes to that. Arithmetic alone:
// it asks no device and reads no file. The model: Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785.
#pragma once

#include "case/case.h"

#include <stdio.h>

__BEGIN_DECLS

// What a device says of itself (cudaDeviceGetAttribute).
typedef struct roofline_device {
    char name[128];
    int major, minor;  // compute capability
    int multiprocessors;
    int clock_khz, memory_khz;  // the highest
    int bus_bits;
} roofline_device;

// What a device can do at most; 0 where that is not known.
typedef struct roofline_peaks {
    double tflops;      // 10^12 FLOPs a second in bf16 products that are added up in float32, without sparsity
    double mma_tflops;  // as many of them as mma.sync does, the instruction of tile.cuh
    double gbps;        // 10^9 bytes a second of device memory
    double gexps;       // 10^9 exponentials a second
} roofline_peaks;

// Bf16 FLOPs that one multiprocessor of this device does in a clock; 0 if the compute capability is not in the table.
double roofline_flops_a_clock(const roofline_device *device);

enum { ROOFLINE_EXPS_A_CLOCK = 16 };  // exponentials of one multiprocessor

roofline_peaks roofline_peaks_of(const roofline_device *device);

// What a call cannot do without.
typedef struct roofline_work {
    double flops;  // forward 4 B Hq D (visible pairs), backward 2.5 times that, weighted row sum 2 a term
    double bytes;  // each input read once, of a cache the keys that there are, each output written once
    double exps;   // one a visible pair of every head; 0 for the weighted row sum
} roofline_work;

roofline_work roofline_work_of(const wb_problem *problem, const wb_case *c);

typedef enum roofline_roof {
    ROOFLINE_NONE,  // no time, or peaks that are not known
    ROOFLINE_MEMORY,
    ROOFLINE_ARITHMETIC,
    ROOFLINE_EXPONENTIALS
} roofline_roof;

typedef struct roofline_verdict {
    roofline_roof roof;  // the one that this work meets first
    double intensity;    // FLOPs a byte
    double best_ms;      // the time under that roof
    double attainable;   // TFLOP/s under that roof
    double fraction;     // of it that was reached
} roofline_verdict;

roofline_verdict roofline_judge(const wb_problem *problem, const roofline_peaks *peaks, const roofline_work *work,
                                double ms);

// What a row of bench's table says of it, after a tab each: FLOPs a byte, the roof, the rate under it (TFLOP/s; of 02,
// 13 and 14, which do little with each byte, GB/s), and what part of that was reached. "-" where there is no verdict.
#define ROOFLINE_COLUMNS "\tflops_a_byte\tbound\tat_most\tfraction"
void roofline_columns(FILE *out, const roofline_verdict *verdict, const wb_problem *problem);

__END_DECLS
