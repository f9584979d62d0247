"""Measure the speed of loading: images against a plain torchvision pipeline, views, and cached features.

    python benchmarks/loading.py IMAGE_FOLDER

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
features and classes as COCO's training part has, from the memory-mapped file of the feature cache, in wall
time.

Writes benchmarks/results/loading.json and .md.
"""

from __future__ import annotations

import itertools
import random
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
from shared import cpu_seconds, markdown, ratio, save_results, table, today
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


# -- images ----------------------------------------------------------------------------------------------


class Plain(TorchDataset):
    """Dataset that loads images as tutorials do."""

    def __init__(self, paths, size, mean=MEAN, std=STD, *, flip=True):
        self.paths = paths
        steps = [transforms.Resize((size, size)), transforms.ToTensor(), transforms.Normalize(mean, std)]
        self.transform = transforms.Compose([transforms.RandomHorizontalFlip()] * flip + steps)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, row):
        return self.transform(Image.open(self.paths[row]).convert("RGB")), row % CLASSES


def plain(paths, size):
    """Load everything once with the plain pipeline."""
    for _ in DataLoader(Plain(paths, size), BATCH, shuffle=True, num_workers=1):
        pass


def files(paths, size, **settings):
    """Our samples: images with labels."""
    labels = ObservedLabels.from_index(np.arange(len(paths)) % CLASSES, CLASSES)
    inputs = ImageFiles(paths, ["-"] * len(paths), size=size, flip=True, **settings)
    return Samples(tuple(map(str, paths)), inputs, labels)


def ours(paths, size, normalised=False, **settings):
    """Load everything once with our pipeline."""
    samples = files(paths, size, **settings)
    mean, std = (255 * torch.tensor(values).reshape(1, 3, 1, 1) for values in (MEAN, STD))
    batches = EpochBatches(len(samples), BATCH, seed=0)
    for inputs, _, _ in make_loader(samples, batches, 0, 1, False):
        if normalised:
            inputs.float().sub_(mean).div_(std)


def in_turns(candidates, clock=cpu_seconds):
    """Seconds of each candidate in each round: {name: [seconds]}."""
    timings = {name: [] for name in candidates}
    for round_ in range(ROUNDS + 1):  # the first one warms up
        for name, call in candidates.items():
            started = clock()
            call()
            if round_:
                timings[name].append(clock() - started)
    return timings


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
    timings = in_turns(candidates)
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

    timings = in_turns({"once": once, "each": each})
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


def images(source):
    """Sets of images: those of each folder as they are, and a sample of all, enlarged."""
    sets = {folder.name: sorted(folder.rglob("*.jpg")) for folder in sorted(source.iterdir())}
    draw, paths = random.Random(0), sorted(itertools.chain(*sets.values()))
    draw.shuffle(paths)
    result = {}
    for name, photographs in sets.items():
        if photographs:
            result[name] = compared(draw.sample(photographs, min(IMAGES, len(photographs))), False)
    for side, count in ENLARGED.items():
        with tempfile.TemporaryDirectory() as folder:
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
        timings = in_turns(candidates, time.perf_counter)
        for name, each in timings.items():
            result.setdefault(name, {})[str(workers)] = {
                "images per second": len(paths) / statistics.median(each),
                "over bare": ratio(timings, "bare timm loop", name),
            }
    return result


# -- features --------------------------------------------------------------------------------------------


def cached(folder):
    """Features like those of a ResNet, none below zero, from the files of the cache."""
    generator = np.random.default_rng(0)
    identities = np.random.default_rng(2).integers(0, 256, (FEATURES, 32), np.uint8)
    with FeatureStore(folder) as store:
        for start in range(0, FEATURES, FEATURE_BATCH):
            some = identities[start : start + FEATURE_BATCH]
            values = generator.standard_normal((len(some), WIDTH), np.float32)
            store.append(some, np.maximum(values, 0))
    store = FeatureStore(folder)
    return store.features(store.locate(identities))


