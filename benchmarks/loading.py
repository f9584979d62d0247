"""Measure the speed of loading: images against a plain torchvision pipeline, views, and cached features.

    python benchmarks/loading.py IMAGE_FOLDER [WORK_FOLDER]

Images: the JPEGs of each folder in IMAGE_FOLDER as they are, and some enlarged to 1280 pixels (as on the web)
and 4000 pixels (as from a camera). Our pipeline decodes, resizes, mirrors half of the images and puts uint8
batches on the device, where the model normalises them (one column includes that, on that core). One column
has `data.decoder` torchvision; a further table says how far its pixels are from those of Pillow. The plain
pipeline is that of tutorials: Pillow, `Resize((s, s))`, `RandomHorizontalFlip`, `ToTensor` and `Normalize` in
the worker, and PyTorch's own collate. All have one worker process and batches of 32. Speed is images per
second of CPU time, of the worker (including its start) and the process it works for together, so that other
load on the machine matters little. In each round every candidate loads everything once; a ratio is the median
of the rounds' ratios.

Views: the ordinary view, a weak and a strong one, decoded once, against three fetches.

Features of images: a MobileNet with random weights, by `cached_features` and by a bare loop over a timm model
with the plain pipeline, without workers and with one, in wall time; ours by decoder and precision.

Features: an epoch of AN, of GR and of LASD (three views) with a linear head and one thread, on as many
features and classes as COCO's training part has, from the memory-mapped file of the feature cache (in
WORK_FOLDER, by default the folder for temporary files; removed afterwards). Seconds are wall time unless CPU
time is named.

Writes benchmarks/results/loading.json and .md.
"""

from __future__ import annotations

import itertools
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import PIL
import timm
import torch
from PIL import Image
from shared import save_results, table_head, table_row, today
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset
from torchvision import transforms

from spml.config import from_dict
from spml.data import Augment, Dataset, Samples
from spml.data.images.feature_store import FeatureStore
from spml.data.images.image_files import ImageFiles, check_images
from spml.decisions.selection import Judge
from spml.engine.distributed import make_fabric
from spml.engine.loader import EpochBatches, make_loader
from spml.engine.loop import Trainer
from spml.labels import ObservedLabels
from spml.methods.base import Facts
from spml.methods.registry import create
from spml.models.backbones import create_backbone
from spml.models.classifier import Classifier
from spml.models.spec import BackboneSpec
from spml.models.top import Top
from spml.runs.predict.features import cached_features

IMAGES, ENLARGED = 384, {1280: 96, 4000: 8}  # longer side in pixels: how many of the images
SIZES, BATCH, ROUNDS = (224, 448), 32, 5
FEATURES, WIDTH, CLASSES, FEATURE_BATCH = 65_665, 2048, 80, 256
MEAN_LABELS = 2.94
NETWORK = "mobilenetv3_large_100"
METHODS = "an", "gr", "lasd"  # the last one with three views
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


# -- images ----------------------------------------------------------------------------------------------


class Plain(TorchDataset):
    """Dataset that loads images as tutorials do."""

    def __init__(self, paths, size):
        self.paths = paths
        self.transform = transforms.Compose(
            [
                transforms.Resize((size, size)),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, row):
        return self.transform(Image.open(self.paths[row]).convert("RGB")), row % CLASSES


def plain(paths, size):
    """Load everything once with the plain pipeline."""
    pin = DEVICE.type == "cuda"
    for batch in DataLoader(Plain(paths, size), BATCH, shuffle=True, num_workers=1, pin_memory=pin):
        batch[0].to(DEVICE, non_blocking=True)


def files(paths, size, **settings):
    """Our samples: images with labels."""
    labels = ObservedLabels.from_index(np.arange(len(paths)) % CLASSES, CLASSES)
    inputs = ImageFiles(paths, ["-"] * len(paths), size=size, flip=True, **settings)
    return Samples(tuple(map(str, paths)), inputs, labels)


def ours(paths, size, normalised=False, **settings):
    """Load everything once with our pipeline."""
    samples = files(paths, size, **settings)
    mean, std = (255 * torch.tensor(values, device=DEVICE).reshape(1, 3, 1, 1) for values in (MEAN, STD))
    batches = EpochBatches(len(samples), BATCH, seed=0)
    for inputs, _, _ in make_loader(samples, batches, 0, 1, DEVICE.type == "cuda"):
        on_device = inputs.to(DEVICE, non_blocking=True)
        if normalised:
            on_device.float().sub_(mean).div_(std)


def cpu_seconds():
    """CPU seconds of this process and of its child processes that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def seconds(candidates):
    """CPU seconds of each candidate in each round: {name: [seconds]}."""
    timings = {name: [] for name in candidates}
    for round_ in range(ROUNDS + 1):  # the first one warms up
        for name, call in candidates.items():
            started = cpu_seconds()
            call()
            if round_:
                timings[name].append(cpu_seconds() - started)
    return timings


def ratio(timings, name, base):
    """Median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(timings[name], timings[base], strict=True))


