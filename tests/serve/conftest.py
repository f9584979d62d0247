"""Runs to serve, and clients."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

import spml
from spml.serve import Limits
from spml.serve.app import make_app
from spml.serve.service import Service
from tests.faults.test_kill import make_photos


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    return make_photos(tmp_path_factory.mktemp("serve") / "photos", per_class=8)


@pytest.fixture(scope="session")
def photo_run(photos, tmp_path_factory) -> Path:
    """Folder of a run of images with probabilities."""
    run = spml.train(
        photos, method="em", epochs=1, batch_size=12,
        model={"backbone": "test_efficientnet", "weights": "random"}, data={"size": 32, "workers": 0},
        threads=1, mean_labels=1.2, quiet=True,
        output=str(tmp_path_factory.mktemp("runs") / "photos"),
    )  # fmt: skip
    return run.folder


@pytest.fixture(scope="session")
def feature_run(tmp_path_factory) -> Path:
    """Folder of a run of features, whose scores are no probabilities."""
    X = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    output = str(tmp_path_factory.mktemp("runs") / "features")
    return spml.train(X, np.arange(60) % 3, head="ridge", output=output, quiet=True).folder


def service_of(run: Path, batch_size: int = 32, **limits) -> Service:
    return Service(
        spml.load(run), Limits(**limits), batch_size=batch_size, decoders=2, threads=1, device="cpu"
    )


@contextmanager
def client_of(run: Path, hosts=None, **options):
    """A client of a service in this process."""
    service = service_of(run, **options)
    with TestClient(make_app(service, hosts), raise_server_exceptions=False) as client:
        client.service = service
        yield client


def png(seed: int = 0, size: tuple[int, int] = (40, 48)) -> bytes:
    """A noisy image."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def files(*contents: bytes | Path):
    """The argument `files` of a client: images by their path, or contents named by their position."""
    return [
        ("images", (each.name, each.read_bytes()) if isinstance(each, Path) else (f"{k}.png", each))
        for k, each in enumerate(contents)
    ]


def bomb(side: int = 60_000) -> bytes:
    """A PNG of a few bytes whose header states a huge image."""
    small = bytearray(png(size=(8, 8)))
    small[16:24] = struct.pack(">II", side, side)
    small[29:33] = struct.pack(">I", zlib.crc32(small[12:29]))
    return bytes(small)
