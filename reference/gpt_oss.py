#!/usr/bin/env python3
"""Problems 11 and 12 as the attention of gpt-oss: in transformers' own GptOssForCausalLM, small and with random
weights.

    make lib && python3 reference/gpt_oss.py > gpt_oss.tsv    wants PyTorch and transformers 5; downloads nothing
    make gpt-oss                                              the same with your functions, and a chart

reference/README.md says what is compared: our attention (`key`, or `yours`) and `eager`, both in bf16, with the truth,
`eager` in float32. A distance is |x - truth| / |truth|; over the prompts and the layers with such a parameter, the root
of the mean square.

Ours may be at most twice as far from the truth as `eager` in bf16 is. Attention that keeps scores and sums in float32
errs no more than one that rounds them; were both errors alike and independent, the squared ratio of two distances over
n numbers would follow Fisher's F(n, n), which exceeds 4 once in 600 for the 20 losses, and less than once in 10^7 for n
of 64 and more. Attentions with a known mistake must be further off than twice, in a window of 16 keys, where one more
or less shows.

Printed: lines that start with # say where the numbers come from, then what, impl, at, value, limit, verdict. Exit
status 1: a limit was not kept, or a mistake was not seen. On the CPU layer (no GPU, or BACKEND=cpu) sizes are smaller,
and nothing is timed.
"""
import glob, os, statistics, sys

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch, transformers
    from transformers import AttentionInterface, AutoModelForCausalLM, GptOssConfig
    from transformers.masking_utils import AttentionMaskInterface
    from timing import FLUSH_BYTES, heading, times, told
except ImportError as error:
    sys.exit(f"gpt_oss.py needs PyTorch and transformers 5 or later: {error}.")

if int(transformers.__version__.split(".")[0]) < 5:
    sys.exit(f"gpt_oss.py needs transformers 5 or later, found {transformers.__version__}.")
backend = os.environ.get("BACKEND") or ("cuda" if torch.cuda.is_available() else "cpu")
if backend == "cuda" and not torch.cuda.is_available():
    sys.exit("gpt_oss.py with BACKEND=cuda needs a GPU that PyTorch can use; there is none.")
path = sys.argv[1] if len(sys.argv) > 1 else f"build/{backend}/lib/libworkbook.so"
ours = "yours" if "/problems/" in path else "key"
os.environ["WB_LIBRARY"] = path
try:
    import flash_workbook.transformers
    flash_workbook.library().lib.flash_sink_logits_backward
except (ImportError, OSError, AttributeError) as error:
    sys.exit(f"gpt_oss.py needs problems 11 and 12 in {path}, which `make lib BACKEND={backend}` builds: {error}.")
transformers.logging.set_verbosity_error()


# ------------------------ our attention


def attention(module, query, key, value, mask, *args, **how):
    """Called by the model: attn_implementation="workbook" for as many queries as keys, as 11 wants them. With a cache
    they are the last n of N positions: rows of zeros go before, and away again."""
    before = key.shape[2] - query.shape[2]
    query = torch.nn.functional.pad(query, (0, 0, before, 0))
    return flash_workbook.transformers.attend(module, query, key, value, mask, *args, **how)[0][:, before:], None


WRONG = {  # the same function, given something else
    "no_sink": lambda a: {"s_aux": a["s_aux"] - torch.inf},
    "sink_scaled": lambda a: {"s_aux": a["s_aux"] * a["scaling"]},
    "next_heads_sink": lambda a: {"s_aux": a["s_aux"].roll(1)},
    "sink_gradient_negated": lambda a: {"s_aux": 2 * a["s_aux"].detach() - a["s_aux"]},
    "window_one_short": lambda a: {"sliding_window": a["sliding_window"] and a["sliding_window"] - 1},
    "window_one_long": lambda a: {"sliding_window": a["sliding_window"] and a["sliding_window"] + 1},
}


def register(name, function):
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, flash_workbook.transformers.mask)  # None: there is no padding


register(ours, attention)
for name, change in WRONG.items():
    register(name, lambda *tensors, change=change, **a: attention(*tensors, **{**a, **change(a)}))

# ------------------------ the model

small = backend == "cpu"
device, layers, window, prompt_length = backend, 4 if small else 8, 32 if small else 128, 160 if small else 1000
steps, batch, length, new_tokens = (20, 1, 160, 50) if small else (20, 4, 1024, 50)


def model_of(impl, dtype=torch.bfloat16, **other):
    # Each token goes to all experts: whom a router leaves out is a jump, which rounding decides differently in every
    # implementation.
    sizes = dict(vocab_size=256, hidden_size=512, num_hidden_layers=layers, num_attention_heads=8,
                 num_key_value_heads=2, head_dim=64,
                 sliding_window=window, num_local_experts=8, num_experts_per_tok=8, intermediate_size=256)
    # Larger than usual, 0.02: then the softmax has peaks, and every key counts.
    config = GptOssConfig(**{**sizes, **other}, initializer_range=0.04)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=impl).to(device)
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks, 3, 1)  # e^3: as much as twenty average keys
    return model


text = b"".join(open(lesson, "rb").read() for lesson in sorted(glob.glob("problems/[0-9][0-9]/README.md")))
tokens = torch.tensor(list(text), device=device)
prompts = tokens[: 4 * prompt_length].view(4, 1, prompt_length)
ratios, failed = [], False


def row(what, impl, at, value, limit=None, verdict="-"):
    global failed
    failed |= verdict in ("TOO FAR", "NOT SEEN")
    print(what, impl, at, f"{value:.5g}", "-" if limit is None else f"{limit:.5g}", verdict, sep="\t", flush=True)


