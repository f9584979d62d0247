"""Figures: what they show, read back from their pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from spml.errors import SpmlError
from spml.plots.figures import (
    COLOURS,
    GIVEN,
    MISSED,
    RIGHT,
    WRONG,
    _apart,
    _lines,
    compare_curves,
    example_sheet,
    learning_curves,
    penalty_curves,
    tie_set,
)

HISTORY = [
    {"epoch": 1, "train/loss": 0.7, "val/SP": 0.2, "val/mAP": 0.3},
    {"epoch": 2, "train/loss": 0.5, "val/SP": 0.6, "val/mAP": 0.5},
    {"epoch": 3, "train/loss": 0.4, "val/SP": 0.5, "val/mAP": 0.7},
]


def pixels(path: Path) -> npt.NDArray[np.int64]:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(np.int64)


def places(image: npt.NDArray[np.int64], colour: str) -> npt.NDArray[np.int64]:
    """(row, column) of the pixels of exactly this colour."""
    rgb = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return np.argwhere((image == rgb).all(-1))


def scenes(count: int, channels: int = 1) -> npt.NDArray[np.uint8]:
    return np.full((count, channels, 20, 20), 128, np.uint8)


def test_learning_curves_mark_the_selected_epoch(tmp_path: Path) -> None:
    columns = []
    for epoch in (1, 3):
        learning_curves(tmp_path / "curves.png", HISTORY, metric="val/SP", best_epoch=epoch)
        image = pixels(tmp_path / "curves.png")
        columns.append(places(image[:, : image.shape[1] // 3], COLOURS[1])[:, 1].mean())
    assert columns[0] < image.shape[1] / 3 * 0.4 < image.shape[1] / 3 * 0.7 < columns[1]


def test_learning_curves_show_true_map_apart_where_it_did_not_select(tmp_path: Path) -> None:
    widths = []
    for metric, drop in (("val/SP", ()), ("val/SP", ("val/mAP",)), ("val/mAP", ())):
        history = [{k: v for k, v in record.items() if k not in drop} for record in HISTORY]
        learning_curves(tmp_path / "c.png", history, metric=metric, best_epoch=2)
        widths.append(pixels(tmp_path / "c.png").shape[1])
    assert widths == [1530, 1020, 1020]


def test_penalty_curves_mark_the_selected_penalty(tmp_path: Path) -> None:
    history = [
        {"penalty": penalty, "val/SP": 0.3 + 0.1 * place, "val/mAP": 0.5}
        for place, penalty in enumerate((0.1, 1.0, 10.0, "infinity"))
    ]
    columns = []
    for best in (0, 3):
        penalty_curves(tmp_path / "c.png", history, metric="val/SP", best=best)
        image = pixels(tmp_path / "c.png")
        assert image.shape[1] == 1020
        columns.append(places(image[:, :510], COLOURS[1])[:, 1].mean())
    assert columns[0] < 510 * 0.4 < 510 * 0.7 < columns[1]
    penalty_curves(tmp_path / "c.png", history, metric="val/mAP", best=0)
    assert pixels(tmp_path / "c.png").shape[1] == 510


def test_a_single_epoch_can_be_drawn(tmp_path: Path) -> None:
    learning_curves(tmp_path / "c.png", HISTORY[:1], metric="val/mAP", best_epoch=1)
    assert len(places(pixels(tmp_path / "c.png"), COLOURS[1]))


def test_compared_curves_lie_where_their_values_are(tmp_path: Path) -> None:
    curves = {"low": [(0.2, 0.0), (0.3, 0.0)], "high": [(0.7, 0.05), (0.9, 0.02)]}
    compare_curves(tmp_path / "c.png", curves, ylabel="mAP")
    image = pixels(tmp_path / "c.png")
    low, high = (places(image, colour)[:, 0] for colour in COLOURS[:2])
    assert high.max() < low.min()


def test_the_tie_set_is_told_apart_and_the_highest_stands_above(tmp_path: Path) -> None:
    def candidate(run: str, score: float, tied: bool) -> dict[str, Any]:
        return {"run": run, "SP": score, "SP_interval": [score - 0.1, score + 0.1], "in_tie_set": tied}

    low, middle, high = (
        candidate("$a$", 0.3, False),
        candidate("b" * 99, 0.5, True),
        candidate("c", 0.6, True),
    )
    tie_set(tmp_path / "one.png", [low, high, middle])
    image = pixels(tmp_path / "one.png")

    def lines(colour: str) -> npt.NDArray[np.int64]:
        """(row, first column, last column) of what is drawn that wide."""
        found = places(image, colour)
        columns = {row: found[found[:, 0] == row][:, 1] for row in np.unique(found[:, 0])}
        return np.array([(row, c.min(), c.max()) for row, c in columns.items() if np.ptp(c) > 200])

    tied, other = lines(COLOURS[0]), lines(MISSED)
    assert tied[:, 0].max() < other[:, 0].min()
    highest, lowest = tied[tied[:, 0] == tied[:, 0].min()][0], other[0]
    width = highest[2] - highest[1]  # of an interval of .2
    assert lowest[2] - lowest[1] == pytest.approx(width, abs=3)
    assert highest[1] - lowest[1] == pytest.approx(1.5 * width, rel=0.05)
    tie_set(tmp_path / "two.png", [middle, low, high])
    assert (tmp_path / "two.png").read_bytes() == (tmp_path / "one.png").read_bytes()


@pytest.mark.parametrize("draw", ["learning", "compare", "sheet"])
def test_equal_figures_are_equal_files(tmp_path: Path, draw: str) -> None:
    def write(path: Path) -> bytes:
        if draw == "learning":
            learning_curves(path, HISTORY, metric="val/SP", best_epoch=2)
        elif draw == "compare":
            compare_curves(path, {"a": [(0.1, 0.1), (0.2, 0.1)]}, ylabel="mAP")
        else:
            example_sheet(path, scenes(1), [["a"]], [["a"]], None)
        return path.read_bytes()

    assert write(tmp_path / "one.png") == write(tmp_path / "two.png")


def test_lines_under_a_scene() -> None:
    assert _lines(["one"], ["one", "two"], ["one", "six"]) == [
        ("one", GIVEN, "bold"),
        ("✓ one", RIGHT, "normal"),
        ("✗ two", WRONG, "normal"),
        ("– six", MISSED, "normal"),
    ]
    assert _lines(["one"], ["two"], None) == [("one", GIVEN, "bold"), ("• two", "black", "normal")]
    assert _lines([], [], None) == [("no observed label", GIVEN, "normal")]
    many = _lines(["a"], [f"class {number}" for number in range(9)], None)
    assert len(many) == 7
    assert many[-1][0] == "... 4 more"
    assert _lines(["a" * 30], [], None)[0][0] == "a" * 19 + "…"


@pytest.mark.parametrize(
    ("predicted", "truth", "colours"),
    [
        (["a"], ["a"], {RIGHT}),
        (["b"], [], {WRONG}),
        ([], ["a"], {MISSED}),
        (["a", "b"], ["a", "c"], {RIGHT, WRONG, MISSED}),
        (["a"], None, set()),
    ],
)
def test_the_sheet_colours_what_is_right_wrong_and_missed(
    tmp_path: Path, predicted: list[str], truth: list[str] | None, colours: set[str]
) -> None:
    example_sheet(tmp_path / "s.png", scenes(1), [["a"]], [predicted], None if truth is None else [truth])
    image = pixels(tmp_path / "s.png")
    below = image[290:]  # the legend and the scene lie above
    assert {c for c in (RIGHT, WRONG, MISSED) if len(places(below, c))} == colours
    assert len(places(below, GIVEN))


def test_the_sheet_shows_the_scenes(tmp_path: Path) -> None:
    images = np.zeros((7, 3, 20, 20), np.uint8)
    images[:, 0] = 200
    example_sheet(tmp_path / "s.png", images, [["a"]] * 7, [["a"]] * 7, [["a"]] * 7)
    image = pixels(tmp_path / "s.png")
    red = (image == [200, 0, 0]).all(-1)
    assert red.sum() == pytest.approx(7 * (1.5 * 150) ** 2, rel=0.02)
    rows = np.flatnonzero(red.any(1))
    assert (np.diff(rows) > 1).sum() == 1  # seven scenes stand in two rows


def test_any_class_name_can_be_drawn(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    names = ["a$b$c", "$\\frac{$", "犬", "_", ""]
    example_sheet(tmp_path / "s.png", scenes(2), [names] * 2, [names] * 2, None)
    compare_curves(tmp_path / "c.png", {name: [(0.1, 0.0), (0.2, 0.0)] for name in names}, ylabel="mAP")
    assert len(recwarn) == 0


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0, 1.0], [5.0, 1.0, 1.2, 4.9], [0.0, 10.0, 20.0]])
def test_names_at_the_ends_of_curves_do_not_overlap(values: list[float]) -> None:
    moved = _apart(values, 1.0)
    assert (np.diff(np.sort(moved)) > 1 - 1e-9).all()
    assert sum(moved) == pytest.approx(sum(values))
    order: Any = np.argsort(values, kind="stable")
    assert (np.diff(np.array(moved)[order]) > 0).all()


def test_names_that_are_far_apart_stay() -> None:
    assert _apart([3.0, 1.0, 2.0], 1.0) == [3.0, 1.0, 2.0]


def test_a_figure_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpmlError, match=r"nowhere.*could not be written"):
        example_sheet(tmp_path / "nowhere" / "s.png", scenes(1), [["a"]], [["a"]], None)
