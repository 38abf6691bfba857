"""ring_attention(): one sequence on the ranks of a torch.distributed process group, each of which attends for its own
queries while keys and values travel.

Zigzag: of 2R chunks of the sequence rank r has chunk r and behind it chunk 2R-1-r, so that under a causal mask every
rank has as much to do. The first N % 2R chunks have a row more than the others. shard(x, group, dim=1) cuts tokens [B,
N] alike, and shard(torch.arange(N), group, dim=0) says which positions a rank has, for rotary embeddings.
"""
from typing import Optional

import torch
import torch.distributed as dist
from torch import Tensor

from .dense import backward as attend_backward, forward as attend, taken, wants_gradients, with_zeros
from .library import library, operators, refuse


class Ring:
    """Which rank has which of N rows; N None: all have n."""

    def __init__(self, group, N, n=None):
        if group is None:
            raise ValueError("group: expected a torch.distributed process group, got None; "
                             "torch.distributed.group.WORLD has all ranks")
        self.group, self.rank, self.ranks = group, dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("group: this process is not a member of the group")
        N = self.ranks * n if N is None else N
        self.chunks = [N // (2 * self.ranks) + (i < N % (2 * self.ranks)) for i in range(2 * self.ranks)]
        self.halves = [(self.chunks[r], self.chunks[-1 - r]) for r in range(self.ranks)]
        self.rows = [sum(halves) for halves in self.halves]

    def owner(self, step):
        """Whose keys are here then. What is passed on goes to the next rank."""
        return (self.rank - step) % self.ranks

    def visible(self, step, causal, tiled=False):
        """Which of the queries see which of the keys that are here then: a slice, and a list of slices. Beyond step 0,
        which has the mask, it is all of them. tiled: with as many queries as keys, or a multiple, as far as the chunks
        are of one length."""
        owner, first = self.owner(step), self.halves[self.owner(step)][0]
        if step == 0 or not causal:
            return slice(None), [slice(None)]
        if owner < self.rank:  # its second chunk lies behind all of these queries
            return slice(None), [slice(first)]
        late = slice(self.halves[self.rank][0], None)  # the first chunk of queries lies before all of its keys
        return late, [slice(first), slice(first, None)] if tiled else [slice(None)]

    def pass_on(self, x, rows, tag):
        """Begins to send x [.., n, D] to the next rank and to receive as much, but `rows` rows, from the one before.
        The function that comes back waits, on NCCL's side for the stream alone, and returns what was received."""
        came = x.new_empty(*x.shape[:-2], rows, x.shape[-1])
        next, before = (dist.get_global_rank(self.group, (self.rank + way) % self.ranks) for way in (1, -1))
        ends = [(dist.isend, x, next), (dist.irecv, came, before)]
        ends = [dist.P2POp(op, tensor, peer, self.group, tag) for op, tensor, peer in ends if tensor.numel()]
        works = dist.batch_isend_irecv(ends) if ends else []

        def arrived(sent=x):  # which lives until then
            for work in works:
                work.wait()
            return came

        return arrived


def merge(O, L, first, part, logs, path):
    """O and L over the keys seen so far take in attention over other keys, in the rows from `first` on: each weighs as
    much as its denominator. In float32, until O is rounded to what it is."""
    operators.add_share(O, part, None, L, logs, first, path)


def add(total, first, shares, path):
    """One share or two to the rows from `first` on, in float32, until the total is rounded to what it is."""
    operators.add_share(total, shares[0], shares[1] if len(shares) > 1 else None, None, None, first, path)


def summed(x, ring):
    """What more is added to: with two ranks only once, so that it is rounded once in any case."""
    return x if ring.ranks == 2 else x.float()


def attend_round(Q, K, V, ring, causal, scale, path):
    O = L = None
    here = torch.stack([K, V])
    for step in range(ring.ranks):
        if step + 1 < ring.ranks:
            arrived = ring.pass_on(here, ring.rows[ring.owner(step + 1)], 0)  # under the products
            if Q.is_cuda:  # 5 us: a product that had every multiprocessor first would keep the message out till its end
                torch.cuda._sleep(10_000)
        q, (k,) = ring.visible(step, causal)
        some, (keys, values) = Q[:, :, q], here[..., k, :]
        if some.numel() and keys.numel():
            part, logs = attend(some, keys, values, None, causal and step == 0, 0, 0, scale, False, path)
            if O is None:  # of the first keys all queries see some
                O, L = part, logs
            else:
                O = summed(O, ring)
                merge(O, L, q.start or 0, part, logs, path)
        if step + 1 < ring.ranks:
            here = arrived()
    if O is None:
        return torch.zeros_like(Q), Q.new_full(Q.shape[:3], -torch.inf, dtype=torch.float32)
    return O.to(Q.dtype), L


def attend_round_backward(dO, Q, K, V, O, L, ring, causal, scale, same_bits, path):
    """With O and L of whole rows each call's P is exp(S - L), so its gradients are shares of the whole. Each call
    rounds its shares to bf16; they are added in float32. Those of K and V travel one step behind the chunk that they
    belong to and end where it began; what is found there at first waits for them."""
    dQ, here, known = None, torch.stack([K, V]), {None: (dO, Q, O, L)}
    for step in range(ring.ranks):
        rows = ring.rows[ring.owner(step + 1)]
        if step + 1 < ring.ranks:
            arrived = ring.pass_on(here, rows, 0)
        q, ks = ring.visible(step, causal, tiled=True)
        if q.start not in known:  # the same rows in each step
            *some, logs = (x[:, :, q] for x in (dO, Q, O, L))
            known[q.start] = *operators.heads_first(some, path), logs.contiguous()
        some, dqs, shares = known[q.start], [], []
        for k in ks:
            keys, values = here[..., k, :]
            if some[0].numel() and keys.numel():
                how = causal and step == 0, 0, 0, scale, same_bits, path
                dq, *share = attend_backward(*some[:2], keys, values, None, *some[2:], *how)
                dqs.append(dq), shares.append((k.start or 0, share))
        if dQ is None and dqs:
            (dQ,) = dqs
        elif dqs:
            dQ = summed(dQ, ring)
            add(dQ, q.start or 0, dqs, path)
        if step == 0:
            own = shares[0][1] if shares else torch.zeros_like(here)
        else:
            found = grads_arrived() if step > 1 else torch.zeros_like(here, dtype=torch.float32)
            for first, share in shares:
                for total, part in zip(found, share):
                    add(total, first, [part], path)
            grads_arrived = ring.pass_on(found, rows, 1)  # under the next step's products; the last time home
        if step + 1 < ring.ranks:
            here = arrived()
    if ring.ranks > 1:
        own = [x.add_(more) for x, more in zip(own, grads_arrived())]
    return torch.zeros_like(Q) if dQ is None else dQ.to(Q.dtype), *own


class RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, Q, K, V, ring, causal, scale, same_bits, path):
        Q = Q.contiguous()
        O, L = attend_round(Q, K, V, ring, causal, scale, path)
        ctx.save_for_backward(Q, K, V, O, L)
        ctx.how = ring, causal, scale, same_bits, path
        return O

    @staticmethod
    def backward(ctx, dO):
        if torch.is_grad_enabled():
            refuse("ring_attention has no second derivatives, which create_graph=True requires")
        return *attend_round_backward(dO, *ctx.saved_tensors, *ctx.how), *[None] * 5


