#!/usr/bin/env python3
"""Says how well the library chooses, and fits what it predicts (workbook/predict.h) to times of reference/duel.py.

    python3 reference/fit.py [--halves | --write] TABLE...

TABLE: of duel.py, with the ms of each kernel. For each GPU and kind it prints how much slower the chosen kernel was
than the fastest of the library's: how many shapes are over 3 %, the worst and the mean, as the library that was timed
chose and as this one does. --halves: fits coefficients to half of the shapes, by their checksum, and judges by the
others. --write: fits to all, and makes solutions/coefficients.h, of one GPU, which are scaled for others.

A fit makes two things small together, for each head dimension, by Adam: the errors of the logarithms of times,
and what is lost where the fastest is not taken. It begins at what coefficients.h has, and stays near where shapes are
few. A coefficient of 0 stays so. Wants no GPU; the library of any backend (WB_LIBRARY), and it asks nothing else.
"""
import collections, ctypes, functools, math, operator, os, re, sys, zlib

GPUS = {"NVIDIA H200": (9, 132, 1980, 4814), "NVIDIA H100 80GB HBM3": (9, 132, 1980, 3352)}  # as their drivers say
KERNELS, COEFFICIENTS, DIMS = "solutions/kernels.h", "solutions/coefficients.h", (16, 32, 64, 128)
COSTS = "launch step busy beginning megabyte more".split()
# The same kernel in several files: the first one's coefficients serve all.
COMMON = [line.split() for line in """
    09/variants/one_launch 12/variants/one_launch
    09/variants/hopper_any_window 12/variants/hopper
    09/variants/hopper 12/variants/hopper_window
    06/flash_window 07/flash_sinks
    09/flash_sinks_backward 12/flash_sink_logits_backward
    03/flash_forward 04/flash_causal 05/flash_gqa
    03/variants/hopper 05/variants/hopper""".splitlines()[1:]]
FIRST = {name: names[0] for names in COMMON for name in names}
path_of = functools.lru_cache(None)(lambda source: f"solutions/{source}.cu".encode())
FUNCTIONS = {"backward": "gqa_backward_fastest", "same_bits": "gqa_backward", "window_forward": "window",
             "window_backward": "sinks_backward", "sinks_forward": "sinks", "logits_forward": "sink_logits",
             "logits_backward": "sink_logits_backward", "int8": "decode_int8", "mask": "block_mask"}


def struct(*fields):
    return type("Struct", (ctypes.Structure,), {"_fields_": [
        (name, kind) for names, kind in fields for name in names.split()]})


Shape = struct(("batch q_heads kv_heads q_len kv_len head_dim", ctypes.c_int), ("scale", ctypes.c_float),
               ("causal window sinks", ctypes.c_int))
Cache = struct(("batch q_heads kv_heads q_len head_dim", ctypes.c_int), ("scale", ctypes.c_float),
               ("page_size pages max_pages", ctypes.c_int))
Costs = struct((" ".join(COSTS), ctypes.c_float))
Device = struct(("capability processors clock bandwidth", ctypes.c_int), ("costs", ctypes.POINTER(Costs)))
lib = ctypes.CDLL(os.environ.get("WB_LIBRARY", "build/cpu/lib/libworkbook_all.so"))
lib.wb_library_microseconds.restype = ctypes.c_double


