"""Methods of every kind learn: a few epochs on embedded scenes and on real features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import spml
from spml.config import DataConfig
from spml.data import open_dataset, readers
from spml.data.readers.digits import make_digits
from spml.methods.registry import methods
from spml.models import MAP_HEADS

FULL = ("bce", "iun")  # learn from full labels
IMAGES = {name for name, cls in methods().items() if cls.card.head in MAP_HEADS} | {"ignore", "scl"}
LEARNS = (
    *("an", "bce", "iun", "asl", "splc", "lasd", "csl", "gr", "gpr", "entmin", "softmax", "show", "opml_sp"),
    *("epr", "role", "ll_cp", "em_apl", "en", "nnpu", "crisp", "pumlc", "mime", "smile", "combine"),
)


def trained(tmp_path, source, method, unlisted="unknown", **settings):
    """Train shortly and return the validation mAP, computed with full validation labels."""
    hidden = "none" if method in FULL else "single"
    data = {"unlisted": unlisted, "observe": hidden, "val_share": 0.4}
    run = spml.train(
        source, method=method, data=data, mean_labels=2.0, select="observed", threads=1,
        output=str(tmp_path / "run"), quiet=True, pictures=False, **settings,
    )  # fmt: skip
    summary = json.loads((run.folder / "summary.json").read_text())
    return summary["validation"]["val/mAP"]


def chance(source, unlisted="unknown"):
    """Return nearly the mAP of random scores: the mean share of positives."""
    data = open_dataset(DataConfig(path=str(source), unlisted=unlisted, observe="single"))
    return float(np.mean(data.truth["val"].positives_per_class() / len(data.splits["val"])))


@pytest.fixture(scope="module")
def few_digits():
    """Fewer and smaller scenes of digits than users have."""
    return make_digits(1600, 300, 1, size=32)


@pytest.mark.long
@pytest.mark.parametrize("method", [*sorted(IMAGES), "plc", "gr"])  # maps; two views; logits alone
def test_methods_that_need_images_learn_scenes_of_digits(method, few_digits, tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "make_digits", lambda: few_digits)
    settings = {"epochs": 3, "optim": {"lr": 4e-3}}
    if method == "lac":  # its head is a transformer
        small = {"ffn": 64, "encoder_layers": 0, "decoder_layers": 1}
        settings = {"epochs": 4, "optim": {"lr": 2e-3}, "model": small}
    actual = trained(tmp_path, "digits", method, batch_size=32, **settings)
    assert actual > 2 * chance("digits")


@pytest.fixture(scope="module")
def real(shared, tmp_path_factory) -> tuple[Path, float]:
    """A file with some rows of real features, and the mAP of random scores on them."""
    arrays = dict(np.load(shared / "data/features/voc2012p_mnv2_224.npz"))
    rows = np.sort(np.random.default_rng(0).permutation(len(arrays["X"]))[:1000])
    arrays |= {name: arrays[name][rows] for name in ("X", "Y", "names", "split")}
    path = tmp_path_factory.mktemp("real") / "real.npz"
    np.savez(path, **arrays)
    return path, chance(path, "negative")


@pytest.mark.shared
@pytest.mark.parametrize("method", LEARNS)
def test_methods_learn_from_real_features(method, real, tmp_path):
    source, least = real
    actual = trained(tmp_path, source, method, "negative", epochs=4, batch_size=32, optim={"lr": 3e-3})
    # Entropy minimisation collapses, as published.
    assert actual > (1.2 if method == "entmin" else 2) * least
