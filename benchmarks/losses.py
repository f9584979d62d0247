"""Measure speed and memory of the losses: forward and backward pass, one thread, float32.

    python benchmarks/losses.py [PART ...]

Parts are `losses` (a to c), `fused` (d), `start` (e) and `steps`, the cost of a training step with a small
CNN; without any, all are measured. The rest of the results stays.

The losses are compared with (a) `binary_cross_entropy_with_logits` on a dense target, which it builds from
the class index; (b) a plain transcription of the formula, with boolean indexing on probabilities, as in
research code; (c) copying the logits three times. In each round every candidate is timed once, so that other
load on the machine affects all of them; a ratio is the median of the rounds' ratios. Memory is the peak sum
of live allocations during forward and backward pass, the gradient included, in tensors of the size of the
logits. A large tensor is allocated and freed first, as happens in any training process: before that, the C
library returns every large block to the system, and time goes to page faults, most of all for dense BCE.

(d) `fused_linear_loss` is compared with a linear layer followed by dense BCE, forward and backward pass, with
64 features. Its memory is the peak of live allocations, including the gradients of features, weight and bias.

(e) In a new process PyTorch's log1p may be slow until an input of -0.0 (see `spml/losses/_core`). Dense BCE
and its parts are timed in new processes, before and after the import of `spml.losses`.

Writes benchmarks/results/losses.json and .md.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from datetime import date
from functools import partial

import numpy as np
import torch
from shared import load_results, markdown, processor, ratio, save_results, table, today
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from spml import losses
from spml.labels import ObservedLabels
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create
from spml.models.backbones import SmallCNN

SHAPES = ((16, 80), (256, 80), (1024, 312), (256, 10_000), (64, 100_000))
ROUNDS, SECONDS = 15, 0.02
MAX_ELEMENTS = 7_500_000
Q2 = 0.01


def dense(logits, target):
    """The class index as a matrix of 0 and 1."""
    return torch.zeros_like(logits).scatter_(1, target[:, None], 1)


def bce(logits, target):
    """Baseline (a): binary cross-entropy on a dense target."""
    return F.binary_cross_entropy_with_logits(logits, dense(logits, target))


# -- (b): the formulas written down on probabilities -----------------------------------------------------


def naive(unknown):
    """Loss with l+ on observed labels and `unknown(p)` on all others."""

    def loss(logits, target):
        observed = dense(logits, target)
        p = torch.sigmoid(logits)
        each = torch.zeros_like(p)
        each[observed == 1] = -torch.log(p[observed == 1] + 1e-7)
        each[observed == 0] = unknown(p[observed == 0])
        return each.mean()

    return loss


def naive_gr(p):
    """GR on unknown labels: v (k L2 + (1 - k) L3)."""
    fixed = p.detach()
    k = 1 / (1 + torch.exp(-(2 * fixed - 2)))
    v = torch.exp(-((fixed - 0.8) ** 2) / (2 * 0.5**2))
    return v * (k * (1 - p**Q2) / Q2 + (1 - k) * (1 - (1 - p)))


def naive_splc(p):
    """SPLC on unknown labels: a focal loss that treats p above 0.6 as positive."""
    each = torch.zeros_like(p)
    high = p > 0.6
    each[high] = -((1 - p[high]) ** 2) * torch.log(p[high] + 1e-7)
    each[~high] = -(p[~high] ** 2) * torch.log(1 - p[~high] + 1e-7)
    return each


def naive_lasd(p):
    """LASD on unknown labels: positives above p = 0.9, assumed negatives below."""
    each = torch.zeros_like(p)
    high = p > 0.9
    each[high] = -0.1 * torch.log(p[high] + 1e-7)
    each[~high] = -0.05 * p[~high] ** 4 * torch.log(1 - p[~high] + 1e-7)
    return each


NAIVE = {
    "an": naive(lambda p: -torch.log(1 - p + 1e-7)),
    "em": naive(lambda p: 0.1 * (p * torch.log(p + 1e-7) + (1 - p) * torch.log(1 - p + 1e-7))),
    "gr": naive(naive_gr),
    "focal": naive(lambda p: -(p**2) * torch.log(1 - p + 1e-7)),
    "hill": naive(lambda p: (1.5 - p) * p**2),
    "splc": naive(naive_splc),
    "lasd": naive(naive_lasd),
}


def ours(rows, classes):
    """All losses by name, each with its further arguments, which are created outside the timing."""
    generator = torch.Generator().manual_seed(1)
    share = torch.rand(rows, classes, generator=generator)
    pseudo = (share > 0.95).to(torch.int8)
    stated = {"mean_labels": min(3.0, classes / 4)}
    return {
        "an": losses.an_loss,
        "an_ls": losses.an_ls_loss,
        "wan": losses.wan_loss,
        "focal": losses.focal_loss,
        "asl": losses.asl_loss,
        "hill": losses.hill_loss,
        "splc": losses.splc_loss,
        "em": losses.em_loss,
        "em_apl": partial(losses.em_apl_loss, soft=torch.where(share > 0.5, share, -1.0)),
        "gr": losses.gr_loss,
        "gpr": partial(losses.gpr_loss, pseudo=pseudo),
        "vlpl": partial(losses.vlpl_loss, pseudo=pseudo),
        "lasd": partial(losses.lasd_loss, weight_pos=0.1, weight_neg=0.05),
        "smile": partial(losses.smile_loss, soft=share),
        "epr": partial(losses.epr_loss, **stated),
        "role": partial(losses.role_loss, estimates=2 * share - 1, **stated),
        "ll_r": partial(losses.ll_loss, rate=0.01, treatment="reject"),
        "csl": losses.csl_loss,
        "pumlc": losses.pumlc_loss,
        "softmax": losses.softmax_loss,
        "show": partial(losses.show_loss, **stated),
        "zlpr": losses.zlpr_loss,
        "opml": losses.opml_loss,
        "pr": losses.pr_loss,
    }


# -- measuring -------------------------------------------------------------------------------------------


def step(loss, logits, target):
    """Run one forward and backward pass."""
    logits.grad = None
    loss(logits, target).backward()


def copies(logits, target):
    """Baseline (c): copy the logits three times."""
    for _ in range(3):
        logits.detach().clone()


def times(candidates, clock=time.perf_counter, rounds=ROUNDS, seconds=SECONDS):
    """Seconds per call of each candidate in each round: {name: [seconds]}."""
    repeats, timings = {}, {name: [] for name in candidates}
    for name, call in candidates.items():
        call()
        started = time.perf_counter()
        call()
        once = time.perf_counter() - started
        repeats[name] = max(1, min(1000, round(seconds / once)))
    for _ in range(rounds):
        for name, call in candidates.items():
            started = clock()
            for _ in range(repeats[name]):
                call()
            timings[name].append((clock() - started) / repeats[name])
    return timings


def peak(loss, logits, target):
    """Peak sum of live allocations in one step, in tensors of the size of the logits."""
    logits.grad = None
    return peak_bytes(lambda: loss(logits, target).backward()) / (logits.numel() * logits.element_size())


def peak_bytes(call):
    """Peak sum of live allocations of the CPU during a call."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = largest = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        largest = max(largest, live)
    return largest


