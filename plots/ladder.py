#!/usr/bin/env python3
"""The ladder of problems/ladder.md: one forward pass by kernels from the simplest to the fastest, and by other libraries.

    python3 plots/ladder.py >plots/data/h100/ladder.tsv     wants an H100 or H200, nvcc and PyTorch; two minutes

A step is a source, or one with an edit of a list (workbook/loop/edit.awk); its causal kernel may be another source.
Columns: ms (cold L2, median of 15; 5 above 20 ms), tflops, share of the roof of bf16 products in %, error |O - want| /
|want| of one head; and counted by Nsight Compute (`-` without it): l2_gb, dram_gb, 10^9 bytes that L2 and device memory
moved; exps, instructions of the special function unit for 32 pairs; and how busy, in %, the units are: issue slots,
tensor cores, FMA, the data path of shared memory and L1, special functions, L2, device memory."""
import csv, ctypes, math, os, subprocess, sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, root + "/reference")
V, HOPPER = "solutions/03/variants/", "solutions/10/flash_hopper.cu"
STEPS = [("a thread a query", V + "thread_a_query.cu"), ("a warp a query", V + "warp_a_query.cu"),
         ("keys in shared memory", V + "shared_keys.cu"), ("tiles in registers", V + "register_tiles.cu"),
         ("tensor cores", V + "tensor_cores.cu", "unpadded"), ("padding", V + "tensor_cores.cu"),
         ("two places", V + "plain.cu"), ("late maximum", "solutions/03/flash_forward.cu", None, "solutions/04/flash_causal.cu"),
         ("TMA and wgmma", HOPPER, "tma_and_wgmma"), ("overlap", HOPPER, "overlap"), ("turns", HOPPER, "turns"),
         ("order of blocks", HOPPER), ("persistent blocks", "solutions/10/variants/hopper_walk_wide.cu")]
CASES = [(D, causal) for D in (128, 64) for causal in (0, 1)]
B, H, N = 4, 16, 4096
UNITS = {"l2_gb": ["lts__t_bytes.sum"], "dram_gb": ["dram__bytes.sum"], "exps": ["smsp__inst_executed_pipe_xu.sum"],
         "issue": ["smsp__issue_active.avg.pct_of_peak_sustained_active"],
         "tensor": ["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"],
         "fma": ["sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
                 "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"],
         "shared": ["l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"],
         "special": ["sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"],
         "l2": ["lts__t_sectors.avg.pct_of_peak_sustained_elapsed"],
         "dram": ["dram__throughput.avg.pct_of_peak_sustained_elapsed"]}


def built():
    """{(step, causal): (function, its name)}"""
    out, words, found = root + "/build/ladder/", root + "/workbook/words/", {}
    os.makedirs(out + "unpadded", exist_ok=True)
    with open(words + "tile.cuh") as tile, open(out + "unpadded/tile.cuh", "w") as copy:
        copy.write(tile.read().replace("Cols + 8", "Cols"))
    run = lambda command: subprocess.Popen(command, shell=True, cwd=root)
    run(f"gcc -O2 -fPIC -Iworkbook -c workbook/validate.c -o {out}validate.o").wait()
    makes = []
    for name, source, *rest in STEPS:
        edit, other = [*rest, None, None][:2]
        for causal, of in ((0, source), (1, other or source)):
            if causal and "/03/" in of:
                continue
            at = out + f"{name.replace(' ', '_')}_{os.path.basename(of)[:-3]}"
            edited = f"awk -v list=solutions/10/ladder.diff -v entry={edit} -f workbook/loop/edit.awk {of}"
            include = f"-I{out}unpadded " * (edit == "unpadded") + f"-Iworkbook -Iworkbook/words -I{os.path.dirname(of)}"
            if at + ".so" not in dict(found.values()):
                makes.append(run(f"{edited if edit and edit != 'unpadded' else 'cat ' + of} >{at}.cu; nvcc -shared -std=c++17 -O3 "
                                 f"-gencode arch=compute_90a,code=sm_90a -Xcompiler -fPIC {include} {at}.cu {out}validate.o -o {at}.so"))
            found[name, causal] = at + ".so", {"03": "flash_forward", "04": "flash_causal", "10": "flash_hopper"}[of[10:12]]
    for make in makes:
        make.wait()
    return {key: getattr(ctypes.CDLL(path), name) for key, (path, name) in found.items()}


