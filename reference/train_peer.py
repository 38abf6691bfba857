"""train_peer.py - the model of train/ in PyTorch, on a GPU: tokens/s of training steps, as a table on stdout.

    python3 reference/train_peer.py

The same layers, sizes, batch and optimizer (train/record.sh, `large`): float32 parameters, products in bf16 (autocast),
torch.compile, fused AdamW. Attention is FlexAttention with the same mask, or scaled_dot_product_attention with it as a
tensor of booleans.
"""
import math
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

LAYERS, WIDTH, HQ, HKV, D, HIDDEN, WINDOW, SINKS, T, BATCH = 12, 768, 12, 4, 64, 2048, 128, 4, 1024, 16
GROUPS, STEPS = 5, 12  # of timed steps; how many in each


def visible(b, h, i, j):
    return (j <= i) & ((j > i - WINDOW) | (j < SINKS))


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return F.rms_norm(x, (WIDTH,), self.g, 1e-5)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Norm(), Norm()
        self.qkv = nn.Linear(WIDTH, (HQ + 2 * HKV) * D, bias=False)
        self.out = nn.Linear(HQ * D, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, cosine, sine, attend):
        B = x.shape[0]
        qkv = self.qkv(self.norm1(x)).view(B, T, HQ + 2 * HKV, D).transpose(1, 2)
        turned = qkv[:, :HQ + HKV]
        a, b = turned[..., :D // 2], turned[..., D // 2:]
        turned = torch.cat((a * cosine - b * sine, a * sine + b * cosine), -1).to(qkv.dtype)
        o = attend(turned[:, :HQ].contiguous(), turned[:, HQ:].contiguous(), qkv[:, HQ + HKV:].contiguous())
        x = x + self.out(o.transpose(1, 2).reshape(B, T, HQ * D))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        angle = torch.arange(T)[:, None] * 10000 ** (-2.0 * torch.arange(D // 2) / D)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def forward(self, text, target, attend):
        x = self.embedding(text)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine, attend)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.float().view(-1, 256), target.view(-1))


def measure(name, attend):
    torch.manual_seed(1)
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    text = torch.randint(256, (BATCH, T + 1), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(text[:, :-1], text[:, 1:].contiguous(), attend)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    times = []
    for _ in range(GROUPS):  # the loss is read every step in train.c: here only at the end, which favours PyTorch
        begin = time.perf_counter()
        for _ in range(STEPS):
            loss = step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / STEPS)
    times.sort()
    parameters = sum(p.numel() for p in model.parameters())
    memory = torch.cuda.max_memory_allocated() / 2**30
    median = times[GROUPS // 2]
    print(name, parameters, BATCH * T, f"{1000 * median:.2f}", f"{BATCH * T / median:.0f}", f"{memory:.1f}",
          f"{loss.item():.3f}", sep="\t", flush=True)


def main():
    if not torch.cuda.is_available():
        sys.exit("train_peer.py: there is no GPU that PyTorch can use")
    torch.set_float32_matmul_precision("high")
    print(f"# gpu: {torch.cuda.get_device_name()}\n# torch: {torch.__version__}")
    print("attention\tparameters\ttokens\tms\ttokens_per_second\tGiB\tloss")
    scale = 1 / math.sqrt(D)
    blocks = create_block_mask(visible, None, None, T, T, device="cuda")
    mask = visible(0, 0, torch.arange(T, device="cuda")[:, None], torch.arange(T, device="cuda")[None, :])

    def flex(q, k, v):
        return flex_attention(q, k, v, block_mask=blocks, scale=scale, enable_gqa=True)

    def sdpa(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)

    failed = 0
    for name, attend in (("flex", flex), ("sdpa", sdpa)):
        try:
            measure(name, attend)
        except Exception as reason:  # the other one may still do
            failed += 1
            print(f"# {name} failed: {str(reason).splitlines()[0]}", flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    sys.exit(failed == 2)


if __name__ == "__main__":
    main()