def one_shape(rows, classes):
    """Times, ratios and memory of all losses at one shape."""
    generator = torch.Generator().manual_seed(0)
    logits = (2 * torch.randn(rows, classes, generator=generator) - 2).requires_grad_()
    target = torch.randint(0, classes, (rows,), generator=generator)
    our_losses, candidates = ours(rows, classes), {"bce": bce}
    candidates |= our_losses | {f"naive {name}": loss for name, loss in NAIVE.items()}
    timings = times({name: partial(step, loss, logits, target) for name, loss in candidates.items()})
    floor = times({"copies": partial(copies, logits, target), "bce": partial(step, bce, logits, target)})
    floor_ratio = ratio(floor, "copies", "bce")
    table = {}
    for name, loss in {"bce": bce, **our_losses}.items():
        table[name] = {
            "microseconds": 1e6 * statistics.median(timings[name]),
            "over dense bce": ratio(timings, name, "bce"),
            "over three copies": ratio(timings, name, "bce") / floor_ratio,
            "memory": peak(loss, logits, target),
        }
        if name in NAIVE:
            table[name]["naive over ours"] = ratio(timings, f"naive {name}", name)
            table[name]["memory of naive"] = peak(NAIVE[name], logits, target)
    return table


# -- (d): losses fused with the linear layer -------------------------------------------------------------

FUSED_SHAPES = ((256, 10_000), (64, 100_000), (32, 1_000_000))
FUSED_FEATURES = 64


