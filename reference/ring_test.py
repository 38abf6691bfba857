"""ring_attention of flash_workbook on 1 to 4 ranks, by pytest: python3 -m pytest reference/ring_test.py, from the
workbook's root after make lib.

On the CPU layer the ranks are processes with gloo; on GPUs with NCCL, where there are enough. Four are started, for one
number of ranks after the other, and the first rank tells what it found: |x - want| / |want| of O, dQ, dK and dV,
joined, beside PyTorch's attention in float32, over the whole sequence. The limit is flash_attn_test.py's, 2^-7, for all
that two roundings are added to those it counts: of a call's O, and of a call's share of a gradient. Ranks that wait for
each other are known by this, that all of them together take less than two seconds of processor time in a minute, where
gloo's waiting takes one.
"""
import contextlib, json, os, signal, subprocess, sys, time
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from flash_workbook import attention, library, ring, ring_attention
from timing import distances

on_gpu = torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu"
LIMIT = 2**-7
FAR = 6  # added to Q and taken from K: logits around -288, whose exp is 0 in float32
CASES = [  # B, Hq, Hkv, N, D, causal
    *((1, 4, 2, 48, 64, causal, 0) for causal in (True, False)),
    *((2, 2, 2, N, D, True, 0) for N, D in ((3, 64), (8, 64), (37, 40), (101, 64))),
    *((1, 6, 2, 65, 128, causal, 0) for causal in (True, False)),
    *((1, 2, 1, 45, 64, causal, FAR) for causal in (True, False)),
]


def inputs(B, Hq, Hkv, N, D, causal, far, device):
    torch.manual_seed(N)
    Q, K, V, dO = (torch.randn(B, h, N, D, device=device) for h in (Hq, Hkv, Hkv, Hq))
    return [x.bfloat16() for x in (Q + far, K - far, V, dO)]


def results(function, tensors, dO, **how):
    tensors = [x.detach().requires_grad_() for x in tensors]
    O = function(*tensors, **how)
    return [O.detach(), *torch.autograd.grad(O, tensors, dO)]


def on_ranks(group, tensors, dO, causal, N):
    """O, dQ, dK, dV of the whole, by way of the shards."""
    *mine, dO = (ring.shard(x, group) for x in (*tensors, dO))
    return [ring.unshard(x, group, N=N) for x in results(ring_attention, mine, dO, group=group, causal=causal, N=N,
                                                       same_bits=True)]


def compare(group, case, device):
    """The distances to float32, and to one process's."""
    *tensors, dO = inputs(*case, device)
    got, how = on_ranks(group, tensors, dO, case[5], case[3]), dict(causal=case[5])
    if dist.get_rank(group):  # all have the same
        return [[0.0], [0.0]]
    exact = lambda *x, causal: torch.nn.functional.scaled_dot_product_attention(*x, is_causal=causal, enable_gqa=True)
    want = results(exact, [x.float() for x in tensors], dO.float(), **how), results(attention, tensors, dO,
        same_bits=True, **how)
    # dS sums to 0 over a row: what all keys have in common cancels in dQ, but not its rounding
    kept = (0, 3) if case[6] else range(4)
    return [distances([got[i] for i in kept], [x[i].float() for i in kept]) for x in want]


def mistakes(group):
    """Attributes of ring, and what stands there by mistake."""
    R, rank, pass_on, passed = dist.get_world_size(group), dist.get_rank(group), ring.Ring.pass_on, []
    attend, attend_backward = ring.attend, ring.attend_backward

    def contiguous(x, group, **_):
        all = [torch.empty_like(x) for _ in range(R)]
        dist.all_gather(all, x.contiguous(), group=group)
        return torch.cat(all, 2)

    def last_hop_forgotten(self, x, rows, tag):
        passed.append(tag)
        return pass_on(self, x, rows, tag) if tag == 0 or passed.count(1) % (R - 1) else lambda: x

    def too_early(self, *asked):
        return (lambda came: lambda: torch.zeros_like(came))(pass_on(self, *asked)())

    def of_the_part(dO, Q, K, V, _, O, L, causal, *rest):
        return attend_backward(dO, Q, K, V, None, O, attend(Q, K, V, None, causal, *rest)[1], causal, *rest)

    def exp_of_logs(O, L, first, part, logs, path):
        O, L = O[:, :, first:], L[:, :, first:]
        a, b = L.exp(), logs.exp()
        O.copy_((O * a[..., None] + part * b[..., None]) / (a + b)[..., None]), L.copy_((a + b).log())

    no_mask = lambda function, at: lambda *asked: function(*asked[:at], False, *asked[at + 1 :])
    return {
        "contiguous": {"shard": lambda x, group: x.chunk(R, 2)[rank], "unshard": contiguous},
        "no denominators": {"merge": lambda O, L, first, part, logs, path: O[:, :, first:].lerp_(part.to(O), 0.5)},
        "exp without a maximum": {"merge": exp_of_logs},
        "dK and dV stay": {"Ring.pass_on": lambda self, x, rows,
                           tag: (lambda: x) if tag else pass_on(self, x, rows, tag)},
        "last hop forgotten": {"Ring.pass_on": last_hop_forgotten},
        "read too early": {"Ring.pass_on": too_early},
        "L of the part": {"attend_backward": of_the_part},
        "no mask at home": {"attend": no_mask(attend, 4), "attend_backward": no_mask(attend_backward, 7)},
        "sees what is later": {"Ring.visible": lambda *_, **__: (slice(None), [slice(None)])},
    }


