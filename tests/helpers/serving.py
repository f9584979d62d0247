"""Clients of a server in this process, and files for it."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from fastapi.testclient import TestClient
from PIL import Image

import spml
from spml.serve import Limits
from spml.serve.app import make_app
from spml.serve.service import Service


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


def check_served_windows(run, images) -> None:
    """Check that a server says the labels of images, and where they are, as the run itself does."""
    expected = run.predict(images, where=True)
    with client_of(run.folder) as client:
        found = client.post("/predict?where=1", files=files(*images)).json()["predictions"]
        assert "where" not in client.post("/predict", files=files(*images)).json()["predictions"][0]
    for each, labels, windows in zip(found, expected.labels, expected.where, strict=True):
        assert each["labels"] == list(each["where"]) == labels
        np.testing.assert_allclose(list(each["where"].values()), windows, atol=1e-4)


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
