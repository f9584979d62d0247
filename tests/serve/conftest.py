"""Runs to serve, and clients."""

from __future__ import annotations

from pathlib import Path

import pytest

import spml
from tests.helpers.texts import make_texts, write_texts


@pytest.fixture(scope="session")
def photo_run(photos, tmp_path_factory) -> Path:
    """Folder of a run of images with probabilities."""
    run = spml.train(
        photos, method="em", epochs=1, batch_size=12,
        model={"backbone": "small_cnn", "weights": "random"}, data={"size": 32, "workers": 0},
        threads=1, mean_labels=1.2, quiet=True, pictures=False,
        output=str(tmp_path_factory.mktemp("runs") / "photos"),
    )  # fmt: skip
    return run.folder


@pytest.fixture(scope="session")
def text_run(tmp_path_factory) -> Path:
    """Folder of a run of texts with probabilities."""
    folder = tmp_path_factory.mktemp("texts")
    table, output = write_texts(folder / "texts.csv", make_texts()), str(folder / "run")
    data = {"text": "title,abstract"}
    settings = {"head": "ridge", "mean_labels": 1.5, "threads": 1, "quiet": True, "pictures": False}
    return spml.train(table, data=data, output=output, **settings).folder
