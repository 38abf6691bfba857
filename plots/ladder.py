#!/usr/bin/env python3
"""The ladder of problems/ladder.md: one forward pass by kernels from the simplest to the fastest, and other libraries.

    python3 plots/ladder.py >plots/data/h100/ladder.tsv     wants an H100 or H200, nvcc and PyTorch; two minutes

A step is a source, or one with an edit of solutions/10/ladder.diff; in causal another source may take its place.
Columns: ms (cold L2, median), tflops, share of the roof of bf16 products, error |O - want| / |want| of one head; and,
counted by Nsight Compute where it is installed, 10^9 bytes that L2 and device memory moved, instructions of the special
function unit for 32 pairs, and how busy units were, in %: issue slots, tensor cores, FMA, the data path of shared
memory and L1, special functions, L2, device memory."""
import csv, ctypes, math, os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor

os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/..")
sys.path.insert(0, "reference")
B, H, N = 4, 16, 4096
KEY, HOPPER, IN_03 = "solutions/03/flash_forward.cu", "solutions/10/flash_hopper.cu", "solutions/03/variants/"
STEPS = {"a thread a query": (IN_03 + "thread_a_query.cu",), "a warp a query": (IN_03 + "warp_a_query.cu",),
         "keys in shared memory": (IN_03 + "shared_keys.cu",), "tiles in registers": (IN_03 + "register_tiles.cu",),
         "tensor cores": (IN_03 + "tensor_cores.cu", "unpadded"), "padding": (IN_03 + "tensor_cores.cu",),
         "two places": (IN_03 + "plain.cu",), "late maximum": (KEY, None, "solutions/04/flash_causal.cu"),
         "TMA and wgmma": (HOPPER, "tma_and_wgmma"), "overlap": (HOPPER, "overlap"), "turns": (HOPPER, "turns"),
         "order of blocks": (HOPPER,), "persistent blocks": ("solutions/10/variants/hopper_walk_wide.cu",)}
COUNTED = {"l2_gb": "lts__t_bytes.sum", "dram_gb": "dram__bytes.sum", "special": "smsp__inst_executed_pipe_xu.sum"}
BUSY = {"issue": "smsp__issue_active", "tensor": "sm__pipe_tensor_cycles_active", "fma": "sm__inst_executed_pipe_fma",
        "shared": "l1tex__data_pipe_lsu_wavefronts", "xu": "sm__inst_executed_pipe_xu", "l2": "lts__t_sectors",
        "dram": "dram__throughput"}
COUNTED.update({unit: f"{name}.avg.pct_of_peak_sustained_elapsed" for unit, name in BUSY.items()})


def built(step, causal):
    """The step's function, or none."""
    source, edit, other = (*STEPS[step], None, None)[:3]
    source = other or source if causal else source
    if causal and "/03/" in source:
        return None
    at = "build/ladder/" + f"{step}_{causal}".replace(" ", "_")
    words = "-Ibuild/ladder/unpadded" if edit == "unpadded" else ""
    how = "cat" if words or not edit else \
        f"awk -v list=solutions/10/ladder.diff -v entry={edit} -f workbook/loop/edit.awk"
    if not os.path.exists(at + ".so"):
        subprocess.run(f"""{how} {source} >{at}.cu
            nvcc -shared -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a -Xcompiler -fPIC {words} -Iworkbook \
            -Iworkbook/words -I{os.path.dirname(source)} {at}.cu -o {at}.so""", shell=True, check=True)
    name = {"03": "flash_forward", "04": "flash_causal", "10": "flash_hopper"}[source[10:12]]
    return getattr(ctypes.CDLL(at + ".so"), name)


def counts(calls):
    """What Nsight Compute counts of these: this program again, each of them once."""
    known = subprocess.getoutput("ncu --query-metrics --chip gh100")
    asked = ",".join(name for name in COUNTED.values() if name.split(".")[0] in known)
    ncu = f"ncu --csv --print-units base --clock-control none -k 'regex:forward|walk' --metrics {asked}"
    said = subprocess.getoutput(f"{ncu} {sys.executable} {__file__} --once")
    with open("build/ladder/ncu.csv", "w") as log:
        log.write(said)
    found = {}
    for row in csv.DictReader(line for line in said.splitlines() if line.startswith('"')):
        found.setdefault(row["ID"], {})[row["Metric Name"]] = float((row["Metric Value"] or "0").replace(",", ""))
    found.pop("", None)
    return dict(zip(calls, found.values())) if len(found) == len(calls) else {}


