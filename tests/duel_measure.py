"""duel_measure.py - what reference/duel.py calls WRONG of a backward: nothing that is right, rows of one key and of two
included, and all that is wrong. The backwards are made here, rounded where a kernel rounds; on the host, so no GPU is
asked for, but PyTorch is. Exit status 77: there is none."""
import functools, math, random, re, sys

try:
    import torch
except ImportError:
    sys.exit(77)

text, judge = open("reference/duel.py").read(), dict(torch=torch, math=math, functools=functools, tensor=torch.tensor)
LIMIT = eval(re.search("\nLIMIT = ([^#]*)", text)[1])
exec(text.split("- what is right\n")[1].split("\n# --")[0].replace(', device="cuda"', ""), judge)


def backward(wrong, W, q, k, v, dO, sink):
    (B, Hq, N, D), g, j = q.shape, q.shape[1] // k.shape[1], torch.arange(q.shape[2])
    i = j[:, None]
    Q, K, V, G = q.float(), k.float().repeat_interleave(g, 1), v.float().repeat_interleave(g, 1), dO.float()
    rounded, scale = lambda x: x.bfloat16().float(), D ** -0.5
    S = (Q @ K.mT * scale).masked_fill((j > i) | (j <= i - W), -torch.inf)
    L = torch.cat([S, sink[:, None, None].expand(B, Hq, N, 1)], -1).logsumexp(-1)
    P = (S - L[..., None]).exp()
    O = (rounded(P) @ V).bfloat16()
    if wrong == "window":
        P = P * (j != i - W + 1)
    dP, delta = G @ V.mT, (G * O.float()).sum(-1, keepdim=True)
    dP, delta = dP * (1.05 if wrong == "dP" else 1), {"delta": 0 * delta, "head": delta.roll(1, 1)}.get(wrong, delta)
    dS = rounded(P * (dP - delta))
    of_group = lambda x: x.view(B, -1, g, N, D).sum(2).bfloat16()
    return O, L, [(dS @ K * scale).bfloat16(), of_group(dS.mT @ Q * scale), of_group(rounded(P).mT @ G),
                  -((sink[:, None] - L).exp() * delta[..., 0]).sum((0, 2))]


failed = False
for wrong in ("", "delta", "head", "window", "dP"):
    errors = []
    for seed in range(200):
        torch.manual_seed(seed)
        W, sink = (2, 3, 17)[seed % 3], 2 + 2 * torch.randn(4)
        inputs = [torch.randn(1, H, 64, 64).bfloat16() for H in (4, 2, 2, 4)]
        O, L, gradients = backward(wrong, W, *inputs, sink)
        sees = lambda b, h, i, j: (j <= i) & (j > i - W)
        errors.append(judge["backward_error"](random.Random(seed), *inputs[:3], sees, [sink], O, L, inputs[3],
                                              gradients))
    amiss = min(errors) <= LIMIT if wrong else max(errors) > LIMIT
    failed |= amiss
    print("FAIL " * amiss + f"a backward with {wrong or 'nothing'} wrong: {min(errors):.2g} to {max(errors):.2g}")
sys.exit(failed)