def loading(paths, size, large):
    """Images per second of each candidate, and its speed relative to the plain pipeline."""
    candidates = {
        "plain": lambda: plain(paths, size),
        "ours": lambda: ours(paths, size),
        "ours, normalised": lambda: ours(paths, size, normalised=True),
        "ours, torchvision": lambda: ours(paths, size, decoder="torchvision"),
    }
    if large:
        candidates["ours, data.draft"] = lambda: ours(paths, size, draft=True)
    timings = seconds(candidates)
    return {
        name: {
            "images per second": len(paths) / statistics.median(timings[name]),
            "over plain": ratio(timings, "plain", name),
        }
        for name in candidates
    }


def difference(paths, size):
    """Largest and mean difference between the pixels of the two decoders, of 255."""
    result = {}
    for interpolation in ("bilinear", "bicubic"):
        first = files(paths, size, interpolation=interpolation).inputs
        second = replace(first, decoder="torchvision", draft=False)
        largest, means = 0, []
        for row in range(len(paths)):
            off = (first.fetch([row]).int() - second.fetch([row]).int()).abs()
            largest = max(largest, int(off.max()))
            means.append(float(off.float().mean()))
        result[interpolation] = {"largest": largest, "mean": statistics.mean(means)}
    return result


def views(paths, size):
    """Milliseconds per image for three views, decoded once and decoded for each view."""
    inputs = files(paths, size).inputs
    further = [Augment(0, 0, 1, "weak"), Augment(0, 0, 2, "strong")]
    batches = [range(start, min(start + BATCH, len(paths))) for start in range(0, len(paths), BATCH)]

    def once():
        for rows in batches:
            inputs.fetch_views(rows, Augment(0, 0), further)

    def each():
        for rows in batches:
            for augment in (Augment(0, 0), *further):
                inputs.fetch(rows, augment)

    timings = seconds({"once": once, "each": each})
    return {
        "milliseconds per image": 1e3 * statistics.median(timings["once"]) / len(paths),
        "three fetches over one": ratio(timings, "each", "once"),
    }


def enlarged(paths, side, folder):
    """Write the images with `side` pixels on the longer side, as JPEGs of quality 90."""
    for path in paths:
        with Image.open(path) as image:
            scale = side / max(image.size)
            size = tuple(round(scale * length) for length in image.size)
            image.convert("RGB").resize(size, Image.Resampling.LANCZOS).save(folder / path.name, quality=90)
    return sorted(folder.iterdir())


def compared(paths, large):
    """Measure all pipelines on some images at each size."""
    sides = []
    for path in paths:
        with Image.open(path) as image:
            sides.append(image.size)
    result = {"images": len(paths), "median size": [int(side) for side in np.median(sides, 0)]}
    for size in SIZES:
        result[str(size)] = loading(paths, size, large) | {
            "views": views(paths[: 8 * BATCH], size),
            "difference": difference(paths, size),
        }
    print(result, flush=True)
    return result


def images(source, work):
    """Sets of images: those of each folder as they are, and a sample of all, enlarged."""
    sets = {folder.name: sorted(folder.rglob("*.jpg")) for folder in sorted(source.iterdir())}
    draw, paths = random.Random(0), sorted(itertools.chain(*sets.values()))
    draw.shuffle(paths)
    result = {}
    for name, photographs in sets.items():
        if photographs:
            result[name] = compared(draw.sample(photographs, min(IMAGES, len(photographs))), False)
    for side, count in ENLARGED.items():
        with tempfile.TemporaryDirectory(dir=work) as folder:
            result[f"enlarged to {side} pixels"] = compared(enlarged(paths[:count], side, Path(folder)), True)
    return result


# -- features of images ----------------------------------------------------------------------------------