def main(once=False):
    import torch
    import peers
    from flash_workbook import Shape
    from timing import heading, once as timed, said, times

    os.makedirs("build/ladder/unpadded", exist_ok=True)
    subprocess.run("sed 's/\\[Cols + 8\\]/[Cols]/' workbook/words/tile.cuh >build/ladder/unpadded/tile.cuh; gcc -O2 "
                   "-fPIC -shared -Iworkbook workbook/validate.c workbook/problems.c -o build/ladder/checks.so",
                   shell=True)
    ctypes.CDLL("build/ladder/checks.so", ctypes.RTLD_GLOBAL)
    inputs = {D: [torch.randn(B, H, N, D, device="cuda", dtype=torch.bfloat16) for _ in range(3)] for D in (128, 64)}
    L = torch.empty(B, H, N, device="cuda")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ways = [(step, causal) for step in STEPS for causal in (0, 1)]
        kernels = {way: kernel for way, kernel in zip(ways, pool.map(lambda way: built(*way), ways)) if kernel}
    calls = [(step, D, causal) for step, causal in kernels for D in inputs]

    def run(step, D, causal):
        q, k, v = inputs[D]
        if step in STEPS:
            O, shape = torch.full_like(q, math.nan), Shape(B, H, H, N, N, D, D ** -0.5, causal, N, 0)
            pointers = [ctypes.c_void_p(x.data_ptr()) for x in (O, L, q, k, v)]
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            return O, lambda: kernels[step, causal](*pointers, ctypes.byref(shape), stream)
        call = peers.dense(step, q, k, v, causal, 0, 0)
        return call().transpose(1, 2) if step in ("fa3", "fa4") else call(), call  # the order of its dimensions

    if once:
        return [run(*call)[1]() for call in calls], torch.cuda.synchronize()
    counted = counts(calls)
    clock = int(subprocess.getoutput("nvidia-smi --query-gpu=clocks.max.sm --format=csv,noheader,nounits").split()[0])
    roof = torch.cuda.get_device_properties(0).multi_processor_count * 4096e-6 * clock
    heading(True)
    print(f"# roof: {roof:.0f} TFLOP/s, at {clock} MHz")
    print("step", "D", "mask", "ms", "tflops", "share", "error", *COUNTED, sep="\t")
    others = [(peer, D, causal) for peer in ("fa2", "cudnn", "fa3", "fa4") for D in inputs for causal in (False, True)]
    for step, D, causal in calls + others:
        try:
            O, call = run(step, D, causal)
            call()
            q, k, v = (x[1, 3].float() for x in inputs[D])
            S = q @ k.T * D ** -0.5
            want = (S.masked_fill(S.new_ones(N, N).triu(1).bool(), -math.inf) if causal else S).softmax(-1) @ v
            ms = times(call, 5 if timed(call) > 20 else 15)[0]
        except Exception as error:
            print(f"# {step} {D} {causal}: {said(error)}")
            continue
        pairs = B * H * (N * (N + 1) / 2 if causal else N * N)
        values = counted.get((step, D, causal), {})
        scale = {"l2_gb": 1e-9, "dram_gb": 1e-9, "special": 32 / pairs}
        tflops, error = 4e-9 * D * pairs / ms, ((O[1, 3].float() - want).norm() / want.norm()).item()
        print(step, D, ("full", "causal")[causal], *(f"{x:.4g}" for x in (ms, tflops, tflops / roof, error)),
              *(f"{values[name] * scale.get(unit, 1):.4g}" if name in values else "-"
                for unit, name in COUNTED.items()), sep="\t", flush=True)


if __name__ == "__main__":
    main("--once" in sys.argv)
