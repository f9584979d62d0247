"""The figure of predictions: marks and numbers of several runs on the same images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import spml
from spml.analysis import predictions
from spml.analysis.pictures import Pictures, _lines
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.plots.style import MISSED, RIGHT, WRONG
from tests.helpers.figures import texts
from tests.helpers.photo_runs import CLASSES, train_on, write_photos


def pictures(observed: list[int], truth: list[int] | None) -> Pictures:
    labels = None if truth is None else np.array([truth], np.int8)
    return Pictures(("a",), np.array([observed], np.int8), labels, lambda spec: None)


PROBABILITIES = np.array([[0.9, 0.2, 0.7, 0.4]], np.float32)
PREDICTED = np.array([[True, False, True, False]])


@pytest.mark.parametrize(
    ("observed", "truth", "lines"),
    [
        (
            [1, 0, 0, 0],
            [1, 1, -1, -1],
            [("✓ a  0.90", RIGHT, "bold"), ("✗ c  0.70", WRONG, "normal"), ("– b  0.20", MISSED, "normal")],
        ),
        (
            [0, 1, 0, 1],
            None,
            [
                ("• a  0.90", "black", "normal"),
                ("• c  0.70", "black", "normal"),
                ("– d  0.40", MISSED, "bold"),
                ("– b  0.20", MISSED, "bold"),
            ],
        ),
        ([1, 0, -1, 0], None, [("✓ a  0.90", RIGHT, "bold"), ("✗ c  0.70", WRONG, "normal")]),
    ],
)
def test_the_lines_of_a_run(
    observed: list[int], truth: list[int] | None, lines: list[tuple[str, str, str]]
) -> None:
    assert _lines("abcd", pictures(observed, truth), 0, (PROBABILITIES, PREDICTED)) == lines


def test_nothing_is_predicted() -> None:
    nothing = np.zeros((1, 4), bool)
    assert _lines("abcd", pictures([0] * 4, [-1] * 4), 0, (PROBABILITIES, nothing)) == [
        ("nothing predicted", "black", "normal")
    ]


@pytest.mark.long
def test_the_table_holds_what_each_run_predicts(trained: Path, photos: Path) -> None:
    config = DataConfig(str(photos), unlisted="negative", observe="single", size=24, separator=" ", workers=0)
    data = open_dataset(config)
    samples, truth = data.splits["val"], data.truth["val"].to_ternary()
    observed = samples.observed.to_ternary()
    analysis = predictions([trained / "em", trained / "an"], images=5)
    rows = list(zip(*analysis.table.values(), strict=True))
    names = list(dict.fromkeys(row[1] for row in rows))
    assert len(names) == 5
    assert [row[:3] for row in rows] == [(r, n, c) for r in ("em", "an") for n in names for c in CLASSES]
    for run in ("em", "an"):
        expected = spml.load(trained / run).predict([photos.parent / name for name in names])
        mine = [row for row in rows if row[0] == run]
        assert [row[3] for row in mine] == pytest.approx(expected.scores.ravel(), abs=1e-6)
        assert [row[4] for row in mine] == [
            int(name in labels) for labels in expected.labels for name in CLASSES
        ]
        chosen = [samples.ids.index(name) for name in names]
        assert [row[5] for row in mine] == observed[chosen].ravel().tolist()
        assert [row[6] for row in mine] == truth[chosen].ravel().tolist()
    assert analysis.notes == ()
    assert {"em", "an"} <= set(texts(analysis))


@pytest.mark.long
def test_columns_follow_the_names_of_the_classes(trained: Path, photos: Path, tmp_path: Path) -> None:
    """A run whose data lists the classes in another order gives the same table."""
    lines = photos.read_text().splitlines()[1:]
    rows = ["file,split,red,green,blue"]
    for line in lines:
        name, labels, split = line.split(",")
        rows.append(
            ",".join([name, split, *(str(int(c in labels.split())) for c in ("red", "green", "blue"))])
        )
    turned = photos.parent / "turned.csv"
    turned.write_text("\n".join(rows) + "\n")
    folder = train_on(turned, tmp_path / "turned", method="em", data={"separator": None})
    assert spml.load(folder).classes == ("red", "green", "blue")
    analysis = predictions([trained / "em", folder], images=3, threshold=0.5)
    rows = list(zip(*analysis.table.values(), strict=True))
    mine = [row for row in rows if row[0] == "turned"]
    files = [str(photos.parent / Path(name).name) for name in dict.fromkeys(row[1] for row in mine)]
    expected = spml.load(folder).predict(files).scores[:, ::-1]
    assert [row[2] for row in mine] == list(CLASSES) * 3
    assert [row[3] for row in mine] == pytest.approx(expected.ravel(), abs=1e-6)
    assert [row[4] for row in mine] == (expected.ravel() >= 0.5).astype(int).tolist()
    noted = predictions([trained / "em", folder], images=2)
    assert len(noted.notes) == 1
    assert f"the images are those of {photos}" in noted.notes[0]


@pytest.mark.long
def test_runs_with_other_classes_are_refused(trained: Path, tmp_path: Path) -> None:
    source = write_photos(tmp_path / "photos", 20, ("blau", "green", "red"))
    folder = train_on(source, tmp_path / "run", method="an", epochs=1)
    with pytest.raises(InputError, match=r"knows the class 'blue' and .* does not: only runs with the same"):
        predictions([trained / "em", folder])


def test_a_class_that_the_data_does_not_have_is_unknown(trained: Path, photos: Path) -> None:
    data = photos.parent / "two.csv"
    data.write_text("file,labels\n00.png,red\n01.png,red green\n")
    analysis = predictions([trained / "em"], data=str(data))
    found = {row[1:3]: row[5:] for row in zip(*analysis.table.values(), strict=True)}
    assert found["00.png", "red"] == (1, 1)
    assert found["00.png", "green"] == (-1, -1)
    assert found["00.png", "blue"] == (0, 0)
