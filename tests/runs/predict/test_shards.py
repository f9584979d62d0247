"""Folders of feature shards, from training to prediction: the same numbers as from one file."""

from __future__ import annotations

import json

import numpy as np
import pytest

import spml
from spml.cli.main import main
from tests.helpers.features import make_features


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same data in one file and in three shards."""
    folder = tmp_path_factory.mktemp("data")
    one = make_features(folder / "one.npz")
    with np.load(one) as arrays:
        content = dict(arrays)
    many = folder / "many"
    many.mkdir()
    for name in ("X", "Y", "split"):
        for number, part in enumerate(np.split(content[name], (90, 200))):
            np.save(many / f"{name}_{number:05d}.npy", part)
    np.savetxt(many / "classes.txt", content["classes"], fmt="%s")
    return one, many


@pytest.mark.parametrize("settings", [{"method": "an", "epochs": 2}, {"model": {"head": "ridge"}}])
def test_training_prediction_and_evaluation_are_those_of_one_file(sources, tmp_path, settings):
    data = {"unlisted": "negative", "observe": "single"}
    runs = [spml.train(str(path), output=tmp_path / path.stem, data=data, **settings) for path in sources]
    weights = [json.loads((run.folder / "model.json").read_text())["weights_sha256"] for run in runs]
    assert weights[0] == weights[1]
    predictions = [run.predict(path) for run, path in zip(runs, sources, strict=True)]
    assert predictions[0].ids == predictions[1].ids == tuple(map(str, range(300)))
    assert predictions[0].scores.tolist() == predictions[1].scores.tolist()
    one, many = (json.dumps(run.evaluate(path, **data)) for run, path in zip(runs, sources, strict=True))
    assert one.replace("one.npz", "many").replace("/one", "/many") == many


def test_predictions_of_shards_are_written_to_a_file(sources, tmp_path):
    _, many = sources
    run = spml.train(str(many), output=tmp_path / "run", method="an", epochs=1)
    main(["predict", str(run.folder), str(many), "--output", str(tmp_path / "new.csv")])
    lines = (tmp_path / "new.csv").read_text().splitlines()
    assert len(lines) == 301
    assert lines[300].startswith("299,")
