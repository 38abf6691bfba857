"""Shapes: random ones, for duel.py, and those in which peers.py times attention. Wants no PyTorch."""
import itertools, math, os, random
from types import SimpleNamespace

FAMILIES = {"attention": 10, "window": 5, "sinks": 1, "logits": 3, "decode": 4, "int8": 2, "mask": 2}
SHAPE = "B Hq Hkv Nq Nk D mask W S page lens".split()
LARGEST = float(os.environ.get("LARGEST") or 4e13)

# ------------------------ drawn

def drawn(seed):
    """The shapes of a seed, without end, whichever of them are timed."""
    rnd = random.Random(f"duel {seed}")
    while True:
        family = rnd.choices(list(FAMILIES), list(FAMILIES.values()))[0]
        N, D = int(2 ** rnd.uniform(6, {"sinks": 16, "mask": 13.5}.get(family, 19))), rnd.choices((128, 64, 32, 16),
            (16, 16, 1, 1))[0]
        yield from itertools.islice(filter(fits, (attempt(rnd, family, N, D) for _ in range(99))), 1)


def attempt(rnd, family, N, D):
    log_uniform = lambda low, high: min(high, int(2 ** rnd.uniform(math.log2(low), math.log2(high + 1))))
    down = lambda x, odds: 2 ** int(math.log2(x)) if rnd.random() < odds else x  # to a power of two
    group, B = down(log_uniform(1, 16), 0.9), down(log_uniform(1, 128), 0.75)
    Hkv = down(log_uniform(1, 128 // group), 0.75)
    if rnd.random() < 0.5:
        N -= N % (64 if N < 128 else 128)
    c = SimpleNamespace(family=family, B=B, Hq=Hkv * group, Hkv=Hkv, Nq=N, Nk=N, D=D, mask="causal", W=0, S=0, page=0,
                        lens="")
    if family in ("decode", "int8"):
        c.Nq = 1 if rnd.random() < 0.5 else rnd.randint(2, 16)
        c.page, c.lens = 2 ** rnd.randint(4, 8), rnd.choice(("same", "same", "zipf", "long"))
        c.keys = [max(c.Nq, {"same": N, "zipf": int(N ** rnd.random()), "long": rnd.randint(1, N // 16)}[c.lens])
                  for _ in range(B)]
        c.keys[0] = N
    elif family == "mask":
        name = rnd.choice(("documents", "prefix", "strided", "tree"))
        size = log_uniform(16, 64) if name == "tree" else min(log_uniform(64, 4096), N // 2)
        c.mask = f"{name}/{size}"
        c.Nq = size if name == "tree" and rnd.random() < 0.5 else N
    elif family == "attention":
        c.mask = "causal" if rnd.random() < 2 / 3 else "full"
        c.Hq = Hkv if c.mask == "full" and D < 64 else c.Hq
    else:
        c.W = down(log_uniform(32, min(8192, N - 1)), 0.5)
        c.S = log_uniform(1, 64) if family == "sinks" else 0
    return c


def pairs(c):
    """How many a head sees, of all sequences; of a mask as data, at most."""
    if c.page:
        return sum(n - c.Nq + 1 + i for n in c.keys for i in range(c.Nq))
    W = min(c.W or c.Nk, c.Nk)
    far = min(c.S, c.Nk - W)  # the sinks of a query that has all of them left of its window
    bound = W * (W + 1) // 2 + (c.Nk - W) * W + far * (far + 1) // 2 + (c.Nk - W - far) * far
    return c.B * (bound if c.mask == "causal" else c.Nq * c.Nk)


def fits(c):
    if c.page:
        most = c.B * c.Nk * c.Hkv * c.D <= 2**29
    else:
        most = c.B * c.Nq * c.Hq * c.D <= 2**28 and 4.0 * c.Hq * c.D * pairs(c) <= LARGEST
    return most and c.B * c.Hq * c.Nk >= 4096 and (c.family != "mask" or pairs(c) <= 2**27)


def shape_of(c):
    return [getattr(c, name) or "-" for name in SHAPE]


# ------------------------ listed
# A line: problems; whom to ask, `all` of those that peers.py knows; then fields, of which one with several values
# stands for as many shapes, and one may be reckoned from those before it. mask: full, causal, a name and a size of 15.
# W, S: window, sink tokens. Hkv is Hq unless given. 16384 tokens of a model 2048 wide; grouped heads; the original
# assignment's shape, and a layer of gpt-oss; a cache in pages; of 15 what the bench measures, once, and of 16 those of
# 10 that say something of eight bits.
TABLE = """\
03,04 fa2,cudnn                   D=128,64 N=256,512,1024,2048,4096,8192,16384 B=16384//N Hq=2048//D
05,08 fa2,cudnn                   D=128,64 N=256,512,1024,2048,4096,8192,16384 B=16384//N Hq=2048//D Hkv=256//D
08    fa4,fa4_same_bits,fa2,cudnn D=128,64 N=256,512,1024,2048,4096,8192,16384 B=16384//N Hq=2048//D
05    fa2,cudnn                   D=128,64 N=4096 B=2 Hq=64 Hkv=8
08    fa4,fa4_same_bits,fa2,cudnn D=128,64 N=4096 B=2 Hq=64 Hkv=8
03,04 torch,fa2,cudnn,flex        D=16 N=4096 B=1 Hq=16
05    torch,fa2,cudnn,flex        D=16 N=4096 B=1 Hq=16 Hkv=2
08    torch,flex                  D=16 N=4096 B=1 Hq=16 Hkv=8
06    flex                        D=64 N=4096,16384,65536 B=1 Hq=64 Hkv=8 W=128 S=0
07,09 flex                        D=64 N=4096,16384,65536 B=1 Hq=64 Hkv=8 W=128 S=4
06    torch,flex                  D=16 N=4096 B=1 Hq=16 Hkv=2 W=128 S=0
07    torch,flex                  D=16 N=4096 B=1 Hq=16 Hkv=2 W=128 S=8
09    torch,flex                  D=16 N=4096 B=1 Hq=16 Hkv=8 W=256 S=4
10    fa4,cudnn                   D=128,64 N=1024,4096,16384 mask=full,causal B=16384//N Hq=2048//D
10    fa4,cudnn                   D=128,64 N=4096 mask=causal B=2 Hq=64 Hkv=8
11    fa4,flex                    D=64 W=128,0 N=4096,16384,65536 B=1 Hq=64 Hkv=8
12    fa4,fa4_same_bits,flex      D=64 W=128,0 N=4096,16384,65536 B=1 Hq=64 Hkv=8
13    fa4,cudnn,fa2,flashinfer    N=1024,4096,8192,16384 B=32 Nq=1 D=128 page=64 lens=same
14    all                         N=512,1024,2048,4096,8192,16384 B=32 Nq=1 D=128 page=64 lens=same
13,14 fa4,cudnn,fa2,flashinfer    N=8192,32768,131072 B=1 Nq=1 D=128 page=64 lens=same
13,14 fa4,flashinfer              N=32768 B=64 Nq=1 D=128 page=64 lens=zipf
13,14 fa4,flashinfer              N=8192 B=32 Nq=4 D=128 page=64 lens=same
13,14 fa4,cudnn,fa2,flashinfer    N=8192 B=32 Nq=1 D=64 page=64 lens=same
13    fa4,flashinfer              N=8192 B=32 Nq=1 D=128 page=16,256 lens=same
15    flex                        N=1024,2048,4096,8192,16384 Nq=N mask=documents/1024
15    flex                        N=8192 Nq=N mask=documents/128,prefix/2048,strided/512
15    flex                        N=8256 Nq=N,64 mask=tree/64
16    all                         D=128,64,256 N=4096,16384 mask=full,causal B=16384//N Hq=2048//D
16    all                         D=128,64 N=4096 mask=causal B=2 Hq=64 Hkv=8
16    all                         D=256 N=4096 mask=causal B=2 Hq=32 Hkv=4
"""


def value(text, known):
    """Of a field: a number, a formula of numbers that stand before it (16384//N), or a word."""
    try:
        return int(eval(text, {}, known))
    except NameError:
        return text


def listed(problem):
    """(names of who is to be timed, a dictionary of the shape) for each shape of a problem, in the table's order."""
    for of, names, *fields in map(str.split, TABLE.splitlines()):
        shapes = [{}] if problem in of.split(",") else []
        for name, values in (field.split("=") for field in fields):  # the first field changes slowest
            shapes = [{**known, name: value(text, known)} for known in shapes for text in values.split(",")]
        for shape in shapes:
            yield names.split(","), shape