def main(once=False):
    import torch
    import peers
    from flash_workbook.library import Shape
    from timing import heading, percentiles, said, times
    import timing
    kernels = built()
    inputs = {}
    for D, causal in CASES:
        torch.manual_seed(D)
        inputs[D, causal] = [torch.randn(B, H, N, D, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    order = [(name, D, causal) for name, *_ in STEPS for D, causal in CASES if (name, causal) in kernels]

    def call(name, D, causal):
        q, k, v = inputs[D, causal]
        O, L = torch.full_like(q, math.nan), torch.empty(B, H, N, device="cuda")
        shape = Shape(B, H, H, N, N, D, D ** -0.5, causal, N, 0)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in (O, L, q, k, v)]
        def run():
            assert kernels[name, causal](*pointers, ctypes.byref(shape), stream) == 0, name
            return O
        return run
    if once:
        for key in order:
            call(*key)()
        torch.cuda.synchronize()
        return
    counted = counts(order)
    clock = int(subprocess.check_output("nvidia-smi --query-gpu=clocks.max.sm --format=csv,noheader,nounits", shell=True, text=True).split()[0])
    roof = torch.cuda.get_device_properties(0).multi_processor_count * 4096 * clock * 1e6
    heading(True)
    print(f"# roof: {roof / 1e12:.0f} TFLOP/s, at {clock} MHz")
    print("step", "B", "H", "N", "D", "mask", "ms", "tflops", "share", "error", *UNITS, sep="\t")
    rows = order + [(p, D, causal) for p in ("fa2", "cudnn", "fa3", "fa4") for D, causal in CASES]
    for name, D, causal in rows:
        q, k, v = inputs[D, causal]
        try:
            if (name, causal) in kernels:
                run = call(name, D, causal)
            elif name in ("fa3", "fa4"):
                q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
                of = peers.fa3 if name == "fa3" else lambda q, k, v, causal, W: peers.fa4(q, k, v, causal, W, 0)
                run = lambda: of(q, k, v, bool(causal), 0).transpose(1, 2)
            else:
                run = lambda: peers.PEERS[name](q, k, v, bool(causal), 0, 0)
            O = run()
            torch.cuda.synchronize()
            S = inputs[D, causal][0][1, 3].float() @ inputs[D, causal][1][1, 3].float().T * D ** -0.5
            if causal:
                S = S.masked_fill(torch.ones_like(S).triu(1).bool(), -math.inf)
            want = S.softmax(-1) @ inputs[D, causal][2][1, 3].float()
            error = ((O[1, 3].float() - want).norm() / want.norm()).item()
            ms = times(run, 5 if timing.once(run) > 20 else 15)[0]
        except Exception as problem:
            print(f"# {name} {D} {causal}: {said(problem)}", flush=True)
            continue
        flop = 4 * B * H * D * (N * (N + 1) / 2 if causal else N * N)
        print(name, B, H, N, D, "causal" if causal else "full", f"{ms:.4g}", f"{flop / ms / 1e9:.4g}",
              f"{100 * flop / ms * 1e3 / roof:.3g}", f"{error:.2g}", *counted.get((name, D, causal), ["-"] * len(UNITS)), sep="\t", flush=True)


def counts(order):
    """{of `order`: what Nsight Compute has counted}: this program again, under ncu, each kernel once."""
    try:
        known = subprocess.run("ncu --query-metrics-mode all --query-metrics --chip gh100", shell=True, capture_output=True, text=True).stdout
        metric = {unit: next((m for m in names if m in known or m.split(".")[0] in known), None) for unit, names in UNITS.items()}
        said = subprocess.run(["ncu", "--csv", "--clock-control", "none", "-k", "regex:forward_kernel|walk", "--metrics",
                               ",".join(filter(None, metric.values())), sys.executable, __file__, "--once"],
                              capture_output=True, text=True).stdout
        open(root + "/build/ladder/ncu.csv", "w").write(said)
        rows = [row for row in csv.DictReader(said[said.index('"ID"'):].splitlines()) if row["ID"].isdigit()]
        values = {}
        for row in rows:
            values.setdefault(int(row["ID"]), {})[row["Metric Name"]] = (float(row["Metric Value"].replace(",", "")), row["Metric Unit"])
        assert len(values) == len(order), f"{len(values)} kernels were counted, and {len(order)} called"
        found = {}
        for key, of in zip(order, values.values()):
            pairs = B * H * (N * (N + 1) / 2 if key[2] else N * N)
            bytes_of = lambda of: of[0] * {"byte": 1e-9, "Kbyte": 1e-6, "Mbyte": 1e-3, "Gbyte": 1}.get(of[1], 1e-9)
            found[key] = [f"{bytes_of(of[m]):.3g}" if unit.endswith("_gb") else f"{of[m][0] / pairs * 32:.3g}" if unit == "exps"
                          else f"{of[m][0]:.3g}" if m else "-" for unit, m in metric.items()]
        return found
    except Exception as problem:
        print(f"# not counted: {type(problem).__name__}: {problem}", file=sys.stderr)
        return {}


if __name__ == "__main__":
    main("--once" in sys.argv)