agreed = set()


def agree(ring, wrong, rows, **asked):
    """An error on every rank if the ranks do not ask the same, or one of them asks what is wrong."""
    key = ring.group.group_name, ring.rank, ring.ranks, rows, *asked.values()
    if key in agreed and dist.get_debug_level() != dist.DebugLevel.DETAIL:
        return
    answers = [None] * ring.ranks
    dist.all_gather_object(answers, (wrong, asked), group=ring.group)
    for rank, (says, theirs) in enumerate(answers):
        if says:
            raise ValueError(f"ring_attention, rank {rank}: {says}")
        if unlike := [f"{name} {value} on rank 0 but {theirs[name]} on rank {rank}"
                      for name, value in answers[0][1].items() if value != theirs[name]]:
            raise ValueError(f"ring_attention: all ranks must pass the same arguments, but got {', '.join(unlike)}")
    agreed.add(key)


@torch.compiler.disable
def ring_attention(Q: Tensor, K: Tensor, V: Tensor, *, group, causal=True, N: Optional[int] = None,
                   scale: Optional[float] = None, same_bits: Optional[bool] = None, lib=None) -> Tensor:
    """This rank's rows of attention over the N rows that the ranks of `group` have together, cut as shard() does. Q [B,
    Hq, n, D], K and V [B, Hkv, n, D]: bf16, or float32 under torch.autocast. It wants NCCL for tensors on GPUs, gloo
    for the CPU layer.

    N: unless given, all ranks have equally many rows. causal=False: every query of this rank, of which there may be any
    number, sees all N keys; where a rank has a query more than the keys that it is sent, the backward pass of that step
    is done for twice as many queries. scale, same_bits: as attention() has them. Gradients want D 64 or 128 on sm_90 as
    soon as there are two ranks.

    K and V travel in bf16, R - 1 times; in the backward pass also dK and dV in float32, as often. What is rounded to
    bf16 beyond what attention() rounds: O of each call before it is merged, and dQ, dK and dV of each call before they
    are added. The merge and the sums are in float32.

    All ranks must call it in the same order, as with a collective. A rank's first call with a shape compares what all
    ask for, and waits for the GPU to do so; later ones with that shape do not, unless TORCH_DISTRIBUTED_DEBUG=DETAIL is
    in the environment. torch.compile leaves it as a call between two graphs; with fullgraph=True it refuses. It has no
    second derivatives. Returns O [B, Hq, n, Dv] in bf16. Errors are attention()'s; what ranks ask for that differs is a
    ValueError on each. Sources: Ring Attention (Liu and others, 2023); the cut in 2R chunks: Llama 3 (2024).
    """
    Q, K, V = taken("ring_attention", Q, K, V, None)
    scale, columns = Q.shape[3] ** -0.5 if scale is None else scale, V.shape[3]
    Q, K, V = (with_zeros(x, Q, V) for x in (Q, K, V))
    (B, Hq, Nq, D), (_, Hkv, n, _) = Q.shape, K.shape
    if causal and Nq != n:
        raise ValueError(f"ring_attention: causal requires as many queries as keys on each rank, got {Nq} and "
                         f"{n}")
    ring = Ring(group, N, n)
    path, gradients = lib.path if lib else "", wants_gradients(Q, K, V)
    if gradients and (ring.ranks > 1 or not causal) and (D not in (64, 128)
                                                         or library(path).lib.wb_device_capability() != 9):
        refuse(f"ring_attention has gradients only for head_dim 64 and 128 on sm_90, got head_dim = {D}")
    rows, N = ring.rows[ring.rank], sum(ring.rows)
    wrong = n != rows and f"{n} keys, but shard() gives this rank {rows} of N = {N}"
    asked = {"batch": B, "heads of Q": Hq, "heads of K": Hkv, "head_dim": D, "causal": causal, "scale": scale,
             "gradients": gradients}
    agree(ring, wrong, (Nq, n), **{"N (default: R times the rows of one rank)": N}, **asked)
    if same_bits is None:
        same_bits = torch.are_deterministic_algorithms_enabled()
    return RingAttention.apply(Q, K, V, ring, causal, scale, same_bits, path)[..., :columns]


