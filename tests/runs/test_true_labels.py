"""True labels reach evaluators only: a search through all that an objective holds and is given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import nn

import spml
from spml.labels import ObservedLabels
from spml.losses import an_loss
from spml.methods import registry
from spml.methods.base import Card, Extra, Needs, Objective
from spml.methods.registry import create
from spml.runs.settle import resolve
from tests.helpers.true_labels import leaks, reachable

N, VAL, C = 60, 30, 4


class Spy(Objective):
    """Needs all that there is, and keeps all that it is given."""

    card = Card(title="Spy", paper="-", year=2026, equations="-", head="gaussian")
    needs = Needs(train_pass=True, batch_coupled=True, views=("weak", "strong"), latent=True)
    instances: list[Spy]

    def on_fit_start(self, facts):
        self.kept = [facts]
        Spy.instances.append(self)

    def extra_inputs(self, inputs, outputs, batch):
        self.kept += [inputs, outputs, batch]
        return Extra(inputs)

    def forward(self, outputs, batch):
        self.kept += [outputs, batch]
        return {"spy": an_loss(outputs.logits, batch.target)}

    def after_step(self, outputs, batch):
        self.kept += [outputs, batch]

    def on_epoch_end(self, progress, train_pass):
        self.kept += [progress, train_pass()]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file with full labels, most of which are hidden from training, and these labels."""
    generator = np.random.default_rng(0)
    truth = generator.random((N + VAL, C)) < 0.4
    truth[np.arange(N + VAL), generator.integers(0, C, N + VAL)] = True
    features = truth @ generator.normal(size=(C, 6)) + generator.normal(size=(N + VAL, 6))
    split = np.repeat(["train", "val"], [N, VAL])
    path = tmp_path_factory.mktemp("true") / "data.npz"
    np.savez(path, X=features.astype(np.float32), Y=truth.astype(np.int8), split=split)
    return path, (truth[:N], truth[N:])


def train(path, method, **hp):
    spml.train(
        path,
        method=method,
        hp=hp,
        data={"unlisted": "negative", "observe": "single"},
        mean_labels=1.7,
        epochs=2,
        batch_size=16,
        output=str(path.with_name("run")),
        overwrite=True,
        quiet=True,
    )


@pytest.fixture(scope="module")
def spy(data):
    """A spy after a training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spy, "instances", [], raising=False)
        patch.setitem(registry._REGISTRY.entries, "spy", ("", Spy))
        train(data[0], "spy")
        (spy,) = Spy.instances
    return spy


def test_no_objective_can_reach_the_true_labels(data, spy):
    truths = data[1]
    assert len(spy.kept) > 30
    assert any(labels.single_positive for labels in reachable(spy) if isinstance(labels, ObservedLabels))
    assert leaks(spy, truths) == []


@pytest.mark.parametrize(
    ("method", "hp"),
    [
        ("em_apl", {"warmup": 0}),
        ("ll_cp", {"percent": 5}),
        ("en", {}),
        ("role", {}),
        ("smile", {}),
        ("mime", {"warmup": 0, "theta": 0.5}),
        ("combine", {"memory": {"ema": {"warmup": 0}, "correction": {"rate": 0.1}}}),
    ],
)
def test_no_memory_holds_the_true_labels(data, monkeypatch, method, hp):
    path, truths = data
    made = []
    monkeypatch.setattr(resolve, "create", lambda *given: made.append(create(*given)) or made[-1])
    train(path, method, **hp)
    assert leaks(made, truths) == []


def in_a_larger_array(truth):
    whole = np.zeros((N + 5, C + 3), np.float32)
    whole[2:-3, 1:-2] = 0.9 * truth
    return whole


LEAKS = {
    "matrix": lambda truth: torch.from_numpy(truth),
    "ternary": lambda truth: np.where(truth, 1, -1).astype(np.int8),
    "soft, transposed": lambda truth: torch.from_numpy(np.where(truth, 3.0, -3.0)).T,
    "in a larger array": in_a_larger_array,
    "a row of a tensor": lambda truth: torch.from_numpy(truth.astype(np.float32))[7],
    "a row of an array": lambda truth: truth[7],
    "flat": lambda truth: truth.ravel().tolist(),
    "lists": lambda truth: {"a": ("b", truth.tolist())},
    "bytes": lambda truth: truth.tobytes(),
    "columns": lambda truth: np.nonzero(truth)[1],
    "places": lambda truth: {(int(r), int(c)) for r, c in np.argwhere(truth)},
    "observed labels": lambda truth: [ObservedLabels.from_multi_hot(truth)],
    "full labels": lambda truth: ObservedLabels.from_multi_hot(truth, unlisted="negative"),
    "sparse": csr_matrix,
    "parameter": lambda truth: nn.ParameterList([nn.Parameter(torch.from_numpy(truth.astype(np.float32)))]),
}


@pytest.mark.parametrize("form", LEAKS)
def test_the_search_finds_a_leak_of_any_form(data, spy, form):
    truths = data[1]
    spy.hidden = LEAKS[form](truths[0])
    assert leaks(spy, truths)
    del spy.hidden
    assert leaks(spy, truths) == []
