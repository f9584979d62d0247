"""Train the same head with a loss of this library and with the loss that its authors released, step by step.

    git clone https://github.com/AUTHORS/CODE
    python benchmarks/released_losses.py hill_loss CODE/src/losses.py:Hill --divide elements
    python benchmarks/released_losses.py splc CODE/src/losses.py:SPLC --divide batch \\
        --call logits targets epoch --device cuda

The first argument is a function of `spml.losses` or a registered method, the second the class or function of
the released code: `FILE.py:NAME`, or `MODULE:NAME` for a module that Python finds. It is your own checkout;
this script contains none of that code and downloads nothing. Importing it runs it: read it first.

Two linear heads start from the same weights and see the same batches, each with its own loss and its own
Adam. Before every step the logits of the batch are compared. If the losses are the same function, the logits
stay the same but for rounding, which grows over the steps; a different constant shows after a few steps.
The labels are one known positive per sample: ours gets its class index, theirs a matrix of 0 and 1.

Their loss is often a sum where ours is a mean: `--divide` says by what. If it adds a small number inside its
logarithms, give the same to ours with `--our eps=1e-8`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import json
import math
import sys
from functools import partial
from pathlib import Path

import torch

from spml import losses
from spml.common.errors import InputError, SpmlError, nearest
from spml.config import DataConfig
from spml.data import open_dataset
from spml.labels import ObservedLabels
from spml.methods.base import Batch, Facts, Outputs, Progress
from spml.methods.registry import create, methods

PASSED = ("logits", "targets", "epoch", "index")


def settings(pairs):
    """Settings NAME=VALUE as a dict; a value is JSON, or else a string."""
    parsed = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{pair!r} is not a setting: write NAME=VALUE.")
        try:
            parsed[name] = json.loads(value)
        except json.JSONDecodeError:
            parsed[name] = value
    return parsed


def load_released(where, given):
    """The loss at FILE.py:NAME or MODULE:NAME, a class being called with the settings `given`."""
    source, colon, name = where.rpartition(":")
    if not colon or not name:
        raise InputError(f"{where!r} is not FILE.py:NAME or MODULE:NAME.")
    if source.endswith(".py"):
        path = Path(source)
        if not path.is_file():
            raise InputError(f"{source}: no such file. Give the path of a Python file in your checkout.")
        sys.path.insert(0, str(path.resolve().parent))  # for what it imports from its own folder
        spec = importlib.util.spec_from_file_location(f"released_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(source)
        except ModuleNotFoundError as error:
            if error.name != source.partition(".")[0]:
                raise
            raise InputError(f"{source}: no such module. Set PYTHONPATH to your checkout.") from error
    if not hasattr(module, name):
        found = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InputError(f"{source} has no {name}. {nearest(name, found)}")
    loss = getattr(module, name)
    return loss(**given) if inspect.isclass(loss) else partial(loss, **given)


class OurLoss:
    """A function of `spml.losses` or a registered method, called with logits and positions of samples."""

    def __init__(self, name, given, observed, classes, mean_labels):
        self.observed, self.objective, self.function = observed, None, None
        functions = [key for key in losses.__all__ if key.endswith("_loss")]
        if name in functions:
            self.function = partial(getattr(losses, name), **given)
        elif name in methods():
            self.objective = create(name, given)
            needs = self.objective.needs
            if needs.views or needs.train_pass or needs.class_maps or needs.latent:
                raise InputError(f"{name} needs more than logits and labels: compare a loss of spml.losses.")
            ids, names = map(str, range(len(observed))), map(str, range(classes))
            self.objective.on_fit_start(Facts(observed, tuple(ids), tuple(names), mean_labels))
        else:
            raise InputError(
                f"{name} is neither a loss nor a method. {nearest(name, [*functions, *methods()])}"
            )

    def start_epoch(self, epoch, epochs):
        """Move the schedule of a method on."""
        if self.objective is not None:
            self.objective.on_epoch_start(Progress(epoch, epochs))

    def __call__(self, logits, index):
        target = self.observed.target(index.tolist()).to(logits.device)
        if self.function is not None:
            return self.function(logits, target)
        outputs = Outputs(logits, logits.new_empty(len(logits), 0))
        return sum(self.objective(outputs, Batch(target, index.to(logits.device))).values())


def open_samples(args):
    """Features (N, D), observed labels and the number of classes, from the file or made at random."""
    if args.data:
        config = DataConfig(path=args.data, unlisted="negative", observe="single")
        data = open_dataset(config)
        train = data.splits["train"]
        features = train.inputs.fetch(range(len(train)), None).float()
        spread = features.std(0)
        features = (features - features.mean(0)) / torch.where(spread > 0, spread, 1.0)
        return features, train.observed, len(data.classes)
    generator = torch.Generator().manual_seed(args.seed)
    features = torch.randn(args.samples, args.width, generator=generator)
    teacher = torch.randn(args.width, args.classes, generator=generator)
    index = (features @ teacher + 3 * torch.randn(args.samples, args.classes, generator=generator)).argmax(1)
    return features, ObservedLabels.from_index(index.numpy(), args.classes), args.classes


def compare(args, report=print):
    """Train both heads; return the largest difference of logits, and the largest logit."""
    features, observed, classes = open_samples(args)
    theirs = load_released(args.theirs, settings(args.their))
    ours = OurLoss(args.ours, settings(args.our), observed, classes, args.mean_labels)
    dtype = torch.float64 if args.double else torch.float32
    features = features.to(args.device, dtype)
    torch.manual_seed(args.seed)
    heads = [torch.nn.Linear(features.shape[1], classes, device=args.device, dtype=dtype) for _ in range(2)]
    heads[1].load_state_dict(heads[0].state_dict())
    optimisers = [torch.optim.Adam(head.parameters(), lr=args.lr) for head in heads]
    per_epoch = math.ceil(len(features) / args.batch_size)
    epochs = math.ceil(args.steps / per_epoch)
    generator = torch.Generator().manual_seed(args.seed)
    largest = extent = 0.0
    for step in range(args.steps):
        epoch, place = divmod(step, per_epoch)
        if place == 0:
            order = torch.randperm(len(features), generator=generator)
            ours.start_epoch(epoch, epochs)
        index = order[place * args.batch_size : (place + 1) * args.batch_size]
        logits = [head(features[index.to(args.device)]) for head in heads]
        difference = float((logits[0] - logits[1]).detach().abs().max())
        largest, extent = max(largest, difference), max(extent, float(logits[0].detach().abs().max()))
        target = observed.target(index.tolist()).to(args.device)
        dense = torch.zeros_like(logits[1]).scatter_(1, target[:, None], 1)
        given = {"logits": logits[1], "targets": dense, "epoch": epoch, "index": index.to(args.device)}
        divisor = {"one": 1, "batch": len(index), "elements": logits[1].numel()}[args.divide]
        values = [ours(logits[0], index), theirs(*(given[name] for name in args.call)) / divisor]
        if step % max(1, args.steps // 10) == 0:
            report(f"step {step}: loss {values[0].item():.7g} and {values[1].item():.7g}, logits differ by "
                   f"at most {largest:.2g}")  # fmt: skip
        for value, optimiser in zip(values, optimisers, strict=True):
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
    return largest, extent


def parser():
    """The command line."""
    summary, _, details = __doc__.partition("\n\n")
    result = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    result.add_argument("ours", help="function of spml.losses, or registered method")
    result.add_argument("theirs", help="FILE.py:NAME or MODULE:NAME of the released loss")
    result.add_argument("--our", nargs="*", default=[], metavar="NAME=VALUE", help="settings of our loss")
    result.add_argument("--their", nargs="*", default=[], metavar="NAME=VALUE", help="settings of theirs")
    result.add_argument(
        "--call", nargs="+", default=["logits", "targets"], choices=PASSED, help="what theirs is called with"
    )
    result.add_argument(
        "--divide", choices=("one", "batch", "elements"), default="one", help="divisor of their loss"
    )
    result.add_argument("--data", help="features to train on; without it they are random")
    result.add_argument("--samples", type=int, default=2149, help="number of random samples")
    result.add_argument("--width", type=int, default=128, help="number of random features")
    result.add_argument("--classes", type=int, default=20, help="number of random classes")
    result.add_argument("--mean_labels", type=float, help="mean labels per sample, for methods that use them")
    result.add_argument("--steps", type=int, default=1350)
    result.add_argument("--batch_size", type=int, default=64)
    result.add_argument("--lr", type=float, default=1e-3)
    result.add_argument("--seed", type=int, default=0)
    result.add_argument("--device", default="cpu", help="cuda if the released code calls .cuda()")
    result.add_argument("--double", action="store_true", help="compute in float64")
    result.add_argument("--tolerance", type=float, default=1e-3, help="difference above which to exit with 1")
    return result


def main(arguments=None):
    """Compare, and print the largest difference."""
    args = parser().parse_args(arguments)
    try:
        largest, extent = compare(args)
    except SpmlError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    verdict = "the same" if largest <= args.tolerance else "NOT the same"
    print(
        f"Largest difference of logits over {args.steps:,} steps: {largest:.2g} (logits up to {extent:.2g} "
        f"in size), {verdict} to within {args.tolerance:g}."
    )
    return int(not largest <= args.tolerance)


if __name__ == "__main__":
    sys.exit(main())
