"""Runs with one known label per sample that several tests read. A test that changes one copies it first."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import spml
from spml.data.dataset import Loaded
from spml.models.backbones import Backbone
from spml.runs.audits import find as auditing
from spml.runs.predict import cluster as stream
from spml.runs.predict.cluster import work_on
from tests.helpers.features import make_weights, train_hidden
from tests.helpers.photo_runs import write_photos


@pytest.fixture(scope="session")
def ridge_run(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run with a ridge head and without K, with held-out scores of the validation samples."""
    return train_hidden(features, tmp_path_factory.mktemp("runs") / "ridge", "--head ridge")


@pytest.fixture(scope="session")
def auto_run(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run with an auto head and without K, with held-out scores of all labelled samples."""
    return train_hidden(features, tmp_path_factory.mktemp("runs") / "auto")


@pytest.fixture(scope="session")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CSV of 80 photos, in a folder next to weights of a small network."""
    folder = tmp_path_factory.mktemp("coloured")
    make_weights(folder / "weights.safetensors", "test_convnext", 96)
    return write_photos(folder / "photos", 80)


@pytest.fixture(scope="session")
def local_run(coloured: Path) -> Path:
    """Folder, next to that of the photos, of a run that scores windows of them, with K stated."""
    folder = coloured.parent.parent
    source = "--data.separator", " ", "--weights", folder / "weights.safetensors"
    options = "--data.size 96 --data.workers 0 --backbone test_convnext --local on --mean_labels 1.5"
    return train_hidden(coloured, folder / "run", *source, options, "--method auto --overwrite")


@pytest.fixture(scope="session")
def photo_run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> spml.Run:
    """A run with a small network that is trained on photos."""
    return spml.train(
        photos, backbone="small_cnn", weights="random", method="an", epochs=1, threads=1, quiet=True,
        pictures=False, data={"size": 32, "workers": 0}, output=tmp_path_factory.mktemp("runs") / "photos",
    )  # fmt: skip


@pytest.fixture
def played(monkeypatch):
    """This process computes what the cluster would, and hands it over in the form that Ray transports.

    Returns:
        What was computed by each job: `logits` or `features`.
    """
    jobs = []

    class PlayedRay:
        """A cluster of one machine with two cores and a GPU."""

        exceptions = SimpleNamespace(RayError=ConnectionError)

        @staticmethod
        def nodes():
            return [
                {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0}}, {"Alive": False, "Resources": {}}
            ]  # fmt: skip

        @staticmethod
        def remote(**resources):
            def start(job, rows, values):
                results = pickle.loads(pickle.dumps(work_on(job, rows, values)))
                for each in results:
                    for part in each if isinstance(each, Loaded) else ():
                        if isinstance(part, np.ndarray):
                            part.setflags(write=False)
                return results

            return lambda function: SimpleNamespace(remote=start)

        @staticmethod
        def put(job):
            jobs.append("features" if isinstance(job.network, Backbone) else "logits")
            return job

        get = staticmethod(lambda results: results)
        cancel = staticmethod(lambda results: None)

    monkeypatch.setattr(stream, "connected", lambda *_: contextlib.nullcontext(PlayedRay))
    monkeypatch.setattr(auditing, "connected", lambda *_: contextlib.nullcontext())
    return jobs
