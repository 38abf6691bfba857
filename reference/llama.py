#!/usr/bin/env python3
"""flash_workbook in transformers' own LlamaForCausalLM, small and with random weights: as it is, compiled whole, captured in a CUDA graph, under autocast.

    make lib && python3 reference/llama.py [WAY...] > llama.tsv        wants PyTorch and transformers 5; downloads nothing

WAY: plain, compiled, autocast, and on a GPU captured and compiled_with_graphs; all of them unless named.

Each way trains the same weights on the workbook's lessons, one byte a token, with attention by flash_workbook (`key`), by transformers' `eager` and by
`sdpa`. The truth is `eager` in float32. A distance is |losses - truth| / |truth|; ours may be at most twice as far as `eager` is in the same way:
gpt_oss.py says why. What each way takes, forward and backward, is timed in the same run.

Printed: lines that start with # say where the numbers come from, then what, impl, at, value, limit, verdict. Exit status 1: a limit was not kept. On the
CPU layer (no GPU, or BACKEND=cpu) sizes are smaller, nothing is captured and nothing is timed.
"""
import functools, glob, os, statistics, sys

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch, transformers
    from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM
    from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask
    import flash_workbook, torch_attention
except ImportError as error:
    sys.exit(f"llama.py wants PyTorch and transformers 5 or later, and here: {error}.")

on_gpu = torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu"
device = "cuda" if on_gpu else "cpu"
steps = 20  # Fisher: with so many numbers a ratio of 2 comes by chance once in 600
batch, length = (4, 1024) if on_gpu else (1, 80)
sizes = dict(hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4, intermediate_size=2816) if on_gpu else dict(
    hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=256)
transformers.logging.set_verbosity_error()
failed = False


def attention(module, query, key, value, mask, scaling, dropout=0.0, **_):
    """Called by the model. query [B, Hq, N, D], key and value [B, Hkv, N, D], as views of other layouts."""
    if mask is not None or dropout:
        raise ValueError("this is for training without padding and dropout")
    return flash_workbook.attention(query, key, value, scale=scaling).transpose(1, 2).contiguous(), None


AttentionInterface.register("key", attention)
AttentionMaskInterface.register("key", flash_attention_mask)  # no mask at all, unless there is padding


def model_of(impl, dtype):
    torch.manual_seed(0)
    # Larger than usual, 0.02: then the softmax has peaks.
    config = LlamaConfig(vocab_size=256, head_dim=64, **sizes, initializer_range=0.04, attn_implementation=impl)
    model = LlamaForCausalLM(config).to(device)  # the same numbers for all, then rounded
    return model.to(dtype)


text = b"".join(open(lesson, "rb").read() for lesson in sorted(glob.glob("problems/[0-9][0-9]/README.md")))
tokens = torch.tensor(list(text)[: steps * batch * length], device=device).view(steps, batch, length)


# ---------------------------------------------------------------------------------------------------------------- the ways
# Each makes, of a model and the place where its tokens will lie, a function that leaves gradients and returns the loss.


def plain(model, some, call=None):
    def step():
        model.zero_grad()
        loss = (model if call is None else call)(some, labels=some, use_cache=False).loss
        loss.backward()
        return loss.detach()

    return step


def compiled(model, some, mode=None):
    torch._dynamo.reset()
    return plain(model, some, torch.compile(model, fullgraph=True, mode=mode))


def captured(model, some):
    step = plain(model, some)
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):  # what is made once, as cuBLAS's memory, is made before
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    return lambda: graph.replay() or loss


def autocast(model, some):
    step = plain(model, some)

    def under():
        with torch.autocast(device, torch.bfloat16):
            return step()

    return under


WAYS = {"plain": plain, "compiled": compiled, "autocast": autocast}
if on_gpu:
    WAYS |= {"captured": captured, "compiled_with_graphs": functools.partial(compiled, mode="reduce-overhead")}
if not set(sys.argv[1:]) <= set(WAYS):
    sys.exit(f"llama.py: the ways are {', '.join(WAYS)}, and here: {' '.join(sys.argv[1:])}")


def train(impl, way, dtype):
    """The losses of AdamW's steps, and the median of what forward and backward took, in ms."""
    model, some = model_of(impl, dtype), tokens[0].clone()
    step = WAYS[way](model, some)
    # AdamW keeps the weights in float32, and the model gets them rounded: steps too small for bf16 are not lost.
    weights = [p.detach().float().clone() for p in model.parameters()]
    optimizer, losses, ms = torch.optim.AdamW(weights, lr=3e-4), [], []
    for now in tokens:
        some.copy_(now)
        if on_gpu:
            torch.cuda.synchronize()
            start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
        loss = step()
        if on_gpu:
            stop.record()
            torch.cuda.synchronize()
            ms.append(start.elapsed_time(stop))
        losses.append(loss.item())
        for weight, p in zip(weights, model.parameters()):
            weight.grad = p.grad.float()
        optimizer.step()
        with torch.no_grad():
            for weight, p in zip(weights, model.parameters()):
                p.copy_(weight)
    return torch.tensor(losses, dtype=torch.float64), statistics.median(ms[5:]) if ms else None


def row(what, impl, at, value, limit=None, verdict="-"):
    global failed
    failed |= verdict == "TOO FAR"
    print(what, impl, at, f"{value:.5g}", "-" if limit is None else f"{limit:.5g}", verdict, sep="\t", flush=True)


def main():
    torch_attention.heading(on_gpu, f"transformers {transformers.__version__}")
    print(f"# model: LlamaForCausalLM, {sizes}, head_dim 64, {steps} steps of {batch} x {length} tokens")
    print(f"# ms: forward and backward, median of the last {steps - 5}" if on_gpu else "# no times: the CPU layer's mean nothing")
    print("what\timpl\tat\tvalue\tlimit\tverdict")
    truth, _ = train("eager", "plain", torch.float32)
    far = lambda losses: ((losses - truth).norm() / truth.norm()).item()
    eagers = {}
    for way in sys.argv[1:] or WAYS:
        dtype = torch.float32 if way == "autocast" else torch.bfloat16
        for impl in ("eager", "sdpa", "key"):
            if impl == "eager" and way == "compiled_with_graphs":  # compiled for its times' sake alone; its losses would be those of `compiled`
                continue
            try:
                losses, ms = train(impl, way, dtype)
            except Exception as error:
                if impl == "key":
                    raise
                print(f"# {way}, {impl}: {' '.join(str(error).split())[:150]}", flush=True)  # theirs: said, not hidden
                continue
            if impl == "eager":
                eagers[way] = far(losses)
            # Where eager cannot be captured, the way that is nearest to this one.
            nearest = [eagers[w] for w in (way, "compiled", "plain") if w in eagers]
            limit = 2 * nearest[0] if impl == "key" and nearest else None
            row("distance", impl, way, far(losses), limit, "-" if limit is None else "ok" if far(losses) <= limit else "TOO FAR")
            if ms is not None:
                row("forward_backward_ms", impl, way, ms)
    for step, loss in enumerate(truth.tolist()):
        row("loss", "float32", step, loss)
    sys.exit(failed)


if __name__ == "__main__":
    main()
