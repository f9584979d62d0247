"""SCL: heat maps in the coordinates of the image, and the loss of class maps that differ from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import spml
from spml.common.errors import InputError
from spml.engine import Trainer
from spml.labels import ObservedLabels
from spml.losses import an_loss
from spml.methods.base import Batch, Facts, Outputs
from spml.methods.heat_maps import HeatMaps
from spml.methods.registry import create
from tests.helpers.photo_runs import train_on, write_photos
from tests.reference import scl

N, C = 9, 3
OBSERVED = ObservedLabels.from_index(np.arange(N) % C, C)
WHOLE, MIRRORED = [0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0]
PARTS = [[0.125, 0.3125, 0.6875, 0.9375, 1.0], [0.25, 0.0, 1.0, 0.625, 0.0], WHOLE, MIRRORED]


def heat_maps(width: int, decay: float = 0.8) -> HeatMaps:
    return HeatMaps(OBSERVED, width, decay, 1.0).double()


def batch_of(rows: list[int], regions: list[list[float]] | None = None) -> Batch:
    index = torch.tensor(rows)
    shown = None if regions is None else torch.tensor(regions)
    return Batch(OBSERVED.target(index), index, regions=shown)


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def objective_of(**hp: Any) -> Any:
    objective = create("scl", hp)
    names = tuple(f"sample {row}" for row in range(N))
    objective.on_fit_start(Facts(OBSERVED, names, ("x", "y", "z"), 1.5))
    return objective.double()


# -- geometry --------------------------------------------------------------------------------------------


def test_cells_that_no_view_has_shown_are_unknown_and_those_outside_stay() -> None:
    heat = heat_maps(4)
    left_half = batch_of([2], [[0.0, 0.0, 0.5, 1.0, 0.0]])
    heat.update(torch.full((1, C, 2, 2), 0.5).double(), left_half)
    assert (heat.maps[2, :, :, :2] == 0.5).all()
    assert (heat.maps[2, :, :, 2:] == -1).all()
    _, known = heat.expected(draws(1, C, 4, 4), batch_of([2]))
    assert known[0, 0].tolist() == [[True, True, False, False]] * 4
    _, known = heat.expected(draws(1, C, 4, 4), batch_of([2], [MIRRORED]))
    assert known[0, 0].tolist() == [[False, False, True, True]] * 4
    heat.update(torch.full((1, C, 2, 2), 1.0).double(), batch_of([2]))
    torch.testing.assert_close(heat.maps[2, 0, 0], torch.tensor([0.6, 0.6, 1.0, 1.0]).double())


# -- against loops ---------------------------------------------------------------------------------------


def test_loss_and_heat_maps_equal_those_of_loops() -> None:
    objective = objective_of(base="an", weight=0.7, decay=0.6, width=5)
    rows, generator = [3, 0, 7, 5], np.random.default_rng(0)
    slow = {row: [[[None] * 5 for _ in range(5)] for _ in range(C)] for row in rows}
    seen = []
    for epoch in range(3):
        logits, maps = draws(4, C, seed=epoch) * 4 - 2, draws(4, C, 3, 3, seed=50 + epoch) * 6 - 3
        regions = [PARTS[number] for number in generator.permutation(4)]
        batch, outputs = batch_of(rows, regions), Outputs(logits, logits, class_maps=maps)
        exact = [tuple(region) for region in batch.regions.double().tolist()]
        views = torch.sigmoid(maps).tolist()
        terms = {name: value.item() for name, value in objective(outputs, batch).items()}
        seen.append(scl.difference([slow[row] for row in rows], views, exact))
        assert terms["scl"] == pytest.approx(0.7 * seen[-1], rel=1e-12, abs=1e-15)
        assert terms["base"] == pytest.approx(an_loss(logits, batch.target).item(), rel=1e-12)
        objective.after_step(outputs, batch)
        for number, row in enumerate(rows):
            slow[row] = [
                scl.updated(heat, view, exact[number], 0.6)
                for heat, view in zip(slow[row], views[number], strict=True)
            ]
            unknown_as_stored = [
                [[-1 if value is None else value for value in line] for line in heat] for heat in slow[row]
            ]
            np.testing.assert_allclose(objective.heat.maps[row], unknown_as_stored, rtol=1e-12)
    assert seen[0] == 0
    assert min(seen[1:]) > 0.1


def test_the_difference_pulls_class_maps_towards_heat_maps_alone() -> None:
    objective, batch = objective_of(base="an", width=4), batch_of([0, 1])
    objective.heat.maps[:2] = 0.5
    maps = torch.tensor([2.0, -2.0, 0.0, 3.0]).double().view(1, 1, 2, 2).repeat(2, C, 1, 1)
    maps.requires_grad_()
    logits = draws(2, C)
    objective(Outputs(logits, logits, class_maps=maps), batch)["scl"].backward()
    p = torch.sigmoid(maps.detach())
    torch.testing.assert_close(maps.grad, torch.sign(p - 0.5) * p * (1 - p) / maps.numel())


def test_with_base_en_it_adds_to_the_loss_of_expected_negatives() -> None:
    objective, en = objective_of(width=3), create("en")
    en.on_fit_start(Facts(OBSERVED, tuple("abcdefghi"), ("x", "y", "z"), 1.5))
    en.double()
    logits, rows = draws(N, C) * 4 - 2, list(range(N))
    outputs = Outputs(logits, logits, class_maps=draws(N, C, 2, 2))
    for each in (objective, en):
        each.after_step(outputs, batch_of(rows))
        each.on_epoch_end(None, None)
    base = objective(outputs, batch_of(rows))["base"]
    assert base.item() == pytest.approx(en(outputs, batch_of(rows))["en"].item(), rel=1e-12)
    assert base.item() != pytest.approx(an_loss(logits, OBSERVED.target(rows)).item(), rel=1e-3)


# -- memory ----------------------------------------------------------------------------------------------


def test_heat_maps_take_half_precision_and_no_more_than_allowed() -> None:
    objective = create("scl", {"base": "an", "width": 28, "gigabytes": 2 * N * C * 28**2 / 1e9})
    objective.on_fit_start(Facts(OBSERVED, tuple("abcdefghi"), ("x", "y", "z")))
    assert objective.heat.maps.dtype == torch.float16
    assert objective.heat.maps.shape == (N, C, 28, 28)
    large = ObservedLabels.from_index(np.arange(82_081) % 80, 80)
    message = r"82,081 samples x 80 classes with 28 x 28 cells take 10\.3 GB, .* hp\.gigabytes is 4: pass "
    with pytest.raises(InputError, match=message + r"hp\.gigabytes=10\.3 .*hp\.width=17\)"):
        HeatMaps(large, 28, 0.8, 4.0)
    assert 2 * 82_081 * 80 * 17**2 / 1e9 < 4 < 2 * 82_081 * 80 * 18**2 / 1e9


# -- runs ------------------------------------------------------------------------------------------------


SETTINGS: dict[str, Any] = {
    "method": "scl",
    "hp": {"width": 6, "weight": 3.0},
    "data": {"crop": 0.4},
    "mean_labels": 2,
    "epochs": 4,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("scl") / "photos")


@pytest.fixture(scope="module")
def finished(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_on(source, tmp_path_factory.mktemp("runs") / "run", **SETTINGS)


@pytest.mark.long
def test_a_run_compares_class_maps_from_the_second_epoch_on(finished: Path) -> None:
    run = spml.load(finished)
    differences = [record["train/scl"] for record in run.history]
    assert differences[0] == 0
    assert all(0 < difference < 3 for difference in differences[1:])


def test_a_resumed_run_equals_an_uninterrupted_one(
    source: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """45 samples in batches of 16 are 3 steps per epoch; the checkpoint is in the middle of the third."""
    real, done = Trainer._train_step, []

    def stop(self: Trainer, *batch: Any) -> None:
        done.append(None)
        if len(done) == 9:
            raise RuntimeError("killed")
        real(self, *batch)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_step", stop)
        with pytest.raises(RuntimeError, match="killed"):
            train_on(source, tmp_path / "run", checkpoint_steps=4, **SETTINGS)
    train_on(source, tmp_path / "run", checkpoint_steps=4, resume=True, **SETTINGS)
    first, second = spml.load(finished), spml.load(tmp_path / "run")
    assert second.weights_sha256 == first.weights_sha256
    without_time = [[{**record, "seconds": 0} for record in run.history] for run in (first, second)]
    assert without_time[0] == without_time[1]
