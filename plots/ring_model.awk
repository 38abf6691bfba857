# ring_model.awk - what a ring of R GPUs would do, from what four of them did: awk -f plots/ring_model.awk prints the
# table of problems/17/methods.md. Causal, B 1, 32 query heads on 8, D 128, bfloat16, zigzag: in each step a GPU works
# on two whole pairs of chunks, or three at the first.
#
# Measured (4 H200 of one host, 2026-11-21): 700 TFLOP/s, one GPU's share alone; 0.036 ms that a call of the kernel and
# its merge take beyond the work, 4 TB/s for the merge's bytes (both from 3.71 and 3.01 ms at N 32768); NVLink in a
# ring, 153 GB/s at 64 MiB; 0.03 ms for a short message. Assumed, and not measured: InfiniBand carries 45 GB/s for each
# GPU (400 Gb/s), with as long a beginning.
function model(N, R, GBs,    rows, work, call, merge, comp, comm, t) {
    rows = N / R
    work = 4 * 32 * 128 * (N * N / 2) / R / 700e12 * 1e3  # ms of one GPU's share
    merge = rows / 2 * 32 * 128 * 10 / 4e12 * 1e3  # a chunk: O in float32 read and written, a part in bfloat16 read
    call = 0.036 + merge
    comp = work / R + 2 * call  # a step
    comm = R > 1 ? 0.03 + rows * 2 * 8 * 128 * 2 / (GBs * 1e9) * 1e3 : 0
    t = comp + call + (R - 1) * (comp > comm ? comp : comm)
    return sprintf(t < 1e3 ? "%.3g ms, %.2f" : t < 1e6 ? "%.3g s, %.2f" : "%.0f s, %.2f",
        t < 1e3 ? t : t / 1e3, work / t)
}
function named(N) { return N >= 2 ^ 20 ? N / 2 ^ 20 "M" : N / 1024 "k" }
BEGIN {
    print "| N | 4 GPUs, NVLink | 8, NVLink | 8, InfiniBand | 64, InfiniBand | 1024, InfiniBand |"
    print "|---|---|---|---|---|---|"
    for (N = 32768; N <= 2 ^ 25; N *= 4 + 4 * (N >= 2 ^ 19))
        printf "| %s | %s | %s | %s | %s | %s |\n", named(N), model(N, 4, 153), model(N, 8, 153),
            model(N, 8, 45), model(N, 64, 45), model(N, 1024, 45)
}
