"""The figure of Grad-CAM maps: which labels it shows, their marks and their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

import spml
from spml.analysis import maps
from spml.analysis.pictures import grad_cam, overlay
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.models import load_classifier
from spml.plots.sheets import SIDE
from tests.helpers.features import make_weights
from tests.helpers.figures import texts
from tests.helpers.photo_runs import CLASSES, train_on, write_photos


def shown(table: Any) -> dict[tuple[str, str, str], list[Any]]:
    """Probability, observed, true and the values of each map by (run, image, label)."""
    result: dict[tuple[str, str, str], list[Any]] = {}
    for row in zip(*table.values(), strict=True):
        entry = result.setdefault(row[:3], [*row[3:6], {}])
        entry[3][row[6], row[7]] = row[8]
    return result


def validation(photos: Path) -> Any:
    config = DataConfig(str(photos), unlisted="negative", observe="single", size=24, separator=" ", workers=0)
    return open_dataset(config)


@pytest.mark.long
def test_the_maps_are_those_of_the_predicted_labels(photos: Path, trained: Path) -> None:
    data, folder = validation(photos), trained / "em"
    samples, truth = data.splits["val"], data.truth["val"].to_ternary()
    run, (classifier, _) = spml.load(folder), load_classifier(folder)
    found = shown(maps([folder], images=len(samples), top=3).table)
    scores = run.predict([photos.parent / name for name in samples.ids])
    expected = {
        ("em", name, label)
        for name, labels in zip(samples.ids, scores.labels, strict=True)
        for label in labels
    }
    assert found.keys() == expected
    assert len(expected) > len(samples)
    best = shown(maps([folder], images=len(samples), top=1).table)
    assert [key[1:] for key in best] == [
        (n, labels[0]) for n, labels in zip(samples.ids, scores.labels, strict=True) if labels
    ]
    observed = samples.observed.to_ternary()
    for (_, name, label), (probability, seen, true, values) in found.items():
        row, column = samples.ids.index(name), CLASSES.index(label)
        assert probability == pytest.approx(scores.scores[row, column], abs=1e-6)
        assert (seen, true) == (observed[row, column], truth[row, column])
        image = samples.inputs.fetch([row], None)
        expected_map = grad_cam(classifier, image, torch.tensor([[column]]))[0, 0]
        assert np.array([[values[y, x] for x in range(3)] for y in range(3)]) == pytest.approx(
            expected_map.numpy(), rel=1e-4, abs=1e-6
        )
    assert {seen for _, seen, _, _ in found.values()} == {0, 1}
    assert {true for _, _, true, _ in found.values()} == {-1, 1}


def test_labels_that_were_not_observed_are_marked(photos: Path, trained: Path) -> None:
    analysis = maps([trained / "em"], images=15, top=3)
    written = texts(analysis)
    for (_, _, label), (probability, seen, true, _) in shown(analysis.table).items():
        mark = "" if seen == 1 else {1: "\N{CHECK MARK} ", -1: "\N{BALLOT X} "}[true]
        assert f"{mark}{label}  {probability:.2f}" in written
    assert "\N{CHECK MARK} not observed, true" in written


def test_without_truth_a_predicted_label_is_open(trained: Path, photos: Path, tmp_path: Path) -> None:
    lines = photos.read_text().splitlines()[1:5]
    rows = [line.split(",")[0] + "," + line.split(",")[1].split()[0] for line in lines]
    data = photos.parent / "known.csv"
    data.write_text("\n".join(["file,labels", *rows]) + "\n")
    folder = train_on(data, tmp_path / "run", data={"unlisted": "unknown", "observe": "none"}, method="an")
    analysis = maps([folder], images=9, threshold=0.0)
    found = shown(analysis.table)
    assert {true for _, _, true, _ in found.values()} == {0}
    assert any(text.startswith("\N{BULLET} ") for text in texts(analysis))
    assert not any(text.startswith(("\N{CHECK MARK}", "\N{BALLOT X}")) for text in texts(analysis))


def test_several_runs_and_other_images(trained: Path, photos: Path) -> None:
    data = photos.parent / "two.csv"
    data.write_text("file,labels\n01.png,red\n03.png,green\n")
    analysis = maps([trained / "em", trained / "an"], data=str(data), threshold=0.0, top=1)
    found = shown(analysis.table)
    names = [image for run, image, _ in found if run == "an"]
    assert {(run, image) for run, image, _ in found} == {(r, image) for r in ("em", "an") for image in names}
    scores = spml.load(trained / "an").predict([str(photos.parent / Path(name).name) for name in names])
    assert len(names) == 2
    assert [label for run, _, label in found if run == "an"] == [
        CLASSES[column] for column in scores.scores.argmax(1)
    ]


@pytest.mark.long
def test_splits_and_seeds_choose_the_images(trained: Path, photos: Path) -> None:
    def images(**options: Any) -> list[str]:
        table = maps([trained / "em"], images=3, threshold=0.0, **options).table
        return list(dict.fromkeys(table["image"]))

    first = images()
    assert len(first) == 3
    assert set(first) <= set(validation(photos).splits["val"].ids)
    assert images() == first
    assert images(seed=1) != first
    assert set(images(split="train")) <= set(validation(photos).splits["train"].ids)
    # Read as data of its own, the file keeps its splits.
    assert set(images(data=str(photos), split="val")) <= set(validation(photos).splits["val"].ids)


def test_the_overlay_by_hand() -> None:
    """Where the map is 0: 85 % of the grey value and 15 % black; at its maximum: 30 %, and 70 % yellow."""
    image = np.full((3, 200, 200), 100, np.uint8)
    image[0] = 160
    values = np.zeros((2, 2), np.float32)
    values[0, 0] = 7
    drawn = overlay(image, values)
    assert drawn.shape == (3, 200, 200)
    assert drawn[:, -1, -1].tolist() == pytest.approx([102, 102, 102], abs=2)
    assert drawn[:, 0, 0].tolist() == pytest.approx([0.3 * 120 + 0.7 * c for c in (252, 255, 164)], abs=2)
    assert overlay(image, np.zeros((2, 2), np.float32)).max() <= 104
    assert overlay(image[:, :40, :40], values).shape == (3, 320, 320)
    assert overlay(image[:1], values).shape == (3, 200, 200)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"images": 0}, "`images` must be at least 1"),
        ({"top": 0}, "`top` must be at least 1"),
        ({"threshold": 1.5}, "`threshold` is a probability"),
        ({"threshold": 1.0}, "pass a lower one"),
        ({"split": "test"}, "has no 'test' split, but train, val"),
        ({"data": "missing"}, "missing"),
        ({"data": "digits"}, "has the class 'zero' .and 9 more., which the model in"),
    ],
)
def test_bad_options(trained: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        maps([trained / "em"], **options)


def test_bad_runs(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name the folder of at least one"):
        maps([])
    with pytest.raises(InputError, match="is named twice"):
        maps([trained / "em", trained / "." / "em"])
    with pytest.raises(InputError, match="contains no trained model"):
        maps([tmp_path])
    generator = np.random.default_rng(0)
    labels = np.eye(3, dtype=np.uint8)[generator.integers(0, 3, 30)]
    source = tmp_path / "features.npz"
    np.savez(source, X=generator.normal(size=(30, 4)).astype(np.float32), Y=labels, classes=np.array(CLASSES))
    settings = {"threads": 1, "quiet": True, "pictures": False}
    spml.train(source, method="an", epochs=1, output=str(tmp_path / "run"), **settings)
    with pytest.raises(InputError, match=r"takes features, which can't be drawn\. Name runs"):
        maps([tmp_path / "run"])
    with pytest.raises(InputError, match=r"holds features, but the model in .* takes images"):
        maps([trained / "em"], data=str(source))


def test_the_data_of_the_run_has_changed(tmp_path: Path) -> None:
    source = write_photos(tmp_path / "photos", 20)
    folder = train_on(source, tmp_path / "run", method="an", epochs=1)
    source.write_text(source.read_text().replace("red", "pink"))
    with pytest.raises(InputError, match="has the class 'pink', which the model in"):
        maps([folder])
    source.unlink()
    with pytest.raises(InputError, match=r"labels\.csv"):
        maps([folder])


@pytest.mark.long
def test_the_window_of_a_label_is_outlined(photos: Path, tmp_path: Path) -> None:
    make_weights(tmp_path / "weights.safetensors", "test_convnext", 96)
    model = {"backbone": "test_convnext", "weights": str(tmp_path / "weights.safetensors"), "frozen": "yes"}
    model["local"] = "on"
    folder = train_on(photos, tmp_path / "run", method="auto", data={"size": 96}, model=model)
    analysis = maps([folder], images=3, threshold=1e-6, top=2)
    files = [photos.parent / Path(name).name for name in dict.fromkeys(analysis.table["image"])]
    predicted = spml.load(folder).predict(files, where=True, top_k=2)
    expected = [window for where in predicted.where for window in where]
    figure = analysis.figure
    width, height = figure.get_size_inches()
    outlined = [
        [patch.get_width() * width / SIDE, patch.get_height() * height / SIDE]
        for patch in figure.artists
        if isinstance(patch, Rectangle)
    ]
    np.testing.assert_allclose(outlined, np.asarray(expected)[:, 2:], atol=1e-5)
    assert len(outlined) == 6