def compare(impl, got, eager):
    for at in got:
        row("distance", "eager", at, eager[at])
        ratios.append(got[at] / eager[at])
        row("distance", impl, at, got[at], 2 * eager[at], "ok" if got[at] <= 2 * eager[at] else "TOO FAR")


def distance(x, truth):
    return ((x.double() - truth.double()).norm() / truth.double().norm()).item()


def logits_and_gradients(model, impl):
    """A dictionary of tensors for each prompt."""
    model.set_attn_implementation(impl)
    for prompt in prompts:
        model.zero_grad()
        out = model(prompt, labels=prompt, use_cache=False)
        out.loss.backward()
        yield {"logits": out.logits.detach(), **{name: p.grad for name, p in model.named_parameters()}}


def distances(got, truth, window):
    squares = {}
    for prompt, wanted in zip(got, truth):
        for name in prompt:
            kind = ".".join(part for part in name.removeprefix("model.").removeprefix("layers.").split(".")
                            if not part.isdigit())
            squares.setdefault(f"{kind},W={window}", []).append(distance(prompt[name], wanted[name]) ** 2)
    return {kind: statistics.mean(s) ** 0.5 for kind, s in squares.items()}


def train(model, impl):
    model.set_attn_implementation(impl)
    # AdamW keeps the weights in float32, and the model gets them rounded: steps too small for bf16 are not lost.
    weights = [p.detach().float() for p in model.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=3e-4)
    losses = []
    for step in range(steps):
        some = tokens[step * batch * length :][: batch * length].view(batch, length)
        model.zero_grad()
        loss = model(some, labels=some, use_cache=False).loss
        loss.backward()
        for weight, p in zip(weights, model.parameters()):
            weight.grad = p.grad.float()
        optimizer.step()
        with torch.no_grad():
            for weight, p in zip(weights, model.parameters()):
                p.copy_(weight)
        losses.append(loss.item())
    return torch.tensor(losses)


def generate(model, impl, truth):
    """The text, and how far the logits from which it was chosen are from the truth's for the same text, computed
    without a cache."""
    model.set_attn_implementation(impl)
    out = model.generate(prompts[0], max_new_tokens=new_tokens, do_sample=False, output_logits=True,
                         return_dict_in_generate=True)
    with torch.no_grad():
        want = truth(out.sequences, use_cache=False).logits[0, prompt_length - 1 : -1]
    return bytes(out.sequences[0, prompt_length:].tolist()), distance(torch.cat(out.logits), want)


# ------------------------ the times


def measure(at, N, **sizes):
    some = tokens[None, :N]
    for impl in (ours, "eager", "flex_attention", "flash_attention_4", "kernels-community/vllm-flash-attn3"):
        with told(f"{at} {impl}"):
            model = model_of("eager", **sizes)
            model.set_attn_implementation(impl)
            forward = lambda: model(some, labels=some, use_cache=False).loss
            ms = times(forward, 11)[0]
            torch.cuda.reset_peak_memory_stats()
            both = times(lambda: forward().backward(), 11)[0]
            row("forward_ms", impl, at, ms)
            row("forward_backward_ms", impl, at, both)
            row("peak_mib", impl, at, (torch.cuda.max_memory_allocated() - FLUSH_BYTES) / 2**20)
        model = None
        torch.cuda.empty_cache()


heading(backend == "cuda", f"transformers {transformers.__version__}")
print(f"# model: GptOssForCausalLM, hidden 512, {layers} layers, window {window} and full in turn, 8 heads over 2, D "
      f"64, 8 experts")
print("what\timpl\tat\tvalue\tlimit\tverdict")

for W in (16, window):
    model, truth = (model_of("eager", dtype, sliding_window=W) for dtype in (torch.bfloat16, torch.float32))
    truth.load_state_dict(model.state_dict())
    want = list(logits_and_gradients(truth, "eager"))
    eager = distances(logits_and_gradients(model, "eager"), want, W)
    compare(ours, distances(logits_and_gradients(model, ours), want, W), eager)
    for name in WRONG if W == 16 else ():
        got = distances(logits_and_gradients(model, name), want, W)
        worst = max(got, key=lambda at: got[at] / eager[at])
        row("distance", name, worst, got[worst], 2 * eager[worst],
            "rejected" if got[worst] > 2 * eager[worst] else "NOT SEEN")

weights = {name: x.clone() for name, x in model.state_dict().items()}
losses = {"float32": train(truth, "eager"), "eager": train(model, "eager")}
model.load_state_dict(weights)
losses[ours] = train(model, ours)
for impl in losses:
    for step, loss in enumerate(losses[impl].tolist()):
        row("loss", impl, step, loss)
compare(ours, *({"losses": distance(losses[impl], losses["float32"])} for impl in (ours, "eager")))

truth.load_state_dict(model.state_dict())  # as we trained it
written = {impl: generate(model, impl, truth) for impl in (ours, "eager")}
compare(ours, *({"generated": written[impl][1]} for impl in (ours, "eager")))
for impl, (words, _) in written.items():
    print(f"# generated, {impl}: {words}")
print(f"{path}: {min(ratios):.2f} to {max(ratios):.2f} times the error of eager in bf16.", file=sys.stderr)

if backend == "cuda":
    del model, truth, want
    measure("N=8192", 8192)
    # Attention of the size that gpt-oss-120b has, a windowed layer and a full one, with next to nothing beside it.
    measure("120b,N=8192", 8192, hidden_size=2880, num_hidden_layers=2, num_attention_heads=64, num_key_value_heads=8,
            num_local_experts=2, num_experts_per_tok=1, intermediate_size=64)
sys.exit(failed)
