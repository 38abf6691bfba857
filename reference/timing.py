"""What the programs here share: what the first lines of their tables say, and the clock."""
import contextlib, os, subprocess, sys

import torch


COLUMNS = """problem impl B Hq Hkv Nq Nk D W S rows cols causal ms ms_p10 ms_p90 tflops gbps peak_bytes io_bytes
    max_error runs page lens mask q_tile""".split()  # of the tables of times (plots/README.md)


def heading(on_gpu, software=None):
    """The first lines of a table, those of all tables and what PyTorch adds."""
    root = os.path.dirname(os.path.abspath(__file__)) + "/.."
    command = " ".join(["python3", os.path.relpath(sys.argv[0], root), *sys.argv[1:]])
    subprocess.run(["sh", "-c", '. workbook/loop/source.sh; head_lines "$0" "$1"', "cuda" if on_gpu else "cpu",
                    command], cwd=root)
    print(f"# software: PyTorch {torch.__version__}, {software or f'cuDNN {torch.backends.cudnn.version()}'}")


def said(error, length=150):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:length]}"


@contextlib.contextmanager
def told(what, length=150):
    """Why something could not be timed becomes a line that starts with #: who declines is named, not hidden."""
    try:
        yield
    except Exception as error:  # not installed, out of memory, or what is asked for is not supported
        print(f"# {what}: {said(error, length)}", flush=True)


def distances(got, want):
    """How far tensors are from others, as a part of their length."""
    return [((a.float() - b.float()).norm() / b.float().norm()).item() for a, b in zip(got, want)]


# ------------------------ the clock

FLUSH_BYTES = 2**28  # more than any L2 cache
flush = None


def forget():
    """Fills L2 with other data, and reads it: no dirty lines are left to be written back."""
    global flush
    if flush is None:
        flush = torch.empty(FLUSH_BYTES, device="cuda", dtype=torch.uint8)
    flush.fill_(1)
    flush.sum()


def once(call, before=None, hold=4_000_000):
    """Milliseconds of what `call` queues, by device events, in a cold L2. before: called when the GPU is idle. hold:
    clocks for which the GPU then waits, so that everything is queued before the clock starts.
    """
    forget()
    torch.cuda.synchronize()
    if before:
        before()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(hold)
    start.record(), call(), stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def percentiles(ms):
    """The median, and the 10th and 90th percentile."""
    ms = sorted(ms)
    return tuple(ms[int(share * (len(ms) - 1) + 0.5)] for share in (0.5, 0.1, 0.9))


RUNS = 25


def times(call, runs=RUNS):
    for _ in range(3):
        call()
    return percentiles([once(call) for _ in range(runs)])
