"""Runs on data in memory: the same models, results and messages as on the same data in files."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_matrix
from torch.utils.data import Dataset

import spml
from spml.common.errors import InputError
from spml.config import from_dict, read_yaml
from tests.helpers.commands import fails, refusal
from tests.helpers.features import make_features
from tests.helpers.photos import make_photos

CLASSES = ["a", "b", "c", "d"]
QUICK = {"head": "ridge", "quiet": True, "threads": 1}
IMAGES = {
    "backbone": "small_cnn",
    "method": "an",
    "epochs": 1,
    "batch_size": 8,
    "threads": 1,
    "quiet": True,
    "data": {"size": 16, "workers": 0},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def arrays(folder):
    """Features (300, 10) and labels {0, 1} (300, 4)."""
    with np.load(make_features(folder / "with_split.npz")) as file:
        return file["X"], file["Y"]


@pytest.fixture(scope="module")
def from_file(folder, arrays):
    """Run on the same arrays in a file."""
    np.savez(folder / "x.npz", X=arrays[0], Y=arrays[1], classes=np.array(CLASSES))
    return spml.train(folder / "x.npz", output=folder / "from_file", **QUICK)


@pytest.fixture(scope="module")
def run(folder, arrays):
    """Run on the arrays in memory."""
    return spml.train(*arrays, classes=CLASSES, output=folder / "run", **QUICK)


def names(matrix):
    return [[CLASSES[k] for k in np.flatnonzero(row)] for row in matrix]


# -- the same model ----------------------------------------------------------------------------------------


def test_arrays_give_the_model_of_the_file_to_the_bit(run, from_file):
    assert run.weights_sha256 == from_file.weights_sha256
    assert run.summary["data"]["fingerprint"] == from_file.summary["data"]["fingerprint"]
    assert run.summary["data"]["samples"] == {"train": 240, "val": 60}
    config, expected = (read_yaml(each.folder / "config.yaml") for each in (run, from_file))
    assert (config.data.path, config.data.workers) == ("data in memory", 0)
    config.data.path, config.output = expected.data.path, expected.output
    assert config == expected
    assert run.summary["data"]["name"] == "memory"


class Photos(Dataset):
    """Images and the indices of their classes."""

    classes = ["blue", "green", "red"]  # noqa: RUF012 (as in torchvision)

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, row):
        path = self.paths[row]
        return Image.open(path), self.classes.index(path.parent.name)


@pytest.fixture(scope="module")
def photos(folder):
    """Paths of images, whose classes are the names of their folders."""
    return sorted(make_photos(folder / "photos", per_class=8).glob("*/*.png"))


@pytest.fixture(scope="module")
def on_photos(folder, photos):
    """Run on a CSV file."""
    rows = [f"{path.relative_to(folder)},{path.parent.name}" for path in photos]
    (folder / "photos.csv").write_text("file,label\n" + "\n".join(rows))
    return spml.train(folder / "photos.csv", output=folder / "on_photos", **IMAGES)


def test_paths_give_the_model_of_the_csv_file_to_the_bit(folder, photos, on_photos):
    y = [path.parent.name for path in photos]
    run = spml.train(photos, y, output=folder / "paths", **IMAGES)
    assert run.weights_sha256 == on_photos.weights_sha256
    assert run.summary["data"]["fingerprint"] == on_photos.summary["data"]["fingerprint"]


def test_images_give_the_model_of_their_files_to_the_bit(folder, photos, on_photos):
    run = spml.train(Photos(photos), output=folder / "images", **IMAGES)
    assert run.weights_sha256 == on_photos.weights_sha256
    assert run.classes == ("blue", "green", "red")


# -- going on ----------------------------------------------------------------------------------------------


def test_a_finished_run_is_resumed_with_the_same_data_only(run, arrays):
    x, y = arrays
    (run.folder / "summary.json").write_text("{", encoding="utf-8")  # is written again
    again = spml.train(x.copy(), y, classes=CLASSES, output=run.folder, resume=True, **QUICK)
    assert again.weights_sha256 == run.weights_sha256
    assert again.summary["data"]["samples"] == {"train": 240, "val": 60}
    changed = x.copy()
    changed[7, 3] += 1
    message = (
        f"{run.folder}: can't be resumed, because the data changed since this run was started (its samples "
        "or labels, your own network, or the run that it started from). Restore it, or start again with "
        "`overwrite`."
    )
    for other in ((changed, y), (x, y[:, ::-1])):
        assert (
            refusal(spml.train, *other, classes=CLASSES, output=run.folder, resume=True, **QUICK) == message
        )


@pytest.mark.long
def test_what_needs_the_data_again_says_what_to_pass(run, capsys):
    message = (
        "data in memory: it was passed to spml.train in Python and is in no file. Name a file or folder that "
        "holds it; or pass it again, in Python.\n"
    )
    for command in (
        ["train", "--output", str(run.folder), "--resume"],
        ["audit", str(run.folder), "--mean_labels", "2", "--output", str(run.folder.parent / "audit")],
    ):
        assert fails(capsys, *command).endswith(message)
    assert run.set_thresholds(mean_labels=2.5).mean_labels.value == 2.5


# -- prediction and evaluation -----------------------------------------------------------------------------


def test_features_in_memory_are_predicted_as_those_of_a_file(folder, run, arrays, from_file):
    expected = run.predict(folder / "x.npz")
    for samples in (arrays[0], torch.tensor(arrays[0]), csr_matrix(arrays[0]), list(arrays[0])):
        found = run.predict(samples)
        assert found.scores.tolist() == expected.scores.tolist()
        assert found.ids == expected.ids
        assert found.labels == expected.labels


def test_images_in_memory_are_predicted_as_their_files(photos, on_photos):
    expected = on_photos.predict(photos)
    assert expected.ids == tuple(str(path) for path in photos)
    images = [Image.open(path) for path in photos]
    for samples in (Photos(photos), images, [np.asarray(image) for image in images]):
        found = on_photos.predict(samples)
        assert found.scores.tolist() == expected.scores.tolist()
        assert found.ids == tuple(map(str, range(len(photos))))
    assert on_photos.predict(path for path in photos).ids == expected.ids


def test_a_damaged_image_among_good_ones_is_left_out_and_named(folder, photos, on_photos):
    (folder / "cut.png").write_bytes(photos[0].read_bytes()[:3000])
    images = [Image.open(photos[0]), Image.open(folder / "cut.png"), Image.open(photos[1])]
    found = on_photos.predict(images)
    assert found.ids == ("0", "2")
    assert found.scores.tolist() == on_photos.predict(photos[:2]).scores.tolist()
    assert re.fullmatch(r"Skipped 1 image: 1 \(damaged: image file is truncated.*\)\.", found.notes[0])
    labels = [path.parent.name for path in photos]
    with pytest.raises(
        InputError, match=r"1 of 25 images can't be used, more than data\.max_unreadable = 0\.01"
    ):
        spml.train([*map(Image.open, photos), images[1]], [*labels, "red"], output=folder / "no", **IMAGES)
    assert not (folder / "no").exists()


def test_data_in_memory_is_evaluated_as_that_of_a_file(folder, run, arrays, from_file, recwarn):
    x, y = arrays
    expected = run.evaluate(folder / "x.npz", unlisted="negative")
    for labels in (y, names(y), csr_matrix(y)):
        found = run.evaluate(x, labels, unlisted="negative")
        assert found["mAP"] == expected["mAP"]
        assert (found["data"], found["samples"], found["warnings"]) == ("data in memory", 300, [])
    observed = run.evaluate(x, np.argmax(y, 1))
    assert observed["labels"] == "observed only"
    both = spml.compare([run, folder / "from_file"], x, y, observed=False, unlisted="negative")
    assert [each["mAP"] for each in both["runs"].values()] == [expected["mAP"]] * 2
    assert run.set_thresholds(x, y, unlisted="negative").rows.count == 300


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            ["a", "bb"],
            "data in memory: has the class 'bb', which the model in {run} does not know. Did you mean b? To "
            "leave such classes out, give them an empty name in data.rename: data.rename={{'bb': ''}}.",
        ),
        (
            [0, 4],
            "data in memory: Y: row 1: class index 4 is outside 0 ... 3 (rows and columns counted from 0). "
            "Class indices are integers, and the first class is 0: subtract 1 if yours begin with 1.",
        ),
        (np.eye(2), "data in memory: Y has 2 columns; expected 4, one per class name."),
        (["a"], "X has 2 samples, but y has 1 label."),
        (
            None,
            "y is missing: pass the labels of the samples. Only a torch Dataset of (image, label) and a "
            "DataFrame of image files and labels hold them already. Labels are class names, alone or with "
            "separators, class indices, a list of names or of indices for each sample, or a matrix (N, C) of "
            "{{0, 1}}, {{-1, 0, 1}} or {{0, 1, NaN}} as a NumPy array, torch tensor, SciPy matrix or "
            "DataFrame.",
        ),
    ],
)
def test_labels_that_do_not_suit_a_run(run, arrays, y, message):
    assert refusal(run.evaluate, arrays[0][:2], y) == message.format(run=run.folder)


def test_named_features_are_those_of_the_training(folder, arrays):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.DataFrame(arrays[0], columns=[f"f{column}" for column in range(10)])
    run = spml.train(table, arrays[1], classes=CLASSES, output=folder / "named", **QUICK)
    assert run.feature_names == spml.load(run.folder).feature_names == tuple(table.columns)
    expected = run.predict(table).scores
    assert (run.predict(table.to_numpy()).scores == expected).all()  # without names, columns count by place
    swapped, renamed = table[["f1", "f0", *table.columns[2:]]], table.rename(columns={"f9": "g"})
    np.savez(folder / "swapped.npz", X=swapped, feature_names=list(swapped.columns))
    place = "column {} (counted from 0), but the data has {!r} there: its features are {}. Give those of "
    message = f"the model in {run.folder} has learned from the feature {{!r}} in {place}"
    message += "Run.feature_names (feature_names in model.json), in this order."
    for attempt, parts in (
        (lambda: run.predict(swapped), ("f0", 0, "f1", "in another order")),
        (lambda: run.predict(folder / "swapped.npz"), ("f0", 0, "f1", "in another order")),
        (lambda: run.evaluate(renamed, arrays[1]), ("f9", 9, "g", "others")),
    ):
        assert refusal(attempt) == message.format(*parts)
    assert (run.predict(swapped[list(run.feature_names)]).scores == expected).all()


def test_samples_that_do_not_suit_a_run(run, on_photos, arrays, photos):
    x = arrays[0]
    for attempt, message in (
        (lambda: run.predict(x[:, :3]),
         f"the model in {run.folder} takes 10 features per sample, but the data has 3. Give features made in "
         "the same way."),
        (lambda: run.predict([Image.open(photos[0])]),
         f"the model in {run.folder} takes features, but the data holds images."),
        (lambda: on_photos.predict(x),
         f"the model in {on_photos.folder} takes images, but the data holds features."),
        (lambda: run.predict([]), "Nothing to predict: give images, folders of images or a .npz file."),
        (lambda: run.predict(x[:0]),
         "data in memory: X must hold numbers in shape (N, D), or (N, P, D) for P parts of each sample, with "
         "at least one row, 1 to 10,000,000 columns and at most 8,192 parts; got float32 (0, 10)."),
        (lambda: run.predict(np.full((1, 10), np.nan)),
         "data in memory: X holds nan at row 0, column 0 (counted from 0). Every feature must be a finite "
         "float32 number: fill in or remove missing values."),
        (lambda: run.evaluate(run.folder, ["a"]),
         "y, classes, split and groups belong to samples in memory, but the data is named by its path: leave "
         "them out, or pass the samples themselves."),
    ):  # fmt: skip
        assert refusal(attempt) == message


# -- arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"class_names": CLASSES}, "unknown setting 'class_names'. Did you mean classes or names?"),
        ({"head": "mpl"}, "model.head must be one of auto, linear, mlp, boosted_cam, gaussian, "
         "gaussian_per_class, beta, correlated, queries, ridge, lda, mean_difference, "
         "got 'mpl'. Did you mean mlp?"),
        ({"data": "x.csv"}, "data must be settings by name (data={'val_share': 0.1}), got 'x.csv'"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_before_the_data_is_looked_at(settings, message):
    assert refusal(spml.train, {"not": "data"}, **settings) == message


def test_labels_and_settings_do_not_go_with_a_complete_configuration():
    for more in ({"y": ["a"]}, {"classes": ["a"]}, {"epochs": 3}):
        message = refusal(spml.train, from_dict({}), **more)
        assert message.startswith("give either a Config or settings by name, not both")
