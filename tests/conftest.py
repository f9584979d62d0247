"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, settings

# Set before torch is imported: two threads on a busy two-core machine are far slower than one.
# What takes seconds to import is imported by fixtures, since the process that hands tests out to others, and
# runs none, reads this file, too.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Random tests draw the same examples in every run, so that a failure belongs to a change of the code.
# In the environment, FUZZ=random draws new ones.
settings.register_profile(
    "spml",
    derandomize=os.environ.get("FUZZ") != "random",
    deadline=None,  # the machine may be busy
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("spml")

# A search for garbage passes all objects of torch, and the default is one after 700 new objects.
gc.set_threshold(20_000)

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


@pytest.fixture(scope="session", autouse=True)
def blank_pictures() -> Iterator[None]:
    """Figures are put together but saved blank, since painting them is half of what a short training takes.

    Other processes paint, and tests that use `painted_pictures`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spml.plots.style.write_with", _write_blank)
        yield


@pytest.fixture(scope="module")
def painted_pictures(blank_pictures: None) -> Iterator[None]:
    """Figures are painted, for tests that look at them or compare their files."""
    from spml.common.files import write_with

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spml.plots.style.write_with", write_with)
        yield


def _write_blank(path: Path, _: object) -> None:
    """Write a blank figure by the same operations on files."""
    from PIL import Image

    from spml.common.files import write_with

    def write(stream: BinaryIO) -> None:
        if path.suffix == ".svg":
            stream.write(b'<svg xmlns="http://www.w3.org/2000/svg"/>')
        else:
            Image.new("RGB", (8, 8), "white").save(stream, "png")

    write_with(path, write)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Torch computes on one thread, whatever the environment says."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def few_trees() -> Iterator[None]:
    """Forests of auto heads are small, since growing them takes most of the time of a small auto head."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spml.models.solved.auto.TREES", 20)
        patch.setattr("spml.models.solved.auto.MORE_TREES", 20)
        yield


@pytest.fixture
def all_trees(few_trees: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forests are as large as users have them."""
    from spml.models.solved.forest import MORE_TREES, TREES

    monkeypatch.setattr("spml.models.solved.auto.TREES", TREES)
    monkeypatch.setattr("spml.models.solved.auto.MORE_TREES", MORE_TREES)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data and reference values that lies beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there (real data and reference values are not part of the package)")
    return SHARED


# Data that many tests only read is made once; a test that changes it copies it first.


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Feature file with full labels over four classes, 300 rows in three splits."""
    from tests.helpers.features import make_features

    return make_features(tmp_path_factory.mktemp("features") / "features.npz")


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of 24 photos, eight of each of the classes blue, green and red."""
    from tests.helpers.photos import make_photos

    return make_photos(tmp_path_factory.mktemp("photos") / "photos", per_class=8)


@pytest.fixture(scope="session")
def feature_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run with a ridge head on 60 rows of eight features, whose scores are no probabilities."""
    import numpy as np

    import spml

    X = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    output = tmp_path_factory.mktemp("runs") / "features"
    return spml.train(X, np.arange(60) % 3, head="ridge", output=output, quiet=True).folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that have the most long tests, so that none of them is left at the end."""
    long = Counter(item.path for item in items if item.get_closest_marker("long"))
    items.sort(key=lambda item: -long[item.path])


def pytest_collection_finish() -> None:
    """Leave the modules of all tests out of every search for garbage, which takes a second with them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print the name of a failed test at once: a run that is stopped from outside prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed in {report.duration:.0f} s", flush=True)
