"""Trainings beside each other in one process are those alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import spml
from tests.helpers.features import make_features


@pytest.mark.long
def test_a_hundred_trainings_in_eight_threads(tmp_path):
    data = str(make_features(tmp_path / "x.npz"))

    def train(number, where):
        kinds = ({}, {"model": {"head": "mlp", "dropout": 0.5}}, {"method": "gr", "mean_labels": 2.0})
        run = spml.train(
            data,
            data={"unlisted": "negative", "observe": "single"},
            epochs=1,
            threads=1,
            seed=number % 10,
            pictures=False,
            quiet=True,
            output=tmp_path / where / str(number),
            **{"method": "an", **kinds[number % 3]},
        )
        return run.weights_sha256

    alone = [train(number, "alone") for number in range(30)]
    states = torch.get_rng_state(), np.random.get_state()[1].tolist()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda number: train(number, "together"), range(100)))
    assert together == [alone[number % 30] for number in range(100)]
    assert len({*alone}) == 30
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]
