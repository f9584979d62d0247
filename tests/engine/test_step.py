"""Training with a compiled network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import spml
from spml.cli.main import main
from spml.common.errors import InputError, SpmlError
from tests.models.nets import seeded

compile_module = torch.nn.Module.compile


def train(output: Path, compiled: bool, **settings: Any) -> list[dict[str, float]]:
    """Train a small network on digits. Returns its history."""
    defaults: dict[str, Any] = {
        "method": "an",
        "epochs": 2,
        "batch_size": 40,  # of 80 samples: a last batch of another size would be compiled once more
        "data": {"observe": "single", "sample_rows": 120},
        "model": {"backbone": "small_cnn", "frozen": "no"},
        "optim": {"ema": 0.9},
        "mean_labels": 2.0,
    }
    spml.train(
        "digits", output=str(output), compile=compiled, quiet=True, pictures=False, **defaults | settings
    )
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def check_alike(folder: Path, settings: Callable[[], dict[str, Any]] = dict) -> None:
    plain, compiled = (
        train(folder / name, name == "compiled", **settings()) for name in ("plain", "compiled")
    )
    for one, other in zip(plain, compiled, strict=True):
        for name in ("train/loss", "val/SP"):
            assert other[name] == pytest.approx(one[name], rel=1e-3)
    weights, same = (load_file(folder / name / "model.safetensors") for name in ("plain", "compiled"))
    assert weights.keys() == same.keys()
    for name in weights:
        torch.testing.assert_close(same[name], weights[name], rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_a_compiled_network_trains_like_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: compile_module(self, backend=backend))
    check_alike(tmp_path)
    assert graphs


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("g++"), reason="torch compiles for the CPU with g++, which is missing")
def test_torch_s_compiler_trains_like_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config, "compile_threads", 1)  # other processes would import torch first
    # g++ takes seconds for each of these: whether it knows the processor, the headers ahead, and every layer.
    monkeypatch.setattr(config.cpp, "vec_isa_ok", True)
    monkeypatch.setattr(config, "cpp_cache_precompile_headers", False)

    def two_layers() -> dict[str, Any]:
        transform = {"size": 16, "mean": [0.5], "std": [0.5]}
        network = seeded(lambda: nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU()))
        return {"backbone": network, "transform": transform, "model": {"frozen": "no"}}

    check_alike(tmp_path, two_layers)


def test_a_failure_of_the_compiler_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: compile_module(self, backend=backend))
    words = "train digits --method an --epochs 1 --data.observe single --data.sample_rows 60 --compile yes"
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "--output", str(tmp_path / "run")])
    assert ended.value.code == SpmlError.exit_code
    said = capsys.readouterr().err
    assert "torch can't compile the network" in said
    assert "no compiler" in said
    assert "leave out compile=yes" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            {"backbone": "small_cnn", "frozen": "yes"},
            r"the backbone is frozen, .* \(model.frozen=no trains it\)",
        ),
        ({"backbone": "small_cnn", "head": "boosted_cam"}, "head 'boosted_cam' .* calls only the first part"),
    ],
)
def test_nothing_to_compile(tmp_path: Path, model: dict[str, str], reason: str) -> None:
    with pytest.raises(InputError, match=f"^compile=yes .*{reason}.*: leave it out.$"):
        train(tmp_path / "run", True, model=model)


def test_feature_vectors_are_not_compiled(tmp_path: Path) -> None:
    table = tmp_path / "features.npz"
    np.savez(table, X=np.random.default_rng(0).normal(size=(40, 3)), Y=np.arange(40) % 2, classes=["a", "b"])
    with pytest.raises(InputError, match="the data holds feature vectors: leave it out"):
        spml.train(str(table), method="an", compile=True, output=str(tmp_path / "run"), quiet=True)