def bare_features(paths, network, workers):
    """Features by a bare loop over a timm model."""
    with torch.inference_mode():
        parts = [
            network(batch[0].to(memory_format=torch.channels_last)).numpy()
            for batch in DataLoader(Plain(paths, SIZES[0]), BATCH, num_workers=workers)
        ]
    return np.concatenate(parts)


def our_features(paths, digests, backbone, workers, decoder, precision):
    """Features as `spml train` computes and keeps them."""
    inputs = ImageFiles(paths, digests, size=SIZES[0], decoder=decoder)
    with tempfile.TemporaryDirectory() as folder:
        options = {"batch_size": BATCH, "workers": workers, "precision": precision}
        cached_features(backbone, inputs, Path(folder), key="", **options)


def features_of_images(paths):
    """Images per second of computing features, by number of workers."""
    network = timm.create_model(NETWORK, num_classes=0).eval().to(memory_format=torch.channels_last)
    backbone = create_backbone(BackboneSpec(NETWORK, {}, SIZES[0], MEAN, STD, "bilinear", "random"))
    digests, _ = check_images(paths, max_pixels=10**8)
    result = {}
    for workers in (0, 1):
        candidates = {"bare timm loop": partial(bare_features, paths, network, workers)}
        for decoder, precision in itertools.product(("pillow", "torchvision"), ("32-true", "bf16-mixed")):
            name = f"ours, {decoder}, {precision}"
            candidates[name] = partial(our_features, paths, digests, backbone, workers, decoder, precision)
        seconds = {name: [] for name in candidates}
        for round_ in range(ROUNDS + 1):  # the first one warms up
            for name, call in candidates.items():
                spent = timed(call)
                if round_:
                    seconds[name].append(spent)
        for name, each in seconds.items():
            result.setdefault(name, {})[str(workers)] = {
                "images per second": len(paths) / statistics.median(each),
                "over bare": ratio(seconds, "bare timm loop", name),
            }
    return result


# -- features --------------------------------------------------------------------------------------------