def with_linear(loss, features, weight, bias, target):
    """Loss of the logits of a linear layer, which exist as a whole."""
    return loss(F.linear(features, weight, bias), target)


FUSED = {
    "bce": partial(with_linear, bce),
    "an": partial(with_linear, losses.an_loss),
    "an, fused": partial(losses.fused_linear_loss, loss=losses.an_loss),
    "an, fused, bfloat16": partial(losses.fused_linear_loss, loss=losses.an_loss, dtype=torch.bfloat16),
    "gr": partial(with_linear, losses.gr_loss),
    "gr, fused": partial(losses.fused_linear_loss, loss=losses.gr_loss),
    "gr, fused, bfloat16": partial(losses.fused_linear_loss, loss=losses.gr_loss, dtype=torch.bfloat16),
}


def linear_step(loss, tensors, target):
    """Run one forward and backward pass of layer and loss."""
    for tensor in tensors:
        tensor.grad = None
    loss(*tensors, target).backward()


def fused_shape(rows, classes):
    """Time over that of BCE and peak memory of losses with a linear layer, at one shape."""
    generator = torch.Generator().manual_seed(0)
    tensors = [
        torch.randn(rows, FUSED_FEATURES, generator=generator),
        torch.randn(classes, FUSED_FEATURES, generator=generator).div_(FUSED_FEATURES**0.5),
        torch.full((classes,), -2.0),
    ]
    for tensor in tensors:
        tensor.requires_grad_()
    target = torch.randint(0, classes, (rows,), generator=generator)
    calls = {name: partial(linear_step, loss, tensors, target) for name, loss in FUSED.items()}
    timings, figures = times(calls, rounds=5), {}
    for name, call in calls.items():
        for tensor in tensors:
            tensor.grad = None
        figures[name] = {
            "ms": 1e3 * statistics.median(timings[name]),
            "over dense bce": ratio(timings, name, "bce"),
            "MiB": peak_bytes(call) / 2**20,
        }
    return {"logits in MiB": rows * classes * 4 / 2**20, "losses": figures}


def fused():
    """Losses fused with a linear layer, on CPU."""
    shapes = {f"{rows} x {classes}": fused_shape(rows, classes) for rows, classes in FUSED_SHAPES}
    return {"cpu": {"machine": processor(), "shapes": shapes}}


# -- (e): a new process ---------------------------------------------------------------------------------

START = """
import json, time, torch
from torch.nn import functional as F
torch.set_num_threads(1)
x, target = torch.rand(1024, 312), torch.zeros(1024, 312)
calls = {
    "log1p": lambda: torch.log1p(x), "expm1": lambda: torch.expm1(x), "softplus": lambda: F.softplus(x),
    "bce": lambda: F.binary_cross_entropy_with_logits(x, target),
}
def measure():
    seconds = {}
    for name, call in calls.items():
        each = []
        for _ in range(12):
            started = time.perf_counter()
            call()
            each.append(time.perf_counter() - started)
        seconds[name] = sorted(each)[6]
    return seconds
before = measure()
import spml.losses
print(json.dumps([before, measure()]))
"""


def start():
    """Microseconds in new processes, before and after the import of the losses: medians over processes."""
    rows = []
    for _ in range(7):
        done = subprocess.run([sys.executable, "-c", START], check=True, capture_output=True)
        rows.append(json.loads(done.stdout))
    names = rows[0][0]
    figures = {
        name: [1e6 * statistics.median(row[moment][name] for row in rows) for moment in (0, 1)]
        for name in names
    }
    return {"date": date.today().isoformat(), "machine": processor(), "microseconds": figures}


# -- training steps --------------------------------------------------------------------------------------


class TrainingSteps:
    """Training steps of a method with a small CNN and plain gradient descent."""

    def __init__(self, method, hp, rows=16, classes=80, samples=2000, side=64):
        torch.manual_seed(0)
        self.network, self.head = SmallCNN(3), torch.nn.Linear(SmallCNN.num_features, classes)
        labels = np.random.default_rng(0).integers(0, classes, samples)
        observed = ObservedLabels.from_index(labels, classes)
        names = tuple(map(str, range(samples))), tuple(map(str, range(classes)))
        self.objective = create(method, hp)
        self.objective.on_fit_start(Facts(observed, *names, mean_labels=3.0))
        self.objective.on_epoch_start(Progress(6, 10))
        self.images = torch.randn(rows, 3, side, side)
        index = torch.arange(rows)
        self.batch = Batch(observed.target(range(rows)), index)
        groups = [{"params": [*self.network.parameters(), *self.head.parameters()]}]
        groups += [{"params": group["params"]} for group in self.objective.param_groups()]
        self.optimizer = torch.optim.Adam(groups, lr=1e-6)

    def __call__(self):
        features = self.network(self.images)
        outputs = Outputs(self.head(features), features)
        torch.stack(list(self.objective(outputs, self.batch).values())).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            self.objective.after_step(outputs, self.batch)


