"""Measure training on a GPU: our loop against a plain one, where the time goes, losses, and loading.

    python benchmarks/gpu.py [--device cuda] [--output FILE] [--quick]

Everything is synthetic, so nothing has to be downloaded: JPEGs of the sizes of VOC and COCO (500 x 375 and
640 x 480), a ResNet-50 with random weights at 448 pixels, 80 classes, one positive label per image.

The plain loop is that of the protocol on which methods are compared: Pillow, `Resize((448, 448))`, a random
flip, `ToTensor` and `Normalize` in the workers, a dense target, the assume-negative loss on it, and Adam with
1e-5. Ours is the loop of `spml train` with the method `an`. Both are measured in full precision, with
bfloat16, with channels_last (ours always has that), and with torch.compile; ours with both decoders. Images
per second are those of the steps after the first ones, which compile and warm up.

Where the time goes: one step after another with a synchronisation between its parts, and the operations that
take longest by torch.profiler. Losses: time and peak memory of forward and backward pass against dense BCE,
and the share of the time that copying the logits once would take. Loading: images per second by number of
workers, and of nvJPEG where there is a GPU.

`--quick` is for trying the script: small images, a small network that is not really compiled, few steps. Its
figures mean nothing. Writes
benchmarks/results/gpu.json and .md, with `--quick` only to the FILE that is named.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
import torchvision
from loading import Plain as PlainImages
from PIL import Image
from shared import RESULTS, markdown, table, today
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader

from losses import bce
from spml import losses
from spml.config import from_dict
from spml.data import Dataset, Samples
from spml.data.images.image_files import ImageFiles
from spml.decisions.selection import Judge
from spml.engine import Trainer
from spml.engine.distributed import make_fabric
from spml.engine.loader import EpochBatches, make_loader
from spml.labels import ObservedLabels
from spml.methods.base import Facts
from spml.methods.registry import create
from spml.metrics import mean_average_precision
from spml.models.backbones import create_backbone
from spml.models.classifier import Classifier
from spml.models.spec import BackboneSpec
from spml.models.top import Top

CLASSES, LR = 80, 1e-5
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LOSSES = "an", "em", "gr"


class Settings:
    """Measurements, in full or only tried."""

    def __init__(self, device, quick):
        self.device, self.quick = torch.device(device), quick
        self.network = "resnet18" if quick else "resnet50"
        self.size = 32 if quick else 448
        self.images = 24 if quick else 1024
        self.batches = (4, 8) if quick else (16, 64)
        self.steps, self.warmup = (2, 1) if quick else (30, 10)
        self.workers = (0, 1) if quick else (0, 2, 4, 8, 16)
        self.shapes = ((8, 100), (4, 1000)) if quick else ((256, 10_000), (64, 100_000), (32, 1_000_000))
        self.photos = ((60, 45), (64, 48)) if quick else ((500, 375), (640, 480))
        self.backend = "eager" if quick else "inductor"  # of torch.compile
        self.threads = min(8, os.cpu_count() or 1)

    def wait(self):
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def make_photos(folder, settings):
    """Write JPEGs of quality 90 with shapes and texture, which take about as many bytes as photographs."""
    draw, paths = np.random.default_rng(0), []
    for number in range(settings.images):
        width, height = settings.photos[number % 2]
        coarse = draw.integers(0, 256, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
        image = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
        noisy = image + draw.normal(0, 6, image.shape)
        paths.append(folder / f"{number}.jpg")
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(paths[-1], quality=90)
    return paths


# -- the plain loop --------------------------------------------------------------------------------------


class Plain(PlainImages):
    """Images as tutorials load them, with a dense target."""

    def __getitem__(self, row):
        image, _ = super().__getitem__(row)
        target = torch.zeros(CLASSES)
        target[row % CLASSES] = 1
        return image, target


def plain_loop(paths, settings, batch, *, bf16=False, channels_last=False, compiled=False):
    """Images per second of a plain training loop."""
    device, layout = settings.device, torch.channels_last if channels_last else torch.contiguous_format
    model = getattr(torchvision.models, settings.network)(num_classes=CLASSES)
    model = model.to(device, memory_format=layout).train()
    if compiled:
        model.compile(backend=settings.backend)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    loader = DataLoader(
        Plain(paths, settings.size),
        batch,
        shuffle=True,
        drop_last=True,
        num_workers=settings.threads,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )
    times = []
    for images, target in endless(loader):
        images = images.to(device, non_blocking=True, memory_format=layout)
        with torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext():
            logits = model(images)
        loss = F.binary_cross_entropy_with_logits(logits.float(), target.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        note_time(times, settings)
        if len(times) > settings.warmup + settings.steps:
            break
    return rate(times, batch, settings)


def endless(loader):
    """One epoch after another."""
    return itertools.chain.from_iterable(itertools.repeat(loader))


def note_time(times, settings):
    """Note the time of a step; only at both ends of what is measured does this wait for the device."""
    if len(times) in (settings.warmup, settings.warmup + settings.steps):
        settings.wait()
    times.append(time.perf_counter())


def rate(times, batch, settings):
    """Images per second of the steps after the first ones."""
    return batch * settings.steps / (times[settings.warmup + settings.steps] - times[settings.warmup])


# -- our loop --------------------------------------------------------------------------------------------


class EnoughError(Exception):
    """All steps have been measured."""


def made(paths, settings, batch, precision="32-true", decoder="pillow", workers=0, on_step=lambda rows: None):
    """A trainer as `spml train` makes it."""
    labels = ObservedLabels.from_index(np.arange(len(paths)) % CLASSES, CLASSES)
    inputs = ImageFiles(paths, ["-"] * len(paths), size=settings.size, flip=True, decoder=decoder)
    train = Samples(tuple(map(str, paths)), inputs, labels)
    val = Samples(train.ids[:batch], inputs.take(range(batch)), labels.take(range(batch)))
    config = from_dict(
        {"data": {"path": "-"}, "method": "an", "epochs": 1000, "batch_size": batch, "precision": precision,
         "optim": {"name": "adam", "lr": LR, "weight_decay": 0.0}}
    )  # fmt: skip
    fabric = make_fabric(settings.device.type, 1, precision)
    spec = BackboneSpec(settings.network, {}, settings.size, MEAN, STD, "bilinear", "random")
    backbone = create_backbone(spec)
    model = Classifier(backbone, Top(backbone.num_features, CLASSES))
    names, objective = tuple(f"class {column}" for column in range(CLASSES)), create("an")
    objective.on_fit_start(Facts(labels, train.ids, names))
    data = Dataset("synthetic", names, {"train": train, "val": val}, {})
    judge = Judge(val, None, "observed", None)
    return Trainer(
        config, fabric, model, model.top.head, objective, data, judge, workers=workers, on_step=on_step
    )


def our_loop(paths, settings, batch, *, precision="32-true", decoder="pillow", compiled=False):
    """Images per second of our training loop."""
    times = []

    def on_step(rows):
        note_time(times, settings)
        if len(times) > settings.warmup + settings.steps:
            raise EnoughError

    # Whole batches only, and enough of them that no epoch ends, which would be validated.
    rows = [paths[row % len(paths)] for row in range(batch * (settings.warmup + settings.steps + 2))]
    trainer = made(rows, settings, batch, precision, decoder, settings.threads, on_step)
    if compiled:
        trainer.model.backbone.network.compile(backend=settings.backend)
    try:
        trainer.fit()
    except EnoughError:
        return rate(times, batch, settings)
    raise AssertionError("the epoch ended too early")


LOOPS = {
    "plain": plain_loop,
    "plain, bf16": lambda *arguments: plain_loop(*arguments, bf16=True),
    "plain, bf16, channels_last": lambda *arguments: plain_loop(*arguments, bf16=True, channels_last=True),
    "plain, bf16, channels_last, compiled": lambda *arguments: plain_loop(
        *arguments, bf16=True, channels_last=True, compiled=True
    ),
    "ours": our_loop,
    "ours, torchvision": lambda *arguments: our_loop(*arguments, decoder="torchvision"),
    "ours, torchvision, bf16": lambda *arguments: our_loop(
        *arguments, decoder="torchvision", precision="bf16-mixed"
    ),
    "ours, torchvision, bf16, compiled": lambda *arguments: our_loop(
        *arguments, decoder="torchvision", precision="bf16-mixed", compiled=True
    ),
}


def training(paths, settings):
    """Images per second of each loop at each batch size; None where the memory is too small.

    Compiled ones are measured with the largest batch only: compiling takes most of a minute.
    """
    result = {}
    for batch in settings.batches:
        for name, loop in LOOPS.items():
            if "compiled" in name and batch != settings.batches[-1]:
                result.setdefault(name, {})[str(batch)] = None
                continue
            try:
                result.setdefault(name, {})[str(batch)] = loop(paths, settings, batch)
            except torch.cuda.OutOfMemoryError:
                result[name][str(batch)] = None
            print(name, batch, result[name][str(batch)], flush=True)
    return result


# -- where the time goes ---------------------------------------------------------------------------------


def parts(paths, settings, batch):
    """Milliseconds of the parts of a step, each waited for, and of the metric of 5,000 samples."""
    trainer, spent = made(paths, settings, batch), {}
    model, objective, device = trainer.model.train(), trainer.objective, settings.device
    loader = make_loader(trainer.train, EpochBatches(len(paths), batch, 0), 0, 0, device.type == "cuda")
    batches = endless(loader)

    def part(name, call):
        settings.wait()
        started = time.perf_counter()
        result = call()
        settings.wait()
        spent.setdefault(name, []).append(1e3 * (time.perf_counter() - started))
        return result

    def step():
        inputs, _, labels = part("decode, one process", lambda: next(batches))
        on_device = part("transfer", lambda: inputs.to(device, non_blocking=True))
        labels = type(labels)(labels.target.to(device), labels.index.to(device), 0)
        outputs = part("forward pass", lambda: model(on_device))
        loss = part("loss", lambda: torch.stack(list(objective(outputs, labels).values())).sum())
        part("backward pass", loss.backward)
        part("optimiser", trainer.optimizer.step)
        trainer.optimizer.zero_grad(set_to_none=True)

    for _ in range(settings.warmup + settings.steps):
        step()
    result = {name: statistics.median(each[settings.warmup :]) for name, each in spent.items()}
    count = 50 if settings.quick else 5000
    draw = np.random.default_rng(0)
    scores = draw.standard_normal((count, CLASSES), np.float32)
    truth = np.where(draw.random((count, CLASSES)) < 0.04, 1, -1).astype(np.int8)
    started = time.perf_counter()
    mean_average_precision(scores, truth, "zero")
    result[f"mAP of {count:,} samples"] = 1e3 * (time.perf_counter() - started)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with profile(activities=activities) as profiler:
        for _ in range(3):
            step()
    by = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    events = sorted(profiler.key_averages(), key=lambda event: -getattr(event, by))
    result["operations"] = {event.key: getattr(event, by) / 3e3 for event in events[:12]}
    return result


# -- losses ----------------------------------------------------------------------------------------------


def loss_table(settings):
    """Milliseconds, peak memory in tensors of the size of the logits, and share of the speed of a copy."""
    result = {}
    candidates = {"BCE": bce, **{name: getattr(losses, f"{name}_loss") for name in LOSSES}}
    for rows, classes in settings.shapes:
        logits = torch.randn(rows, classes, device=settings.device, requires_grad=True)
        target = torch.arange(rows, device=settings.device) % classes
        copy = milliseconds(lambda logits=logits: logits.detach().clone(), settings)
        cell = result[f"{rows} x {classes:,}"] = {"copy": {"ms": copy}}
        for name, loss in candidates.items():

            def once(loss=loss, logits=logits, target=target):
                logits.grad = None
                loss(logits, target).backward()

            spent = milliseconds(once, settings)
            cell[name] = {"ms": spent, "share of a copy's speed": copy / spent}
            if settings.device.type == "cuda":
                logits.grad = None
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                once()
                peak = torch.cuda.max_memory_allocated() - before
                cell[name]["peak, tensors"] = peak / (4 * logits.numel())
    return result


def milliseconds(call, settings):
    """Median time of a call that is waited for."""
    times = []
    for _ in range(3 if settings.quick else 30):
        settings.wait()
        started = time.perf_counter()
        call()
        settings.wait()
        times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times[1:])


# -- loading ---------------------------------------------------------------------------------------------


def loading(paths, settings):
    """Images per second onto the device, by decoder and number of workers; and of nvJPEG."""
    batch, result = settings.batches[-1], {}
    labels = ObservedLabels.from_index(np.arange(len(paths)) % CLASSES, CLASSES)
    for decoder in ("pillow", "torchvision"):
        inputs = ImageFiles(paths, ["-"] * len(paths), size=settings.size, flip=True, decoder=decoder)
        samples = Samples(tuple(map(str, paths)), inputs, labels)
        for workers in settings.workers:
            batches = EpochBatches(len(paths), batch, 0)
            loader = make_loader(samples, batches, 0, workers, settings.device.type == "cuda")
            for batches.epoch in (0, 1):  # the first one starts the workers
                started = time.perf_counter()
                for images, _, _ in loader:
                    images.to(settings.device, non_blocking=True)
                settings.wait()
                seconds = time.perf_counter() - started
            result.setdefault(decoder, {})[str(workers)] = len(paths) / seconds
    if settings.device.type == "cuda":
        result["nvJPEG"] = nvjpeg(paths, settings, batch)
    return result


def nvjpeg(paths, settings, batch):
    """Images per second that one process decodes on the GPU by torchvision, and resizes there."""
    size = (settings.size, settings.size)
    for _ in range(2):  # the first pass starts the decoder
        started = time.perf_counter()
        for first in range(0, len(paths), batch):
            files = [torchvision.io.read_file(str(path)) for path in paths[first : first + batch]]
            images = torchvision.io.decode_jpeg(
                files, mode=torchvision.io.ImageReadMode.RGB, device=settings.device
            )
            torch.cat([F.interpolate(i[None].float(), size, mode="bilinear", antialias=True) for i in images])
        settings.wait()
        seconds = time.perf_counter() - started
    return len(paths) / seconds


# -- report ----------------------------------------------------------------------------------------------


def cells(values):
    """A row of a table; None is shown as `-`."""
    return [
        "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
        for value in values
    ]


def report(result):
    """The tables as Markdown."""
    spent, loaded = dict(result["parts"]), dict(result["loading"])
    operations, on_gpu = spent.pop("operations"), loaded.pop("nvJPEG", None)
    columns = ("ms", "share of a copy's speed", "peak, tensors")
    of_losses = [
        cells((shape, name, *(found.get(column) for column in columns)))
        for shape, by_name in result["losses"].items()
        for name, found in by_name.items()
    ]

    def by(first, found):
        rows = [cells((name, *values.values())) for name, values in found.items()]
        return table([first, *next(iter(found.values()))], rows)

    return markdown(
        f"{result['date']}, {result['machine']}, torch {result['versions']['torch']}, {result['network']} at "
        f"{result['size']} pixels. `python benchmarks/gpu.py`.",
        *["These figures come from a trial of the script (`--quick`) and mean nothing."] * result["quick"],
        "Images per second in training, by batch size:",
        by("loop", result["training"]),
        f"Milliseconds of the parts of a step of {result['batch']} images, ours in full precision:",
        table("part | ms", map(cells, spent.items())),
        "Operations that take longest, in milliseconds per step:",
        table("operation | ms", map(cells, operations.items())),
        "Losses, forward and backward pass:",
        table(["shape", "loss", *columns], of_losses),
        "Images per second of loading alone, by number of workers:",
        by("decoder", loaded),
        *[f"nvJPEG, one process: {on_gpu:.0f} images per second."] * bool(on_gpu),
    )


def main():
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, help="JSON file; the tables are written next to it")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device here; try the script with --device cpu --quick")
    settings = Settings(arguments.device, arguments.quick)
    result = today(torch.cuda.get_device_name() if settings.device.type == "cuda" else None)
    result |= {"quick": settings.quick, "network": settings.network, "size": settings.size}
    result["batch"] = settings.batches[-2]
    output = arguments.output or (None if settings.quick else RESULTS / "gpu.json")
    with tempfile.TemporaryDirectory() as folder:
        paths = make_photos(Path(folder), settings)
        for part, measure in {
            "losses": lambda: loss_table(settings),
            "loading": lambda: loading(paths, settings),
            "parts": lambda: parts(paths, settings, result["batch"]),
            "training": lambda: training(paths, settings),
        }.items():
            result[part] = measure()
            print(part, json.dumps(result[part]), flush=True)
    if output:
        output.write_text(json.dumps(result, indent=1) + "\n")
        output.with_suffix(".md").write_text(report(result))
    print(report(result))


if __name__ == "__main__":
    main()