def timed(call):
    """Wall time in seconds."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


IDENTITIES = np.random.default_rng(2).integers(0, 256, (FEATURES, 32), np.uint8)


def write_features(folder):
    """Write features like those of a ResNet, none below zero."""
    generator = np.random.default_rng(0)
    with FeatureStore(folder) as store:
        for start in range(0, FEATURES, FEATURE_BATCH):
            identities = IDENTITIES[start : start + FEATURE_BATCH]
            values = generator.standard_normal((len(identities), WIDTH), np.float32)
            store.append(identities, np.maximum(values, 0))


def read_features(folder):
    """Find all features, which checks the files."""
    store = FeatureStore(folder)
    return store.features(store.locate(IDENTITIES))


def forget(folder):
    """Make the system drop the files of a folder from its cache in memory."""
    for path in folder.iterdir():
        with open(path, "rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def load(train):
    """Load an epoch and do nothing with it."""
    for _ in make_loader(train, EpochBatches(FEATURES, FEATURE_BATCH, seed=0), 0, 0, False):
        pass


def epochs(train, method, count):
    """Seconds for computing the scale of the features, wall time per epoch, and CPU time per epoch."""
    names = tuple(f"class {column}" for column in range(CLASSES))
    few = range(FEATURE_BATCH)
    val = Samples(train.ids[:FEATURE_BATCH], train.inputs.take(few), train.observed.take(few))
    config = from_dict(
        {"data": {"path": "-"}, "method": method, "epochs": count, "batch_size": FEATURE_BATCH,
         "optim": {"name": "adam", "lr": 1e-3}}
    )  # fmt: skip
    fabric = make_fabric("cpu")
    top = Top(WIDTH, CLASSES)
    scale = timed(lambda: top.fit_scaling(train.inputs))
    model = Classifier(create_backbone(BackboneSpec("none", width=WIDTH)), top)
    objective = create(method)
    objective.on_fit_start(Facts(train.observed, train.ids, names, MEAN_LABELS))
    data = Dataset("features", names, {"train": train, "val": val}, {})
    judge = Judge(val, None, "observed", None)
    trainer, started = Trainer(config, fabric, model, top.head, objective, data, judge), cpu_seconds()
    history, used = trainer.fit().history, cpu_seconds() - started
    ends = [0.0, *(record["seconds"] for record in history)]
    return scale, [after - before for before, after in itertools.pairwise(ends)], used / count


def features(work):
    """Seconds of each part of an epoch on cached features."""
    labels = np.random.default_rng(1).integers(0, CLASSES, FEATURES)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        path = Path(folder) / "features"
        result = {"writing the file": timed(lambda: write_features(path))}
        result["checking the file"] = statistics.median(
            timed(lambda: read_features(path)) for _ in range(ROUNDS)
        )
        matrix = read_features(path)
        train = Samples(tuple(map(str, range(FEATURES))), matrix, ObservedLabels.from_index(labels, CLASSES))
        forget(path)
        result["loading an epoch, file not in memory"] = timed(lambda: load(train))
        result["loading an epoch"] = statistics.median(timed(lambda: load(train)) for _ in range(ROUNDS))
        for method in METHODS:
            result["scale of the features, once"], every, used = epochs(train, method, ROUNDS)
            result[f"an epoch of {method}"] = statistics.median(every)
            result[f"the slowest epoch of {ROUNDS}, {method}"] = max(every)
            result[f"processor time of an epoch of {method}"] = used
    return result


# -- report ----------------------------------------------------------------------------------------------


def report(result):
    """The tables as Markdown."""
    lines = [
        f"{result['date']}, {result['machine']}, torch {result['versions']['torch']}, torchvision "
        f"{result['versions']['torchvision']}, Pillow {result['versions']['pillow']}, device {DEVICE.type}. "
        "`python benchmarks/loading.py`.",
        "",
        "Images per second of one core, decoded, resized, mirrored, collated and on the device; in brackets "
        "over the plain torchvision pipeline:",
        "",
        "| images | size | plain | ours | ours, normalised on that core | ours, `torchvision` | "
        "ours, `data.draft` |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, measured in result["images"].items():
        for size in map(str, SIZES):
            width, height = measured["median size"]
            cells = [f"{measured[size]['plain']['images per second']:.0f}"]
            for key in ("ours", "ours, normalised", "ours, torchvision", "ours, data.draft"):
                cell = measured[size].get(key)  # none where no image is large enough for a draft
                cells.append(f"{cell['images per second']:.0f} ({cell['over plain']:.2f})" if cell else "")
            lines.append(f"| {name}, {width} x {height} | {size} | {' | '.join(cells)} |")
    lines += [
        "",
        "Pixels of `data.decoder` `torchvision` less those of Pillow, of 255, largest (mean):",
        "",
        *table_head("images", "size", "bilinear", "bicubic"),
    ]
    for name, measured in result["images"].items():
        for size in map(str, SIZES):
            off = measured[size]["difference"]
            cells = [f"{off[kind]['largest']} ({off[kind]['mean']:.3f})" for kind in ("bilinear", "bicubic")]
            lines.append(f"| {name} | {size} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Features of images by {NETWORK} at {SIZES[0]} pixels, images per second, in brackets over the bare "
        "loop:",
        "",
        *table_head("", "no worker", "one worker"),
    ]
    for name, cells in result["features of images"].items():
        shares = [f"{cell['images per second']:.0f} ({cell['over bare']:.2f})" for cell in cells.values()]
        lines.append(table_row(name, *shares))
    lines += [
        "",
        "An ordinary, a weak and a strong view, in milliseconds per image, and three fetches over that:",
        "",
        *table_head("images", "size", "decoded once", "decoded for each"),
    ]
    for name, measured in result["images"].items():
        for size in map(str, SIZES):
            cell = measured[size]["views"]
            lines.append(
                f"| {name} | {size} | {cell['milliseconds per image']:.2f} | "
                f"{cell['three fetches over one']:.2f} |"
            )
    lines += [
        "",
        f"Seconds for {FEATURES:,} x {WIDTH} float32 features ({4 * FEATURES * WIDTH / 1e6:.0f} MB), "
        f"{CLASSES} classes, batches of {FEATURE_BATCH}, linear head, Adam, one thread:",
        "",
        *table_head("", "seconds"),
        *(f"| {name} | {value:.2f} |" for name, value in result["features"].items()),
    ]
    return "\n".join(lines) + "\n"


def main():
    """Measure and write the results."""
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__)
        return 2
    source, work = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) == 3 else None
    torch.set_num_threads(1)
    result = today(pillow=PIL.__version__)
    result["features"] = features(work)
    result["images"] = images(source, work)
    photographs = sorted(source.rglob("*.jpg"))
    result["features of images"] = features_of_images(random.Random(1).sample(photographs, 4 * BATCH))
    save_results("loading", result, report(result))
    print(report(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
