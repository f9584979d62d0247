"""Two processes equal one with the whole batch: loss, gradients, trained weights, memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]


def run(devices: int, output: Path) -> dict[str, torch.Tensor]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run(
        [sys.executable, str(Path(__file__).with_name("two_processes.py")), str(devices), str(output)],
        check=True,
        env=environment,
        timeout=300,
    )
    return load_file(output)


@pytest.mark.long
def test_two_processes_equal_one(tmp_path):
    one, two = run(1, tmp_path / "one.safetensors"), run(2, tmp_path / "two.safetensors")
    assert list(one) == list(two)
    assert len(one) > 60
    for name, expected in one.items():
        scale = expected.double().abs().max().clamp(min=1e-3)
        error = float((two[name].double() - expected.double()).abs().max() / scale)
        assert error <= 1e-6, f"{name}: {error}"
    moved = [name for name in one if name.endswith("0/head.weight")]
    assert all(one[name].abs().max() > 1e-4 for name in moved)
