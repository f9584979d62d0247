"""The picture of a data set, read back from its pixels."""

from __future__ import annotations

import numpy as np
import pytest

from spml.config import DataConfig
from spml.data import inspect
from spml.plots import inspection_sheet
from spml.plots.data import LAST_BARS, MAX_BARS
from spml.plots.style import COLOURS, GIVEN
from tests.helpers import write_odd_photos
from tests.plots.reading import pixels, positions


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