class Timed:
    """A row of a table: a shape, and the microseconds of each kernel that can do it."""

    def __init__(self, row, gpu):
        n = lambda name: int(row[name].replace("-", "0"))
        self.kind, self.gpu, self.D, causal = row["kind"], gpu, n("D"), row["mask"] == "causal"
        self.name = "\t".join(row[name] for name in "kind B Hq Hkv Nq Nk D mask W S page lens".split())
        pages = -(-n("Nk") // max(1, n("page")))
        self.shape = (Cache(n("B"), n("Hq"), n("Hkv"), n("Nq"), self.D, 1, n("page"), n("B") * pages, pages)
                      if n("page") else
                      Shape(n("B"), n("Hq"), n("Hkv"), n("Nq"), n("Nk"), self.D, 1, causal, n("W") or n("Nk"), n("S")))
        function = FUNCTIONS.get(self.kind, self.kind)
        if function == "forward" and (causal or n("Hq") != n("Hkv")):
            function = "hopper" if not causal else "causal" if n("Hq") == n("Hkv") else "gqa"
        self.function, any_costs = f"flash_{function}".encode(), Device(*GPUS[gpu], ctypes.pointer(Costs(*[1] * 6)))
        self.reference = ctypes.byref(self.shape)
        self.us = {name: 1e3 * float(ms) for name, ms in (pair.rsplit(":", 1) for pair in row["all"].split(","))}
        self.us = {name: us for name, us in self.us.items() if math.isfinite(self.predicted(name, any_costs))}
        self.best = min(self.us.values(), default=0)
        self.loses = {name: us / self.best - 1 for name, us in self.us.items()}
        self.lost_before = 1e3 * float(row["ours"]) / self.best - 1 if self.us else 0
        # lengths and masks that only the device knows: a time cannot be predicted, but which kernel to take
        self.times, self.choice = (0.3, 1) if self.kind in ("decode", "int8", "mask") else (1, 0.3)
        self.held_out = zlib.crc32(self.name.encode()) % 2 == 1

    def predicted(self, source, device):
        return lib.wb_library_microseconds(self.function, path_of(source), self.reference, ctypes.byref(device))


def read(paths):
    for path in paths:
        for line in open(path):
            values = line.rstrip("\n").split("\t")
            if line.startswith("# gpu:"):
                gpu = line[6:].strip()
            elif values[0] == "kind":
                names = values
            elif not line.startswith("#") and len(values) == len(names):
                row = Timed(dict(zip(names, values)), gpu)
                if row.us:
                    yield row


def recorded():
    """The GPU of coefficients.h, and {(source, D): coefficients}; of what is new there they are 1."""
    text, found = open(COEFFICIENTS).read(), collections.defaultdict(lambda: [1.0] * len(COSTS))
    for source, rest in re.findall(r'^    \{"solutions/([^"]*)\.cu", \{(.*?)\}\},$', text, re.M | re.S):
        for D, row in zip(DIMS, re.findall(r"\{([^{}]+)\}|NONE", rest)):
            found[source, D] = [*map(float, (row or "0, 0, 0, 0, 0, 0").split(","))]
    return re.search(r"\};  // (.*)", text)[1], found


def on(gpu, like):
    """What each coefficient of the GPU LIKE is multiplied by on GPU, as library.c does it."""
    here, of = GPUS[gpu], GPUS[like]
    return [of[2] / here[2]] * 3 + [1, of[3] / here[3], 1]


def fit(rows, costs, like, steps=300, sharp=0.03):
    """Changes COSTS, {(source, D): coefficients} of the GPU LIKE, to suit ROWS, which are of one D."""
    if not rows:
        return
    gpus = {row.gpu: on(row.gpu, like) for row in rows}
    used = sorted({(FIRST.get(name, name), rows[0].D) for row in rows for name in row.us})
    device = {(of[0], gpu): Device(*GPUS[gpu], ctypes.pointer(Costs(*map(operator.mul, costs[of], factors))))
              for of in used for gpu, factors in gpus.items()}

    def put(of, i, x):
        for gpu, factors in gpus.items():
            setattr(device[of[0], gpu].costs.contents, COSTS[i], math.exp(x) * factors[i])

    picture = lambda row, name: math.log(row.predicted(name, device[FIRST.get(name, name), row.gpu]))
    start = {(of, i): math.log(x) for of in used for i, x in enumerate(costs[of]) if x > 0}
    at, one, two, least = dict(start), collections.Counter(), collections.Counter(), math.inf
    for step in range(1, steps + 1):
        loss, slope = 0, collections.Counter()
        for p, x in at.items():  # few shapes change little
            loss, slope[p] = loss + 0.01 * (x - start[p])**2, 0.02 * (x - start[p])
        pushed = collections.defaultdict(list)
        for row in rows:
            log = {name: picture(row, name) for name in row.us}
            share = {name: math.exp((min(log.values()) - x) / sharp) for name, x in log.items()}
            total = sum(share.values())
            mean = sum(share[name] * min(row.loses[name], 1) for name in log) / total
            loss += row.choice * mean
            for name, x in log.items():
                off = x - math.log(row.us[name])
                near, push = row.times * (1 if row.loses[name] < 0.25 else 0.2), max(-0.15, min(0.15, off))
                loss += near * push * (off - push / 2)
                push = near * push - row.choice * share[name] / total * (min(row.loses[name], 1) - mean) / sharp
                pushed[FIRST.get(name, name)].append((row, name, x, push))
        if loss < least:
            least = loss
            costs.update({of: [math.exp(at[of, i]) if (of, i) in at else 0 for i in range(len(COSTS))]
                          for of in used})
        for p, x in at.items():
            of, i = p
            put(of, i, x + 0.01)
            for row, name, before, push in pushed[of[0]]:
                if abs(push) < 1e-3:
                    continue
                slope[p] += push * (picture(row, name) - before) / 0.01
            put(of, i, x)
        for p in at:
            one[p] += 0.1 * (slope[p] - one[p])
            two[p] += 0.01 * (slope[p]**2 - two[p])
            at[p] -= (0.04 * (1 - step / steps) * one[p] / (1 - 0.9**step)
                      / (math.sqrt(two[p] / (1 - 0.99**step)) + 1e-9))
            put(*p, at[p])


def predicted(row, costs, like):
    """{source: microseconds} by the coefficients of the GPU LIKE."""
    of = lambda name: Costs(*map(operator.mul, costs[FIRST.get(name, name), row.D], on(row.gpu, like)))
    return {name: row.predicted(name, Device(*GPUS[row.gpu], ctypes.pointer(of(name)))) for name in row.us}


def main(*arguments):
    rows, (like, costs) = [*read(word for word in arguments if not word.startswith("--"))], recorded()
    halves, whole = "--halves" in arguments, "--write" in arguments
    for D in DIMS if halves or whole else ():
        fit([row for row in rows if row.D == D and (whole or not row.held_out)], costs, like)
    judged = [row for row in rows if row.held_out or not halves]
    for row in judged:
        row.picture = predicted(row, costs, like)
    print("gpu kind shapes over3_before worst_before mean_before over3 worst mean".replace(" ", "\t"))
    for gpu in sorted({row.gpu for row in judged}):
        of_gpu = [row for row in judged if row.gpu == gpu]
        for kind in [*dict.fromkeys(row.kind for row in of_gpu), "all"]:
            some, line = [row for row in of_gpu if kind in (row.kind, "all")], [gpu, kind]
            line.append(len(some))
            for lost in ([row.lost_before for row in some],
                         [row.loses[min(row.picture, key=row.picture.get)] for row in some]):
                line += [f"{100 * x:.1f}%" for x in (sum(x > 0.03 for x in lost) / len(lost), max(lost),
                                                      sum(lost) / len(lost))]
            print(*line, sep="\t")
    if whole:
        write(costs, like)


def write(costs, gpu):
    row = lambda x: "{" + ", ".join(f"{c:.3g}" for c in x) + "}" if any(x) else "NONE"
    with open(COEFFICIENTS, "w") as out:
        print("// coefficients.h - what each kernel costs on this GPU, with D 16, 32, 64 and 128: made by "
              "reference/fit.py.\n// In the order of predict.h: " + ", ".join(COSTS) + ".\n// clang-format off\n"
              "static const wb_device recorded = {" + ", ".join(map(str, GPUS[gpu])) + f", 0}};  // {gpu}\n"
              "#define NONE {0, 0, 0, 0, 0, 0}\n"
              "static const struct { const char *source; wb_costs of[4]; } coefficients[] = {", file=out)
        for source in dict.fromkeys(re.findall(r'"([^"]*)"', open(KERNELS).read())):
            of_dims = (row(costs[FIRST.get(source, source), D]) for D in DIMS)
            print(f'    {{"solutions/{source}.cu", {{\n' + "     {}, {},\n     {}, {}}}}},".format(*of_dims), file=out)
        print("};\n// clang-format on", file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
