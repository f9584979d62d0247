"""Feature sets and weights of small networks, written to files."""

from __future__ import annotations

import json

import numpy as np
import torch
from safetensors.torch import save_file

from spml.models import load_classifier
from tests.helpers.commands import execute

BACKBONE = "test_efficientnet"


HIDE = ["--data.unlisted", "negative", "--data.observe", "single"]


def make_features(path, seed=0):
    """Full labels over four classes, and features that tell them."""
    generator = np.random.default_rng(seed)
    truth = (generator.random((300, 4)) < 0.4).astype(np.uint8)
    truth[np.arange(300), generator.integers(0, 4, 300)] = 1
    matrix = truth @ generator.normal(size=(4, 10)) + 0.3 * generator.normal(size=(300, 10))
    split = np.array(["train"] * 160 + ["val"] * 60 + ["test"] * 80)
    np.savez(path, X=matrix.astype(np.float32), Y=truth, classes=np.array(list("abcd")), split=split)
    return path


def make_steps(rows, seed=0):
    """Features, float32 (rows, 8), whose four classes are told by steps of single ones: a forest is better at
    that than linear heads. And the class of each row."""
    features = np.random.default_rng(seed).normal(size=(rows, 8)).astype(np.float32)
    return features, (np.abs(features[:, 0]) > 0.7) + 2 * (np.abs(features[:, 1] - 0.5) < 0.7)


def make_weights(path, name=BACKBONE, size=32):
    """A file of weights of a model of timm, as if they had been pretrained."""
    import timm

    torch.manual_seed(0)
    save_file(timm.create_model(name, pretrained=False).state_dict(), path)
    path.with_suffix(".json").write_text(json.dumps({"timm_model": name, "input_size": [3, size, size]}))
    return path


def records(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def train_hidden(features, output, *more):
    """Train on features with one known label per sample, the others hidden; returns the folder of the run."""
    execute("train", features, *HIDE, "--threads 1", *more, "--output", output)
    return output


def arrays_of(path, split=""):
    """Arrays of a feature file by name; with a split, those of its rows."""
    with np.load(path) as stored:
        rows = stored["split"] == split if split else slice(None)
        return {name: stored[name] if name == "classes" else stored[name][rows] for name in stored}


def copy_features(path, copy, part="", **changed):
    """Write a feature file, or a split of it alone, with some other arrays; None leaves one out."""
    arrays = {**arrays_of(path, part), **({"split": None} if part else {}), **changed}
    np.savez(copy, **{name: array for name, array in arrays.items() if array is not None})
    return copy


def logits_of(folder, rows):
    """Logits of rows of features by the model of a run alone."""
    with torch.no_grad():
        return load_classifier(folder)[0](torch.from_numpy(rows)).logits.numpy()
