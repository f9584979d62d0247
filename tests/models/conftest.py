"""Data and weights shared by the tests of models."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from spml.common.messages import log
from tests.helpers.networks import TINY, tiny_model


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Weights of the tiny model, with its classifier, and the JSON file next to them."""
    path = tmp_path / "tiny.safetensors"
    save_file(tiny_model().state_dict(), path)
    sidecar = {"timm_model": TINY, "input_size": [3, 32, 32], "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}
    path.with_suffix(".json").write_text(json.dumps({**sidecar, "interpolation": "bilinear"}))
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def lines():
    """Lines that the package says while the test runs, without details."""

    class Keeper(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())

    said, keeper, level = [], Keeper(logging.INFO), log.level
    log.addHandler(keeper)
    log.setLevel(logging.DEBUG)
    yield said
    log.setLevel(level)
    log.removeHandler(keeper)
