"""Two processes equal one with the whole batch: loss, gradients, trained weights, memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.helpers.processes import finish_all

ROOT = Path(__file__).resolve().parents[2]


def train_alone(output: Path) -> None:
    from tests.engine.two_processes import main  # registers a method, which other tests don't know

    main(1, output)


def train_by_two(output: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    script = str(Path(__file__).with_name("two_processes.py"))
    subprocess.run([sys.executable, script, "2", str(output)], check=True, env=environment, timeout=300)


@pytest.mark.long
def test_two_processes_equal_one(tmp_path):
    finish_all(train_alone, tmp_path / "one.safetensors", processes=1)
    train_by_two(tmp_path / "two.safetensors")
    one, two = (load_file(tmp_path / f"{name}.safetensors") for name in ("one", "two"))
    assert list(one) == list(two)
    assert len(one) > 60
    for name, expected in one.items():
        scale = expected.double().abs().max().clamp(min=1e-3)
        error = float((two[name].double() - expected.double()).abs().max() / scale)
        assert error <= 1e-6, f"{name}: {error}"
    moved = [name for name in one if name.endswith("0/head.weight")]
    assert all(one[name].abs().max() > 1e-4 for name in moved)