def planted(group, device):
    for name, instead in mistakes(group).items():
        patches = [mock.patch(f"flash_workbook.ring.{at}", function) for at, function in instead.items()]
        [patch.start() for patch in patches]
        yield name, compare(group, CASES[8 if "maximum" in name else 0], device)[0]
        [patch.stop() for patch in patches]


def order(group, device):
    """What this rank did in a forward and backward pass, and the bytes that it sent."""
    happened, pass_on, sent = [], ring.Ring.pass_on, 0

    def passes(self, x, rows, tag):
        nonlocal sent
        sent, arrived = sent + x.nbytes, pass_on(self, x, rows, tag)
        happened.append(f"send{tag}")
        return lambda: (happened.append(f"wait{tag}"), arrived())[1]

    product = lambda function: lambda *asked: (happened.append("product"), function(*asked))[1]
    with (mock.patch.multiple(ring, attend=product(ring.attend), attend_backward=product(ring.attend_backward)),
          mock.patch.object(ring.Ring, "pass_on", passes)):
        compare(group, CASES[1], device)
    return happened, sent


def raised(function):
    try:
        function()
    except Exception as error:
        return str(error)
    return ""


def contract(group, device):
    R, rank = dist.get_world_size(group), dist.get_rank(group)
    q, k, wide = (torch.randn(1, h, 9, D, device=device).bfloat16() for h, D in ((2, 64), (1, 64), (2, 32)))
    call = lambda q=q, k=k, **how: ring_attention(q, k, k, **{"group": group, **how})
    leaf = q.clone().requires_grad_()
    once = lambda: torch.autograd.grad(call(leaf).sum(), leaf, create_graph=True)[0].sum().backward()
    # on one rank: to import what compiles costs each process seconds
    compiled = lambda **how: torch._dynamo.reset() or torch.compile(lambda q, k: 2 * call(q + q, k), backend="eager",
                                                                    **how)(q, k)
    tokens, part = torch.arange(7 * R + 1, device=device), dist.new_group(list(range(1, R)) or [0])
    with torch.autocast(device.type, torch.bfloat16):
        mixed = [x.dtype for x in results(call, [x.float() for x in (q, k)], q.float())] == [torch.bfloat16,
            torch.float32, torch.float32]
    forms, kept = [], ring.attend_backward  # whether each call was asked for the same bits
    with mock.patch("flash_workbook.ring.attend_backward", lambda *asked: (forms.append(asked[-2]), kept(*asked))[1]):
        [results(call, [q, k], q, same_bits=bits) for bits in (True, False)]
    some = dist.get_rank(part) < 0 or max(sum(compare(part, CASES[3], device), [])) <= LIMIT
    any_queries = distances([call(q[:, :, : 3 + rank], causal=False)],
                            [call(causal=False)[:, :, : 3 + rank].float()])[0] <= LIMIT
    dist.broadcast(only := k[:, :, :1].contiguous(), 0, group=group)
    right = {
        "no keys of its own": torch.equal(call(k=k[:, :, : int(rank == 0)], N=1, causal=False), only.expand(-1, 2, 9,
            -1)),
        "strides": torch.equal(call(q.mT.contiguous().mT), call()),
        "compiled": R > 1 or torch.equal(compiled(), 2 * call(q + q)), "autocast": mixed,
        "shard": torch.equal(ring.shard(tokens, group, 0),
                             torch.cat([tokens.tensor_split(2 * R)[i] for i in (rank, -1 - rank)])),
        "unshard": torch.equal(ring.unshard(ring.shard(tokens, group, 0), group, 0, len(tokens)), tokens),
        "a group of some": some,
        "scale": torch.equal(call(scale=0.25), call(2 * q)), "lib": torch.equal(call(lib=library()), call()),
        "any queries": any_queries,
        "same_bits": forms == sorted(forms)[::-1] and 2 * sum(forms) == len(forms) > 1,
        "any head_dim without gradients": call(wide, wide).isfinite().all().item(),
    }
    refused = {  # what is said, and what must be in it
        "gradients of 32": (raised(lambda: call(wide.clone().requires_grad_(), wide)), R > 1 and "head_dim = 32"),
        "twice": (raised(once), "second derivatives"),
        "no group": (raised(lambda: call(group=None)), "group: expected a torch.distributed process group"),
        "fullgraph": (raised(lambda: compiled(fullgraph=True)) if R == 1 else "", R == 1 and "ring_attention"),
        "float16": (raised(lambda: call(q.half())), "bfloat16"),
        "unlike lengths": (raised(lambda: call(q[:, :, 1:])),
                           "as many queries as keys on each rank, got 8 and 9"),
        "N": (raised(lambda: call(N=9 * R + 2)), "9 keys, but shard() gives this rank"),
        "N of ranks": (raised(lambda: call(*(x[:, :, : 7 - rank] for x in (q, k)))),
                       R > 1 and f"rows of one rank) {7 * R} on rank 0 but {6 * R}"),
        "heads": (raised(lambda: call(q[:, :, :3] if rank else q[:, :, :3].repeat(1, 2, 1, 1), k[:, :, :3])),
                  R > 1 and "heads of Q 4 on rank 0 but 2 on rank 1"),
        "no member": (raised(lambda: call(group=part)) if R > 1 > rank else "", R > 1 > rank and "not a member"),
    }
    unsaid = [(name, said) for name, (said, text) in refused.items() if (text or "") not in said or (said and not text)]
    return [name for name, is_right in right.items() if not is_right] + unsaid


