"""The script that trains beside released code: toy "released" losses in a temporary file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = str(Path(__file__).resolve().parents[1] / "benchmarks")

TOYS = """
import torch
from torch import nn

class Toy(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, z, y):
        at_margin, p = torch.sigmoid(z - self.margin), torch.sigmoid(z)
        return (-y * (1 - at_margin) ** 2 * torch.log(at_margin) + (1 - y) * (1.5 - p) * p**2).sum()

def corrected(z, y, epoch):
    z = torch.where(y == 1, z - 1, z)
    p = torch.sigmoid(z)
    if epoch >= 1:
        y = torch.where(p > 0.6, torch.ones_like(y), y)
    log_p, log_not_p = nn.functional.logsigmoid(z), nn.functional.logsigmoid(-z)
    return -(y * (1 - p) ** 2 * log_p + (1 - y) * p**2 * log_not_p).sum()
"""
QUICK = ["--steps", "60", "--samples", "100", "--width", "8", "--classes", "5", "--lr", "0.03"]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import released_losses

    return released_losses


@pytest.fixture
def toys(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "toys.py"
    path.write_text(TOYS)
    return path


def largest(script, arguments):
    return script.compare(script.parser().parse_args([*arguments, *QUICK]), report=lambda line: None)


@pytest.mark.parametrize("more", [[], ["--double"]])
def test_the_same_loss_gives_the_same_logits(script, toys, more):
    difference, extent = largest(script, ["hill_loss", f"{toys}:Toy", "--divide", "elements", *more])
    assert difference < (1e-12 if more else 1e-4)
    assert extent > 0.5


def test_a_method_follows_its_schedule(script, toys):
    call = ["--call", "logits", "targets", "epoch", "--divide", "batch"]
    assert largest(script, ["splc", f"{toys}:corrected", *call])[0] < 1e-4
    # Without the correction, which starts in the second epoch.
    assert largest(script, ["splc", f"{toys}:corrected", *call, "--our", "warmup=1000"])[0] > 1e-2


def test_another_constant_or_another_sum_shows(script, toys):
    margin = ["--divide", "elements", "--their", "margin=0.9"]
    assert largest(script, ["hill_loss", f"{toys}:Toy", *margin])[0] > 1e-2
    assert largest(script, ["hill_loss", f"{toys}:Toy", *margin, "--our", "margin=0.9"])[0] < 1e-4
    # Adam does not see a constant factor, but the last batch of an epoch is smaller.
    assert largest(script, ["hill_loss", f"{toys}:Toy"])[0] > 1e-3


def test_the_verdict_is_printed_and_is_the_exit_code(script, toys, capsys):
    arguments = ["hill_loss", f"{toys}:Toy", "--divide", "elements", *QUICK]
    assert script.main(arguments) == 0
    assert "the same to within 0.001" in capsys.readouterr().out
    assert script.main([*arguments, "--their", "margin=0.5"]) == 1
    assert "NOT the same" in capsys.readouterr().out


def test_features_of_a_file_are_used(script, toys, tmp_path):
    generator = np.random.default_rng(0)
    labels = (generator.random((80, 4)) < 0.4).astype(np.uint8)
    labels[np.arange(80), generator.integers(0, 4, 80)] = 1
    np.savez(tmp_path / "some.npz", X=generator.normal(size=(80, 3)).astype(np.float32), Y=labels)
    args = script.parser().parse_args(["hill_loss", f"{toys}:Toy", "--data", str(tmp_path / "some.npz")])
    features, observed, classes = script.open_samples(args)
    assert features.shape == (len(observed), 3)
    assert classes == 4
    assert observed.target(range(len(observed))).ndim == 1
    np.testing.assert_allclose(features.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(features.std(0), 1, atol=1e-5)
    assert (
        largest(script, ["hill_loss", f"{toys}:Toy", "--divide", "elements", "--data", args.data])[0] < 1e-4
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "more", "message"),
    [
        ("hil_loss", "Toy", [], "hil_loss is neither a loss nor a method. Did you mean hill_loss"),
        ("hill_loss", "Toyy", [], "has no Toyy. Did you mean Toy"),
        ("lasd", "Toy", [], "lasd needs more than logits and labels"),
        ("hill_loss", "Toy", ["--their", "margin"], "'margin' is not a setting: write NAME=VALUE"),
    ],
)
def test_mistakes_get_one_sentence(script, toys, capsys, ours, theirs, more, message):
    assert script.main([ours, f"{toys}:{theirs}", *more, *QUICK]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_file_is_named(script, tmp_path, capsys):
    assert script.main(["hill_loss", f"{tmp_path}/none.py:Toy", *QUICK]) == 2
    assert "none.py: no such file" in capsys.readouterr().err
    assert script.main(["hill_loss", "none.py", *QUICK]) == 2
    assert "'none.py' is not FILE.py:NAME or MODULE:NAME" in capsys.readouterr().err
    assert script.main(["hill_loss", "no_such_module:Toy", *QUICK]) == 2
    assert "no_such_module: no such module" in capsys.readouterr().err
