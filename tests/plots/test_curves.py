"""Curves of one run, read back from their pixels."""

from __future__ import annotations

from pathlib import Path

from spml.plots import fit_curves
from spml.plots.style import COLOURS
from tests.plots.reading import pixels, positions

HISTORY = [
    {"epoch": 1, "train/loss": 0.7, "val/SP": 0.2, "val/mAP": 0.3},
    {"epoch": 2, "train/loss": 0.5, "val/SP": 0.6, "val/mAP": 0.5},
    {"epoch": 3, "train/loss": 0.4, "val/SP": 0.5, "val/mAP": 0.7},
]


def test_learning_curves_mark_the_selected_epoch(tmp_path: Path) -> None:
    columns = []
    for epoch in (1, 3):
        fit_curves(tmp_path / "curves.png", HISTORY, metric="val/SP", best=epoch - 1)
        image = pixels(tmp_path / "curves.png")
        columns.append(positions(image[:, : image.shape[1] // 3], COLOURS[1])[:, 1].mean())
    assert columns[0] < image.shape[1] / 3 * 0.4 < image.shape[1] / 3 * 0.7 < columns[1]


def test_learning_curves_have_a_panel_of_true_map_unless_it_selects(tmp_path: Path) -> None:
    widths = []
    for metric, drop in (("val/SP", ()), ("val/SP", ("val/mAP",)), ("val/mAP", ())):
        history = [{k: v for k, v in record.items() if k not in drop} for record in HISTORY]
        fit_curves(tmp_path / "c.png", history, metric=metric, best=1)
        widths.append(pixels(tmp_path / "c.png").shape[1])
    assert widths == [1530, 1020, 1020]


def test_penalty_curves_mark_the_selected_penalty(tmp_path: Path) -> None:
    history = [
        {"penalty": penalty, "val/SP": 0.3 + 0.1 * i, "val/mAP": 0.5}
        for i, penalty in enumerate((0.1, 1.0, 10.0, "infinity"))
    ]
    columns = []
    for best in (0, 3):
        fit_curves(tmp_path / "c.png", history, metric="val/SP", best=best)
        image = pixels(tmp_path / "c.png")
        assert image.shape[1] == 1020
        columns.append(positions(image[:, :510], COLOURS[1])[:, 1].mean())
    assert columns[0] < 510 * 0.4 < 510 * 0.7 < columns[1]
    fit_curves(tmp_path / "c.png", history, metric="val/mAP", best=0)
    assert pixels(tmp_path / "c.png").shape[1] == 510


def test_a_single_epoch_can_be_drawn(tmp_path: Path) -> None:
    fit_curves(tmp_path / "c.png", HISTORY[:1], metric="val/mAP", best=0)
    assert len(positions(pixels(tmp_path / "c.png"), COLOURS[1]))
