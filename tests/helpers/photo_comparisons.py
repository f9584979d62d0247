"""A comparison on photographs with weights of small backbones."""

from __future__ import annotations

import json

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from spml.bench.plan import CODE_VERSION
from spml.bench.workers import Job
from tests.bench.toys import save_spec

BACKBONE = "test_efficientnet"  # timm's own model for tests


SPEC = """
title: images
data:
  photos: {path: photos/labels.csv, separator: ' ', unlisted: negative, size: 32, mean_labels: 1.4}
hiding:
  uniform: {observe: single}
candidates:
  - {name: frozen, method: an}
  - {name: frozen others, method: an, model.weights: weights/other.safetensors}
  - {name: maps, method: ignore, hp.warmup: 1}
  - {name: fine-tuned, method: gr, model.frozen: "no"}
  - {name: from nothing, method: an, model.backbone: small_cnn, model.weights: random}
  - {name: solved, model.head: ridge}
  - {name: full, method: bce, labels: full}
baseline: frozen
ceiling: full
modes: [oracle, observed, "audit:10"]
seeds: 1
draws: 10
train: {epochs: 2, batch_size: 16, model.weights: weights/tiny.safetensors}
"""


SPLITS = ["train"] * 48 + ["val"] * 20 + ["test"] * 20


def save_photos(folder):
    """Images of four classes; each class is a stripe with its own position and colour in noise."""
    generator = np.random.default_rng(0)
    (folder / "photos").mkdir(exist_ok=True)
    lines = ["file,labels,split"]
    for row, split in enumerate(SPLITS):
        labels = np.flatnonzero(generator.random(4) < 0.3)
        labels = labels if len(labels) else [generator.integers(4)]
        pixels = generator.integers(0, 120, (36, 40, 3), dtype=np.uint8)
        for label in labels:
            pixels[9 * label : 9 * label + 9, :, label % 3] += 100
        Image.fromarray(pixels).save(folder / "photos" / f"{row}.png")
        lines.append(f"{row}.png,{' '.join('abcd'[label] for label in labels)},{split}")
    (folder / "photos" / "labels.csv").write_text("\n".join(lines))


def save_weights(path, seed):
    import timm

    torch.manual_seed(seed)
    path.parent.mkdir(exist_ok=True)
    save_file(timm.create_model(BACKBONE, pretrained=False).state_dict(), path)
    path.with_suffix(".json").write_text(json.dumps({"timm_model": BACKBONE}))


def job_in(folder, text=SPEC):
    save_photos(folder)
    save_weights(folder / "weights" / "tiny.safetensors", 0)
    save_weights(folder / "weights" / "other.safetensors", 1)
    path = save_spec(folder, text)
    (folder / "out").mkdir(exist_ok=True)
    url = f"sqlite:///{folder / 'out' / 'store.sqlite'}"
    return Job(str(path), path.read_text(), str(folder), str(folder / "out"), url, CODE_VERSION)