def run(rank, most, port, folder):
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port)
    for R in range(rank + 1, most + 1):
        dist.init_process_group("nccl" if on_gpu else "gloo", store=dist.PrefixStore(str(R), store), rank=rank,
                                world_size=R)
        group = dist.group.WORLD
        told = {"far": {str(case): compare(group, case, device) for case in CASES},
                "planted": dict(planted(group, device)) if R > 1 else {}}
        told |= {"order": order(group, device), "wrong": contract(group, device)}
        with open(f"{folder}/told{R}.{rank}", "w") as file:
            json.dump(told, file)
        dist.destroy_process_group()
    os._exit(0)  # gloo's threads abort one exit in some ("terminate called without an active exception", PyTorch 2.11)


def seconds(processes):
    """Of a processor, that they and what they started have had."""
    spent = 0
    for process in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            fields = open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()
            spent += sum(map(int, fields[11:13])) if int(fields[3]) in processes else 0  # its session
    return spent / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where four processes, or as many as there are GPUs, have told of each number of ranks."""
    most, folder = min(4, torch.cuda.device_count()) if on_gpu else 4, tmp_path_factory.mktemp("ring")
    if library().lib.wb_device_capability() != 9:
        pytest.skip("has a backward pass only on sm_90")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0"}
    meeting = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    start = lambda ranks: [sys.executable, __file__, *map(str, (folder, meeting.port, most, *ranks))]
    shares = [[rank] for rank in range(most)] if on_gpu else [range(most)]  # who has CUDA cannot be forked
    all = [subprocess.Popen(start(ranks), env=environment, start_new_session=True) for ranks in shares]
    try:
        spent, since = -1, time.monotonic()
        while any(one.poll() is None for one in all) and not any(one.poll() for one in all):
            time.sleep(0.3)
            if (now := seconds([one.pid for one in all])) > spent + 2:
                spent, since = now, time.monotonic()
            assert time.monotonic() < since + 60, "the ranks wait for each other"
    finally:
        for one in all:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
        codes = [one.wait() for one in all]
    assert not any(codes), "".join(file.read_text() for file in folder.glob("said*"))
    return folder


@pytest.fixture(scope="module", params=[1, 2, 3, 4])
def told(request, folder):
    R = request.param
    if on_gpu and torch.cuda.device_count() < R:
        pytest.skip(f"needs {R} GPUs")
    return [json.load(open(folder / f"told{R}.{rank}")) for rank in range(R)]


def test_right(told):
    for case, (to_float32, to_one_process) in told[0]["far"].items():
        assert max(to_float32) <= LIMIT and max(to_one_process) <= (LIMIT if len(told) > 1 else 0), (case, to_float32,
            to_one_process)


def test_mistakes_are_seen(told):
    for name, far in told[0]["planted"].items():
        assert not max(far) <= LIMIT, (name, far)


def test_travels_under_the_products(told):
    R, (B, _, Hkv, N, D, *_) = len(told), CASES[1]
    there = ["send0", "product", "wait0"] * (R - 1) + ["product"]
    back = ["send0", "product", "wait0"] + ["send0", "product", "wait1", "send1", "wait0"] * (R - 2) + ["product",
        "wait1", "send1", "wait1"]
    if R > 1:
        back.remove("wait1")  # the first of them that travel meet none
    for rank in told:
        happened, sent = rank["order"]
        assert happened == there + (back if R > 1 else ["product"])
        assert sent == 2 * B * Hkv * N // R * D * (R - 1) * (2 * 2 + 4)


def test_contract(told):
    assert not any(rank["wrong"] for rank in told), [rank["wrong"] for rank in told]


if __name__ == "__main__":
    folder, port, most, *ranks = sys.argv[1], *map(int, sys.argv[2:])
    for rank in ranks:  # PyTorch is imported once
        if len(ranks) == 1 or os.fork() == 0:
            os.dup2(os.open(f"{folder}/said{rank}", os.O_WRONLY | os.O_CREAT), 2)
            run(rank, most, port, folder)
    for _ in ranks:
        if os.wait()[1]:
            sys.exit("a rank has failed")  # the others may wait for it
