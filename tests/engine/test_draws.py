"""Draws from torch's global generators: the same next to other threads, and unseen by the program."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import rich.style  # noqa: F401 (draws from `random` once, when it is imported first)
import torch

import spml
from spml.common.torch_draws import TorchDraws, borrowed_generators

C = 4


def states():
    return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()


def fit(seed, folder, **settings):
    """Weights after two epochs with dropout, on the same features."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 8)).astype(np.float32), rng.integers(0, C, 120)
    options = {"method": "an", "epochs": 2, "batch_size": 16, "quiet": True, "pictures": False, "threads": 1}
    model = {"head": "mlp", "hidden": 16, "dropout": 0.5}
    run = spml.train(X, y, output=str(folder), seed=seed, model=model, **{**options, **settings})
    return {name: tensor.clone() for name, tensor in run.model.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.long
def test_trainings_in_threads_equal_those_alone_and_nothing_around_them_changes(tmp_path):
    torch.manual_seed(5), np.random.seed(6), random.seed(7)
    before = states()
    alone = {seed: fit(seed, tmp_path / f"alone{seed}") for seed in (0, 1)}
    assert not same(alone[0], alone[1])
    assert states() == before
    stop = threading.Event()

    def disturb():
        while not stop.wait(0.001):
            with borrowed_generators():
                torch.rand(7)

    other = threading.Thread(target=disturb)
    other.start()
    with ThreadPoolExecutor(4) as pool:
        jobs = [(number % 2, tmp_path / f"thread{number}") for number in range(4)]
        together = list(pool.map(lambda job: fit(*job), jobs))
    stop.set()
    other.join()
    assert all(same(weights, alone[seed]) for weights, (seed, _) in zip(together, jobs, strict=True))
    assert states() == before
    spml.load(tmp_path / "alone0")
    assert states() == before
    torch.rand(3)
    assert same(fit(0, tmp_path / "again"), alone[0]), "it depends on the global state"


@pytest.mark.parametrize("settings", [{"method": "auto"}, {"method": "softmax", "optim": {"name": "lbfgs"}}])
def test_solving_heads_and_loading_them_changes_nothing_around_them(tmp_path, settings):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 8)).astype(np.float32), rng.integers(0, C, 120)
    torch.manual_seed(5), np.random.seed(6), random.seed(7)
    before = states()
    spml.train(X, y, output=str(tmp_path / "run"), quiet=True, threads=1, mean_labels=1.5, **settings)
    assert states() == before
    spml.load(tmp_path / "run").predict(X[:5])
    assert states() == before


def test_a_state_lives_on_from_one_use_to_the_next():
    torch.manual_seed(1)
    expected = [torch.rand(3), torch.rand(3)]
    draws, found = TorchDraws(1), []
    for _ in range(2):
        with draws.drawing():
            found.append(torch.rand(3))
        torch.rand(5)
    assert all(map(torch.equal, found, expected))
    draws.seed(1)
    with pytest.raises(KeyError), draws.drawing():
        {}[float(torch.rand(3).sum())]
    with draws.drawing(), borrowed_generators(9):
        torch.rand(2)
    with draws.drawing():
        assert torch.equal(torch.rand(3), expected[1]), "an error or a nested use changed the state"