STEPS = {
    "an": {}, "gr": {}, "ll_r": {}, "ll_ct": {}, "ll_cp": {}, "em": {}, "em_apl": {},
    "em_apl (predictions=training)": {"predictions": "training"}, "opml_sp": {}, "en": {}, "role": {},
}  # fmt: skip


def training_steps():
    """Time of a training step of each method, over that of AN."""
    timings = times({name: TrainingSteps(name.split(" ")[0], hp) for name, hp in STEPS.items()})
    result = {name: {"microseconds": 1e6 * statistics.median(timings[name])} for name in STEPS}
    for name in STEPS:
        result[name]["over an"] = ratio(timings, name, "an")
    return result


# -- report ----------------------------------------------------------------------------------------------


def page(result):
    """The tables as Markdown."""
    shapes, begun, part = result["losses"], result["start"], result["fused"]["cpu"]
    titles = [f"{name} (logits {row['logits in MiB']:.0f} MiB)" for name, row in part["shapes"].items()]
    fused_shapes = [row["losses"] for row in part["shapes"].values()]

    def rows(names, form, of_shapes=None):
        """A row per loss, with a cell per shape."""
        return [
            (name, *(form.format(**figures[name]) for figures in of_shapes or shapes.values()))
            for name in names
        ]

    return markdown(
        f"{result['date']}, {result['machine']}, one thread, float32, torch {result['versions']['torch']}. "
        f"Forward and backward; `python benchmarks/losses.py`.",
        "Time over that of dense BCE with its target, and in brackets the largest memory in tensors of the "
        "size of the logits (the gradient included):",
        table(("loss", *shapes), rows(next(iter(shapes.values())), "{over dense bce:.2f} ({memory:.1f})")),
        "Dense BCE over three copies of the logits, and in microseconds:",
        table(("", *shapes), rows(["bce"], "{over three copies:.1f} ({microseconds:.0f})")),
        "A plain transcription with boolean indexing over ours, in brackets its memory:",
        table(("loss", *shapes), rows(NAIVE, "{naive over ours:.1f} ({memory of naive:.1f})")),
        f"A linear layer of {FUSED_FEATURES} features with its loss, on {part['machine']}: time over that of "
        "dense BCE, ms, and peak memory with the gradients of features, weight and bias in MiB:",
        table(
            ("loss", *titles), rows(FUSED, "{over dense bce:.2f}, {ms:.0f} ms, {MiB:.0f} MiB", fused_shapes)
        ),
        f"1024 x 312 numbers in a new process, forward pass, microseconds ({begun['date']}, "
        f"{begun['machine']}):",
        table(
            ("", "before `import spml.losses`", "after"),
            [(name, f"{a:.0f}", f"{b:.0f}") for name, (a, b) in begun["microseconds"].items()],
        ),
        "Training step at 16 x 80 with a small CNN on 64 pixels, Adam, over that of AN:",
        table(
            "method | over AN | microseconds",
            [
                (name, f"{row['over an']:.3f}", f"{row['microseconds']:.0f}")
                for name, row in result["steps"].items()
            ],
        ),
    )


def main(*parts):
    """Measure and write the results."""
    torch.set_num_threads(1)
    torch.empty(MAX_ELEMENTS)  # freed at once: from now on the allocator keeps blocks of this size
    result = load_results("losses") | ({} if parts else today())
    for part in parts or PARTS:
        result[part] = PARTS[part]()
        print(part, json.dumps(result[part]), flush=True)
    save_results("losses", result, page(result))


PARTS = {
    "losses": lambda: {f"{rows} x {classes}": one_shape(rows, classes) for rows, classes in SHAPES},
    "steps": training_steps,
    "start": start,
    "fused": fused,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