def shard(x: Tensor, group, dim=2) -> Tensor:
    """This rank's rows of x, which is whole: chunk r along dim, followed by chunk 2R-1-r."""
    ring = Ring(group, x.shape[dim])
    pieces = x.split(ring.chunks, dim)
    return torch.cat([pieces[ring.rank], pieces[-1 - ring.rank]], dim)


@torch.no_grad()
def unshard(x: Tensor, group, dim=2, N: Optional[int] = None) -> Tensor:
    """The whole on every rank, of what shard() cut; has no gradient. N: unless given, all ranks have equally many
    rows."""
    ring = Ring(group, N, x.shape[dim])
    if x.shape[dim] != ring.rows[ring.rank]:
        raise ValueError(f"unshard: {x.shape[dim]} rows, but shard() gives rank {ring.rank} {ring.rows[ring.rank]} "
                         f"rows of N = {sum(ring.rows)}")
    mine = x.movedim(dim, 0).contiguous()
    padded = torch.cat([mine, mine.new_zeros(max(ring.rows) - len(mine), *mine.shape[1:])])
    all = [torch.empty_like(padded) for _ in ring.rows]
    dist.all_gather(all, padded, group=ring.group)
    pieces = [piece[:rows].split(halves) for piece, rows, halves in zip(all, ring.rows, ring.halves)]
    return torch.cat([piece[0] for piece in pieces] + [piece[1] for piece in reversed(pieces)]).movedim(0,
        dim).contiguous()
