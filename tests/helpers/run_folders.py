"""Folders of runs without training, and changes to their files."""

from __future__ import annotations

import json

import torch

from spml.config import ModelConfig
from spml.decisions import ClassCut, MeanLabels, Policy, Rows, Target, encode_policy, scores_of
from spml.models import Classifier, Top, build_backbone, save_classifier
from tests.helpers.networks import GREY, describe

CARD = {
    "classes": ["a", "b", "c"],
    "method": {"name": "an", "hp": {}},
    "threshold": {
        "logit": 0.5,
        "labels_per_sample": 2.0,
        "source": "stated",
        "curve": [[0.5, 3.0], [1.0, 1.0], [3.0, -2.0]],
    },
    "without_positives": ["b"],
}


def save_run(folder):
    """A model for grey images of 40 x 40 pixels, which is not trained."""
    torch.manual_seed(0)
    config = ModelConfig()
    backbone = build_backbone(describe(config, GREY), config)
    save_classifier(folder, Classifier(backbone, Top(64, 3)), backbone.spec, CARD)
    save_thresholds(folder)
    return folder


def save_thresholds(folder, logit=0.5):
    """Thresholds of a model with `CARD`: one logit for all classes but the second, which no sample had."""
    score = float(scores_of(logit, "sigmoid"))
    policy = Policy(
        spml="",
        model=json.loads((folder / "model.json").read_text())["weights_sha256"],
        scale="sigmoid",
        target=Target("labels", per_class=False),
        mean_labels=MeanLabels(2.0, "default"),
        rows=Rows(10, "held out"),
        classes=(
            ClassCut("a", score, None, None, None, None, 5),
            ClassCut("b", None, None, None, None, None, 0),
            ClassCut("c", score, None, None, None, None, 5),
        ),
    )
    (folder / "thresholds.json").write_bytes(encode_policy(policy))


def change(folder, path, value):
    """Set the value at a path of keys in model.json; None removes it."""
    card = json.loads((folder / "model.json").read_text())
    card.pop("sha256", None)
    *parents, last = path.split(".")
    part = card
    for key in parents:
        part = part[key]
    if value is None:
        del part[last]
    else:
        part[last] = value
    (folder / "model.json").write_text(json.dumps(card))


def damaged_bits(path):
    """Writes a file with one damaged bit, for every third of its bits in turn; yields the bit."""
    data = path.read_bytes()
    for bit in range(0, 8 * len(data), 3):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        yield bit


SUMMARY = {
    "selected": {"metric": "val/SP", "mean_labels": 2.0, "penalty": "infinity"},
    "validation": {"val/SP": 0.7},
    "test": {"mAP": 0.8},
    "data": {"fingerprint": "0123"},
    "metrics_sha256": "4567",
    "candidates": [{"run": "head", "kept": True}],
}
