"""Feature sets and weights of small networks, written to files."""

from __future__ import annotations

import json

import numpy as np
import torch
from safetensors.torch import save_file

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
