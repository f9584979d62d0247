"""Sheets of samples and of data sets, read back from their pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spml.config import DataConfig
from spml.data import inspect
from spml.plots import ExampleLabel, example_sheet, inspection_sheet
from spml.plots.sheets import LAST_BARS, MAX_BARS, _chosen, _lines
from spml.plots.style import COLOURS, GIVEN, MISSED, RIGHT, WRONG, text_width
from tests.helpers import write_odd_photos
from tests.plots.reading import pixels, positions, scenes


def label(name: str, score: float, kind: str) -> ExampleLabel:
    """A label whose kind is spelled by o(bserved), p(redicted), t(rue), n(ot true)."""
    true = True if "t" in kind else False if "n" in kind else None
    return ExampleLabel(name, score, "o" in kind, "p" in kind, true)


def test_lines_under_a_scene_are_ordered_by_score() -> None:
    labels = [
        label("six", 0.1, "t"),
        label("two", 0.8, "pn"),
        label("one", 0.66, "opt"),
        label("ten", 0.984, "pt"),
        label("four", 0.3, "ot"),
    ]
    shown, more = _chosen(labels)
    assert more == 0
    assert _lines(shown, more, 3.0) == [
        ("✓ 0.98  ten", RIGHT, "normal"),
        ("✗ 0.80  two", WRONG, "normal"),
        ("✓ 0.66  one", GIVEN, "bold"),
        ("– 0.30  four", GIVEN, "bold"),  # observed, but missed
        ("– 0.10  six", MISSED, "normal"),
    ]


def test_lines_where_the_true_labels_are_not_known() -> None:
    labels = [label("one", 0.2, "o"), label("two", 0.9, "p"), label("six", 0.7, "op")]
    assert _lines(_chosen(labels)[0], 0, 3.0) == [
        ("• 0.90  two", "black", "normal"),
        ("✓ 0.70  six", GIVEN, "bold"),
        ("– 0.20  one", GIVEN, "bold"),
    ]
    assert _lines([], 0, 3.0) == [("no observed label", GIVEN, "normal")]


def test_of_many_labels_the_observed_one_stays() -> None:
    labels = [label(f"class {n}", 0.9 - n / 100, "p") for n in range(9)] + [label("given", 0.01, "o")]
    shown, more = _chosen(labels)
    assert [each.name for each in shown] == [*(f"class {n}" for n in range(5)), "given"]
    assert _lines(shown, more, 3.0)[-1] == ("... 4 more", MISSED, "normal")


def test_a_long_name_keeps_its_start_and_its_end() -> None:
    names = [f"Great black-backed gull, {age}, photographed in {age}" for age in ("winter", "summer")]
    texts = [_lines([label(name, 0.5, "op")], 0, 2.0)[0][0] for name in names]
    assert len(set(texts)) == 2
    for text, name in zip(texts, names, strict=True):
        start, end = text.removeprefix("✓ 0.50  ").split("…")
        assert name.startswith(start)
        assert name.endswith(end)
        assert 1.8 < text_width(text, 8.5, "bold") <= 2.0
    assert _lines([label("a" * 15, 0.5, "p")], 0, 3.0)[1][0] == "• 0.50  " + "a" * 15


@pytest.mark.long
def test_the_sheet_is_as_wide_as_its_names_need(tmp_path: Path) -> None:
    columns_of_names = []
    for name in ("a" * 5, "Great black-backed gull (adult)", "W" * 99):
        example_sheet(tmp_path / "s.png", scenes(6), [[label(name, 0.5, "p")]] * 6, with_truth=False)
        image = pixels(tmp_path / "s.png")
        columns = np.flatnonzero((image == 128).all(-1).sum(0) > 150)
        columns_of_names.append(int((np.diff(columns) > 1).sum()) + 1)
        assert (image[:, -3:] == 255).all()  # nothing runs over the edge
    assert columns_of_names == [6, 4, 3]


@pytest.mark.parametrize(
    ("kinds", "colours"),
    [
        (["pt"], {RIGHT}),
        (["pn"], {WRONG}),
        (["t"], {MISSED}),
        (["opt"], {GIVEN}),
        (["ot"], {GIVEN}),
        (["pt", "pn", "t", "opt"], {RIGHT, WRONG, MISSED, GIVEN}),
    ],
)
def test_the_sheet_colours_what_is_right_wrong_missed_and_observed(
    tmp_path: Path, kinds: list[str], colours: set[str]
) -> None:
    labels = [label("name", 0.5, kind) for kind in kinds]
    if not any("o" in kind for kind in kinds):
        colours = colours | {GIVEN}  # "no observed label"
    example_sheet(tmp_path / "s.png", scenes(1), [labels], with_truth=True)
    below = pixels(tmp_path / "s.png")[290:]  # the legend and the scene lie above
    assert {c for c in (RIGHT, WRONG, MISSED, GIVEN) if len(positions(below, c))} == colours


def test_the_sheet_shows_the_scenes(tmp_path: Path) -> None:
    images = np.zeros((7, 3, 20, 20), np.uint8)
    images[:, 0] = 200
    example_sheet(tmp_path / "s.png", images, [[label("a", 0.5, "opt")]] * 7, with_truth=True)
    image = pixels(tmp_path / "s.png")
    red = (image == [200, 0, 0]).all(-1)
    assert red.sum() == pytest.approx(7 * (1.5 * 150) ** 2, rel=0.02)
    rows = np.flatnonzero(red.any(1))
    assert (np.diff(rows) > 1).sum() == 1  # seven scenes stand in two rows


@pytest.fixture
def photos(tmp_path):
    return write_odd_photos(tmp_path)


def test_bars_are_in_proportion(tmp_path):
    labels = np.repeat(np.eye(3), [40, 20, 10], axis=0).astype(np.uint8)
    np.savez(tmp_path / "x.npz", X=np.arange(70)[:, None], Y=labels, classes=np.array(["$a", "b_1", "c"]))
    inspection_sheet(tmp_path / "x.png", inspect(DataConfig(path=str(tmp_path / "x.npz"))))
    bars_drawn = positions(pixels(tmp_path / "x.png"), COLOURS[0])
    rows = np.unique(bars_drawn[:, 0])
    bars = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    assert len(bars) == 3
    widths = [(bars_drawn[:, 0] == bar[len(bar) // 2]).sum() for bar in bars]
    assert widths[1] / widths[0] == pytest.approx(0.5, abs=0.01)
    assert widths[2] / widths[0] == pytest.approx(0.25, abs=0.01)


def test_columns_of_bars_have_one_scale(tmp_path):
    labels = np.concatenate([np.eye(100), np.eye(100)[:40]]).astype(np.uint8)
    np.savez(tmp_path / "x.npz", X=np.arange(140)[:, None], Y=labels)
    inspection_sheet(tmp_path / "x.png", inspect(DataConfig(path=str(tmp_path / "x.npz"))))
    image = pixels(tmp_path / "x.png")
    bars_drawn = positions(image, COLOURS[0])
    halves = [
        bars_drawn[bars_drawn[:, 1] < image.shape[1] / 2],
        bars_drawn[bars_drawn[:, 1] > image.shape[1] / 2],
    ]
    long, short = (np.bincount(half[:, 0]).max() for half in halves)
    assert short / long == pytest.approx(0.5, abs=0.03), "2 positives in the first column, 1 in the second"


@pytest.mark.long
def test_many_classes_are_drawn_in_readable_columns(tmp_path):
    count = MAX_BARS + 20
    labels = np.eye(count, dtype=np.uint8)
    labels[: count // 2, 0] = 1
    np.savez(tmp_path / "x.npz", X=np.arange(count)[:, None], Y=labels)
    inspection_sheet(tmp_path / "x.png", inspect(DataConfig(path=str(tmp_path / "x.npz"))))
    image = pixels(tmp_path / "x.png")
    assert image.shape[0] < 2400
    assert image.shape[1] < 2400
    assert LAST_BARS < MAX_BARS
    # 75 rows of names in each of four columns: ink in every one of them.
    ink = (image < 128).all(-1)
    top, height = int(0.84 * 150), 0.155 * 150
    for column in range(4):
        left = int((0.14 + column * (9.84 + 4.56 - 0.14) / 4) * 150)
        lines = [
            ink[int(top + row * height) : int(top + (row + 1) * height), left : left + 60].any()
            for row in range(75)
        ]
        assert all(lines)


def test_examples_are_shown_with_their_labels(photos, tmp_path):
    inspection_sheet(tmp_path / "x.png", inspect(DataConfig(path=str(photos), max_unreadable=0.5)))
    image = pixels(tmp_path / "x.png")
    left, top, side = int(0.14 * 150), int(0.42 * 150), int(1.5 * 150)
    cell = image[top + 2 : top + side - 2, left + 2 : left + side - 2]
    assert cell.std() > 30, "noise, not white"
    assert len(positions(image, GIVEN)) > 50
