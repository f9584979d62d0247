"""Two processes equal one with the whole batch: loss, gradients, trained weights, memory."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.helpers.processes import finish_all


def train(devices: int, output: Path, port: int) -> None:
    from tests.engine.two_processes import main  # registers a method, which other tests don't know

    child = 0
    if devices == 2:  # as torchrun starts them, but with everything imported already
        child = os.fork()
        rank = "0" if child else "1"
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": "0", "WORLD_SIZE": "2"}
        os.environ.update(numbers, TORCHELASTIC_RUN_ID="1", LOCAL_WORLD_SIZE="2", GROUP_WORLD_SIZE="1")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    main(devices, output)
    if devices == 2 and not child:
        os._exit(0)
    if child:
        assert not os.waitpid(child, 0)[1]


@pytest.mark.long
def test_two_processes_equal_one(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    for devices, name in ((1, "one"), (2, "two")):
        finish_all(train, devices, tmp_path / f"{name}.safetensors", port, processes=1)
    one, two = (load_file(tmp_path / f"{name}.safetensors") for name in ("one", "two"))
    assert list(one) == list(two)
    assert len(one) > 60
    for name, expected in one.items():
        scale = expected.double().abs().max().clamp(min=1e-3)
        error = float((two[name].double() - expected.double()).abs().max() / scale)
        assert error <= 1e-6, f"{name}: {error}"
    moved = [name for name in one if name.endswith("0/head.weight")]
    assert all(one[name].abs().max() > 1e-4 for name in moved)
