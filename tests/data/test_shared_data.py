"""Real data: the sizes and means that its README states."""

from __future__ import annotations

import numpy as np
import pytest

from spml.config import DataConfig
from spml.data import open_dataset
from tests.helpers.records import sizes_of

pytestmark = pytest.mark.shared


@pytest.mark.long
def test_voc_animals(shared):
    path = shared / "data/images/voc2012_animals/labels.csv"
    data = open_dataset(
        DataConfig(path=str(path), unlisted="negative", observe="single", separator=" "), size=32
    )
    assert data.name == "voc2012_animals"
    assert data.classes == tuple((path.parent / "classes.txt").read_text().split())
    assert sizes_of(data) == {"train": 2149, "val": 535, "test": 892}
    assert data.skipped == ()
    how = "labels.csv: column 'labels': separated by spaces, 13 classes, 1.40 labels per sample ("
    assert any(note.startswith(how) for note in data.notes)
    per_class = {name: truth.positives_per_class().tolist() for name, truth in data.truth.items()}
    assert per_class["train"] == [32, 47, 672, 95, 200, 16, 785, 314, 458, 40, 214, 97, 26]
    assert per_class["val"] == [8, 12, 168, 24, 50, 4, 196, 78, 114, 10, 54, 24, 7]
    assert per_class["test"] == [13, 20, 280, 39, 84, 6, 327, 131, 191, 16, 89, 41, 11]
    assert data.splits["train"].observed.single_positive
    features = open_dataset(
        DataConfig(
            path=str(shared / "data/features/voc2012p_mnv2_224.npz"), unlisted="negative", observe="single"
        )
    )
    for name, samples in features.splits.items():
        assert samples.ids == data.splits[name].ids
        assert features.truth[name] == data.truth[name]
        assert samples.observed == data.splits[name].observed, "the same draw from the same labels and seed"
    assert features.splits["train"].inputs.width == 1280


MULAN = {  # n, features, classes, mean labels, test rows
    "scene": (2407, 294, 6, 1.07, 1196),
    "emotions": (593, 72, 6, 1.87, 202),
    "bibtex": (7395, 1836, 159, 2.40, 2515),
    "cal500": (502, 68, 174, 26.04, 0),
}


@pytest.mark.parametrize("name", MULAN)
def test_feature_sets(shared, name):
    rows, width, classes, mean, test = MULAN[name]
    path = shared / f"data/features/mulan/{name}_X.npz"
    data = open_dataset(DataConfig(path=str(path), unlisted="negative"))
    sizes = sizes_of(data)
    assert sizes.pop("test", 0) == test
    assert sizes == {"train": rows - test - round(0.2 * (rows - test)), "val": round(0.2 * (rows - test))}
    assert len(data.classes) == classes
    assert data.splits["train"].inputs.width == width
    positives = sum(truth.positives_per_sample().sum() for truth in data.truth.values())
    assert positives / rows == pytest.approx(mean, abs=0.005)
    assert np.isfinite(data.splits["val"].inputs.fetch([0, 1], None)).all()