def epochs(train, method, count):
    """Wall time of each epoch in seconds."""
    names = tuple(f"class {column}" for column in range(CLASSES))
    few = range(FEATURE_BATCH)
    val = Samples(train.ids[:FEATURE_BATCH], train.inputs.take(few), train.observed.take(few))
    config = from_dict(
        {"data": {"path": "-"}, "method": method, "epochs": count, "batch_size": FEATURE_BATCH,
         "optim": {"name": "adam", "lr": 1e-3}}
    )  # fmt: skip
    top = Top(WIDTH, CLASSES)
    top.fit_scaling(train.inputs)
    model = Classifier(create_backbone(BackboneSpec("none", width=WIDTH)), top)
    objective = create(method)
    objective.on_fit_start(Facts(train.observed, train.ids, names, MEAN_LABELS))
    data = Dataset("features", names, {"train": train, "val": val}, {})
    judge = Judge(val, None, "observed", None)
    trainer = Trainer(config, make_fabric("cpu"), model, top.head, objective, data, judge)
    ends = [0.0, *(record["seconds"] for record in trainer.fit().history)]
    return [after - before for before, after in itertools.pairwise(ends)]


def features():
    """Seconds of an epoch on cached features."""
    labels = np.random.default_rng(1).integers(0, CLASSES, FEATURES)
    with tempfile.TemporaryDirectory() as folder:
        matrix = cached(Path(folder))
        train = Samples(tuple(map(str, range(FEATURES))), matrix, ObservedLabels.from_index(labels, CLASSES))
        return {
            f"an epoch of {method}": statistics.median(epochs(train, method, ROUNDS)) for method in METHODS
        }


# -- report ----------------------------------------------------------------------------------------------


def page(result):
    """The tables as Markdown."""
    sets = [(name, size, cells) for name, cells in result["images"].items() for size in map(str, SIZES)]
    speeds, pixels, views_ = [], [], []
    for name, size, measured in sets:
        width, height = measured["median size"]
        cells = [f"{measured[size]['plain']['images per second']:.0f}"]
        for key in ("ours", "ours, normalised", "ours, torchvision", "ours, data.draft"):
            cell = measured[size].get(key)  # none where no image is large enough for a draft
            cells.append(f"{cell['images per second']:.0f} ({cell['over plain']:.2f})" if cell else "")
        speeds.append((f"{name}, {width} x {height}", size, *cells))
        off = [measured[size]["difference"][kind] for kind in ("bilinear", "bicubic")]
        pixels.append((name, size, *("{largest} ({mean:.3f})".format(**each) for each in off)))
        cell = measured[size]["views"]
        once, each = cell["milliseconds per image"], cell["three fetches over one"]
        views_.append((name, size, f"{once:.2f}", f"{each:.2f}"))
    of_images = [
        (name, *(f"{cell['images per second']:.0f} ({cell['over bare']:.2f})" for cell in cells.values()))
        for name, cells in result["features of images"].items()
    ]
    return markdown(
        f"{result['date']}, {result['machine']}, torch {result['versions']['torch']}, torchvision "
        f"{result['versions']['torchvision']}, Pillow {result['versions']['pillow']}, device cpu. "
        "`python benchmarks/loading.py`.",
        "Images per second of one core, decoded, resized, mirrored, collated and on the device; in brackets "
        "over the plain torchvision pipeline:",
        table(
            "images | size | plain | ours | ours, normalised on that core | ours, `torchvision` | "
            "ours, `data.draft`",
            speeds,
        ),
        "Pixels of `data.decoder` `torchvision` less those of Pillow, of 255, largest (mean):",
        table("images | size | bilinear | bicubic", pixels),
        f"Features of images by {NETWORK} at {SIZES[0]} pixels, images per second, in brackets over the bare "
        "loop:",
        table(("", "no worker", "one worker"), of_images),
        "An ordinary, a weak and a strong view, in milliseconds per image, and three fetches over that:",
        table("images | size | decoded once | decoded for each", views_),
        f"Seconds for {FEATURES:,} x {WIDTH} float32 features ({4 * FEATURES * WIDTH / 1e6:.0f} MB), "
        f"{CLASSES} classes, batches of {FEATURE_BATCH}, linear head, Adam, one thread:",
        table(("", "seconds"), [(name, f"{value:.2f}") for name, value in result["features"].items()]),
    )


def main(source):
    """Measure and write the results."""
    source = Path(source)
    torch.set_num_threads(1)
    result = today(pillow=PIL.__version__)
    result["features"] = features()
    result["images"] = images(source)
    photographs = sorted(source.rglob("*.jpg"))
    result["features of images"] = features_of_images(random.Random(1).sample(photographs, 4 * BATCH))
    save_results("loading", result, page(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
