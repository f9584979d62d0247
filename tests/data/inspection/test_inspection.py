"""`spml data inspect`: every count against data in which it is known."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image
from tests.plots.test_plots import pixels, places

from spml.cli.main import main
from spml.config import DataConfig
from spml.data import inspect
from spml.data.inspection.class_names import ALIKE, EMPTY, NUMBERS, ONE_LETTER, SPACES, suspicious_names
from spml.errors import InputError
from spml.plots.data import LAST_BARS, MOST_BARS, inspection_sheet
from spml.plots.figures import COLOURS
from spml.runs.console import Console


@pytest.fixture
def photos(tmp_path, picture):
    """Wide CSV over five images: a copy across splits, a copy with other labels, one that is no image."""
    picture("a.png", (20, 10))
    picture("b.png", (10, 40))
    picture("c.png", (30, 30))
    shutil.copy(tmp_path / "a.png", tmp_path / "copy.png")
    shutil.copy(tmp_path / "c.png", tmp_path / "same.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    path = tmp_path / "data.csv"
    path.write_text(
        "file,split,horse,Traffic Light,traffic_light,horses\n"
        "a.png,train,1,,-1,\n"
        "b.png,train,1,1,,\n"
        "c.png,train,,1,,-1\n"
        "same.png,train,,1,,-1\n"
        "copy.png,test,,,1,\n"
        "broken.png,val,1,,,\n"
    )
    return path


def test_counts_of_a_table(photos):
    found = inspect(DataConfig(path=str(photos), max_unreadable=0.5))
    assert (found.name, found.kind, found.samples, found.extent) == ("data", "image", 6, "partial")
    assert found.splits == {"train": 4, "val": 1, "test": 1}
    counts = {c.name: (c.positive, c.negative, c.unknown, dict(c.by_split)) for c in found.classes}
    assert counts == {
        "horse": (3, 0, 3, {"train": 2, "val": 1, "test": 0}),
        "Traffic Light": (3, 0, 3, {"train": 3, "val": 0, "test": 0}),
        "traffic_light": (1, 1, 4, {"train": 0, "val": 0, "test": 1}),
        "horses": (0, 2, 4, {"train": 0, "val": 0, "test": 0}),
    }
    assert found.labels_per_sample == {1: 5, 2: 1}
    assert found.mean_labels == pytest.approx(7 / 6)
    assert found.nothing_known == 0
    assert found.without_positive["train"] == ("traffic_light", "horses")
    assert found.without_positive["val"] == ("Traffic Light", "traffic_light", "horses")
    assert found.imbalance == {
        "most": ["horse", 3],
        "least": ["traffic_light", 1],
        "ratio": 3.0,
        "rare": ["horse", "Traffic Light", "traffic_light"],
    }
    assert [(f.problem, f.names) for f in found.names] == [
        (ALIKE, ("Traffic Light", "traffic_light")),
        (ONE_LETTER, ("horse", "horses")),
    ]
    assert any("4 columns stand for a class" in note for note in found.notes)


def test_files_that_cannot_be_read_are_not_equal_to_one_another(tmp_path, picture):
    picture("cat/1.png")
    picture("dog/1.png", size=(9, 9))
    for name in ("cat/2.png", "dog/2.png"):
        (tmp_path / name).write_bytes(b"")
    found = inspect(DataConfig(path=str(tmp_path), max_unreadable=0.6))
    assert len(found.unreadable) == 2
    assert found.duplicates == ()


def test_many_equal_samples_are_compared_in_blocks(tmp_path, monkeypatch):
    """Labels may be dense in memory for some samples only: here for one at a time."""
    monkeypatch.setattr("spml.data.inspection.report.CHUNK", 1)
    for last, differ in (([1, 0, 0], False), ([0, 1, 0], True)):
        labels = np.array([[1, 0, 0]] * 3 + [last], np.uint8)
        np.savez(tmp_path / "x.npz", X=np.ones((4, 2)), Y=labels, classes=np.array(["a", "b", "c"]))
        (group,) = inspect(DataConfig(path=str(tmp_path / "x.npz"))).duplicates
        assert (group.ids, group.labels_differ) == (("0", "1", "2", "3"), differ)


def test_the_sign_of_zero_makes_no_difference(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.array([[0.0, 1], [-0.0, 1], [2, 1]]), Y=np.eye(3))
    (group,) = inspect(DataConfig(path=str(tmp_path / "x.npz"))).duplicates
    assert group.ids == ("0", "1")


def test_a_class_is_rare_below_ten_positives(tmp_path):
    labels = np.zeros((30, 3), np.uint8)
    labels[:20, 0], labels[:10, 1], labels[:9, 2] = 1, 1, 1
    np.savez(tmp_path / "x.npz", X=np.eye(30), Y=labels, classes=np.array(["a", "b", "c"]))
    imbalance = inspect(DataConfig(path=str(tmp_path / "x.npz"))).imbalance
    assert imbalance == {"most": ["a", 20], "least": ["c", 9], "ratio": 20 / 9, "rare": ["c"]}


def test_duplicates_unreadable_files_and_sizes(photos):
    found = inspect(DataConfig(path=str(photos), max_unreadable=0.5))
    groups = [(d.ids, d.splits, d.across, d.labels_differ) for d in found.duplicates]
    assert groups == [
        (("a.png", "copy.png"), ("train", "test"), True, True),
        (("c.png", "same.png"), ("train", "train"), False, False),
    ]
    ((file, reason),) = found.unreadable
    assert file == "broken.png"
    assert reason.startswith("not an image of a known format")
    assert found.images.width == (10, 20, 30)
    assert found.images.height == (10, 30, 40)
    assert found.images.tallest == ("b.png", 0.25)
    assert found.images.widest == ("a.png", 2.0)
    assert found.features is None
    shown = dict(found.examples)
    assert shown == {
        "a.png": ("horse",),
        "b.png": ("horse", "Traffic Light"),
        "c.png": ("Traffic Light",),
        "same.png": ("Traffic Light",),
        "copy.png": ("traffic_light",),
    }
    assert found.thumbnails.shape == (5, 3, 160, 160)


def test_rows_are_right_beyond_the_first_block(tmp_path, picture, monkeypatch):
    monkeypatch.setattr("spml.data.inspection.contents.BLOCK", 2)
    for number in range(5):
        picture(f"cat/{number}.png", (10 + number, 10))
        picture(f"dog/{number}.png", (20 + number, 10))
    (tmp_path / "cat" / "3.png").write_bytes(b"")
    found = inspect(DataConfig(path=str(tmp_path)))
    assert found.unreadable == (("cat/3.png", "the file is empty"),)
    assert found.images.width == (10, 20, 24)
    assert found.images.widest == ("dog/4.png", 2.4)
    assert found.duplicates == ()


def test_size_is_that_of_the_upright_image(tmp_path, picture):
    exif = Image.Exif()
    exif[0x0112] = 6
    picture("cat/1.jpg", (40, 20), exif=exif)
    picture("dog/1.jpg", (40, 20))
    found = inspect(DataConfig(path=str(tmp_path)))
    assert (found.images.width, found.images.height) == ((20, 30, 40), (20, 30, 40))
    assert found.images.tallest == ("cat/1.jpg", 0.5)


def test_what_training_would_see_or_refuse(photos):
    found = inspect(DataConfig(path=str(photos)))
    assert found.refused.startswith("1 unreadable images: broken.png (not an image")
    assert all(c.training is None for c in found.classes)

    tolerant = inspect(DataConfig(path=str(photos), max_unreadable=0.5))
    assert tolerant.refused == ""
    assert any(note.startswith("2 classes have no known positive in training") for note in tolerant.training)

    lines = photos.read_text().splitlines()
    photos.write_text("\n".join([lines[0], *(line.replace("train", "test") for line in lines[1:6])]))
    untrained = inspect(DataConfig(path=str(photos)))
    assert "no training sample is left" in untrained.refused
    assert untrained.samples == 5


def test_hidden_and_held_out_labels_are_counted_apart(tmp_path):
    labels = np.tile([[1, 1, 0], [0, 1, 1]], (50, 1))
    np.savez(tmp_path / "x.npz", X=np.arange(200).reshape(100, 2), Y=labels)
    found = inspect(DataConfig(path=str(tmp_path / "x.npz"), unlisted="negative", observe="single"))
    assert [c.positive for c in found.classes] == [50, 100, 50]
    assert sum(c.training for c in found.classes) == 80, "one positive of each sample that is not held out"
    assert found.splits == {"all": 100}
    with pytest.raises(InputError, match="observe_share"):
        inspect(DataConfig(path=str(tmp_path / "x.npz"), observe="fraction", observe_share=2.0))


def test_feature_sets(tmp_path):
    matrix = np.array([[0, 7, 2.0], [4, 7, 0], [0, 7, 2], [-1, 7, 0]], np.float32)
    np.savez(
        tmp_path / "x.npz",
        X=matrix,
        Y=np.array([[1, np.nan], [0, 1], [np.nan, 1], [np.nan, np.nan]]),
        classes=np.array(["7", "b"]),
        split=np.array(["train", "train", "test", "train"]),
        names=np.array(["r", "s", "t", "u"]),
    )
    found = inspect(DataConfig(path=str(tmp_path / "x.npz")))
    assert found.images is None
    f = found.features
    assert (f.width, f.constant, f.non_finite) == (3, (1,), 0)
    assert f.density == pytest.approx(8 / 12)
    assert (f.smallest, f.largest, f.scales) == (-1, 7, (2, 5))
    assert [(d.ids, d.across) for d in found.duplicates] == [(("r", "t"), True)]
    assert found.nothing_known == 1
    assert [(g.problem, g.names) for g in found.names] == [(NUMBERS, ("7",))]
    assert found.thumbnails is None


def test_numbers_that_are_not_finite_are_counted(tmp_path):
    matrix = np.arange(12, dtype=np.float64).reshape(4, 3)
    matrix[1, 0], matrix[1, 2], matrix[3, 1] = np.nan, -np.inf, 1e300
    matrix[:, 1] = np.nan
    np.savez(tmp_path / "x.npz", X=matrix, Y=np.eye(4, 2), classes=np.array(["a", "b"]))
    found = inspect(DataConfig(path=str(tmp_path / "x.npz")))
    assert found.features.non_finite == 6
    assert found.features.rows_non_finite == ("0", "1", "2", "3")
    assert (found.features.smallest, found.features.largest) == (0, 11)
    assert found.features.constant == ()
    assert "X holds nan at row 0, column 1" in found.refused
    json.dumps(found.to_dict(), allow_nan=False)


def test_sparse_features_are_as_the_dense_ones(tmp_path):
    from scipy.sparse import csr_matrix

    generator = np.random.default_rng(0)
    matrix = generator.integers(0, 2, (60, 5)).astype(np.float32)
    labels = np.eye(60, 3, dtype=np.uint8)
    labels[3:, 1] = 1
    csr = csr_matrix(matrix)
    np.savez(tmp_path / "dense.npz", X=matrix, Y=labels)
    np.savez(
        tmp_path / "sparse.npz",
        **{"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape, "Y": labels},
    )
    one, other = (inspect(DataConfig(path=str(tmp_path / f"{n}.npz"))) for n in ("dense", "sparse"))
    assert one.features == other.features
    assert one.duplicates == other.duplicates
    assert sum(len(d.ids) for d in one.duplicates) > 10


def test_embedded_digits():
    found = inspect(DataConfig(path="digits"))
    assert (found.kind, found.extent) == ("image", "full")
    assert found.images.width == (40, 40, 40)
    assert found.thumbnails.shape == (12, 1, 40, 40)
    assert found.duplicates == ()


def test_progress_counts_every_sample(photos):
    told = []

    class Bar(Console):
        def progress(self, total, label):
            told.append(total)
            return _Counter(told)

    inspect(DataConfig(path=str(photos)), progress=Bar().progress)
    assert told == [6, 6]


class _Counter:
    def __init__(self, told):
        self.told = told

    def __enter__(self):
        return self.told.append

    def __exit__(self, *error):
        return None


@pytest.mark.shared
def test_real_data(shared):
    """Duplicates, constant features and absent classes as the README of the data states them."""

    def look(name):
        return inspect(DataConfig(path=str(shared / "data" / name), unlisted="negative"))

    for name, across in (("enron", 54), ("bibtex", 18)):
        assert sum(d.across for d in look(f"features/mulan/{name}_X.npz").duplicates) == across
    genbase = look("features/mulan/genbase_X.npz")
    assert len(genbase.features.constant) == 1074
    coco = look("images/coco128")
    assert {split: len(names) for split, names in coco.without_positive.items()} == {"train": 9, "val": 7}
    assert coco.labels_per_sample[0] == 2
    assert (coco.refused, coco.unreadable, coco.duplicates) == ("", (), ())


# -- class names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["cat", "dog"], []),
        (["cat ", "dog"], [(SPACES, ("cat ",))]),
        ([" ", "dog"], [(EMPTY, (" ",))]),
        (["1", "-2.5", "3a"], [(NUMBERS, ("1", "-2.5"))]),
        (
            ["T-shirt", "t shirt", "T_SHIRT", "tshirts"],
            [(ALIKE, ("T-shirt", "t shirt", "T_SHIRT")), (ONE_LETTER, ("T-shirt", "tshirts"))],
        ),
        (["horse", "house"], [(ONE_LETTER, ("horse", "house"))]),
        (["horse", "hrose"], [(ONE_LETTER, ("horse", "hrose"))]),
        (["horse", "horsey"], [(ONE_LETTER, ("horse", "horsey"))]),
        (["orse1", "horse1"], [(ONE_LETTER, ("orse1", "horse1"))]),
        (["horse", "shore"], []),
        (["cats", "cat"], []),
        (["part 1", "part 2", "part 12"], []),
        (["ﬁrefly", "firefly"], [(ALIKE, ("ﬁrefly", "firefly"))]),
        (["_", "-"], []),
    ],
)
def test_suspicious_names(names, expected):
    assert [(finding.problem, finding.names) for finding in suspicious_names(names)] == expected


def test_pairs_of_names_are_those_of_comparing_all():
    generator = np.random.default_rng(0)
    names = sorted({"".join(generator.choice(list("abc"), generator.integers(5, 8))) for _ in range(150)})
    found = {f.names for f in suspicious_names(names)}
    slow = {(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if _distance(a, b) == 1}
    assert {tuple(sorted(pair)) for pair in found} == slow
    assert len(slow) > 50


def _distance(one, other):
    """Optimal string alignment: insert, delete, replace, swap neighbours."""
    d = np.zeros((len(one) + 1, len(other) + 1), int)
    d[:, 0], d[0] = np.arange(len(one) + 1), np.arange(len(other) + 1)
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[-1, -1]


def test_many_long_names_are_quick():
    assert suspicious_names(["x" * 5000 + str(i) for i in range(20)]) == ()
    assert len(suspicious_names([f"class{chr(0x4E00 + i)}" for i in range(3000)])) <= 50 * 3000


# -- command ---------------------------------------------------------------------------------------------


def test_command_writes_complete_tables(photos, tmp_path, capsys):
    out = tmp_path / "out" / "inspect"
    main(["data", "inspect", str(photos), "--output", str(out), "--data.max_unreadable", "0.5"])
    text = capsys.readouterr().out
    assert "data: 6 images; train 4, val 1, test 1" in text
    assert "duplicates: 2 groups of equal samples" in text
    assert "  a.png (train), copy.png (test)" in text
    assert "class names, same up to case, spaces and underscores: 'Traffic Light', 'traffic_light'" in text
    assert "unreadable: 1 of 6 images\n  broken.png: not an image" in text
    assert {path.name for path in out.iterdir()} == {
        "inspect.json", "inspect.png", "classes.csv", "duplicates.csv", "unreadable.csv",
    }  # fmt: skip
    document = json.loads((out / "inspect.json").read_text())
    assert document["labels_per_sample"] == {"1": 5, "2": 1}
    assert document["duplicates"][0]["ids"] == ["a.png", "copy.png"]
    rows = list(csv.reader((out / "classes.csv").open()))
    assert rows[:2] == [
        ["class", "positive", "negative", "unknown", "train", "val", "test", "training"],
        ["horse", "3", "0", "3", "2", "1", "0", "2"],
    ]
    assert list(csv.reader((out / "duplicates.csv").open()))[1:] == [
        ["1", "a.png", "train", "1", "1"],
        ["1", "copy.png", "test", "1", "1"],
        ["2", "c.png", "train", "0", "0"],
        ["2", "same.png", "train", "0", "0"],
    ]
    assert list(csv.reader((out / "unreadable.csv").open()))[1][0] == "broken.png"


def test_names_do_not_steer_the_terminal(tmp_path, capsys):
    np.savez(
        tmp_path / "x.npz", X=np.eye(4), Y=np.eye(4, 2), classes=np.array(["\x1b[31mred", "[bold]b"]),
        names=np.array(["a\x1b[2J", "b", "c", "d"]),
    )  # fmt: skip
    main(["data", "inspect", str(tmp_path / "x.npz")])
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\n\ufffd[31mred " in text
    assert "\n[bold]b " in text


def test_command_shortens_long_tables(tmp_path, capsys):
    names = [f"class {chr(0x4E00 + i)}" for i in range(60)]
    np.savez(
        tmp_path / "x.npz",
        X=np.arange(1830)[:, None],
        Y=np.repeat(np.eye(60), np.arange(1, 61), axis=0).astype(np.uint8),
        classes=np.array(names),
    )
    main(["data", "inspect", str(tmp_path / "x.npz")])
    text = capsys.readouterr().out
    shown = [number for number, name in enumerate(names) if f"\n{name} " in text]
    assert shown == [*range(10), *range(30, 60)], "the 30 most and the 10 least frequent"
    assert "(20 more classes; with --output all are in classes.csv)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "nothing: no such file or folder"),
        (
            ["data.csv", "--data.path", "other.csv"],
            "the data is named twice: data.csv and --data.path other.csv",
        ),
        (["data.csv", "--output", "data.csv"], "data.csv: is a file; --output must name a folder"),
    ],
)
def test_wrong_input_ends_with_2(photos, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(photos.parent)
    with pytest.raises(SystemExit) as end:
        main(["data", "inspect", *arguments])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


# -- picture ---------------------------------------------------------------------------------------------


def test_bars_are_in_proportion(tmp_path):
    labels = np.repeat(np.eye(3), [40, 20, 10], axis=0).astype(np.uint8)
    np.savez(tmp_path / "x.npz", X=np.arange(70)[:, None], Y=labels, classes=np.array(["$a", "b_1", "c"]))
    inspection_sheet(tmp_path / "x.png", inspect(DataConfig(path=str(tmp_path / "x.npz"))))
    found = places(pixels(tmp_path / "x.png"), COLOURS[0])
    rows = np.unique(found[:, 0])
    bars = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    assert len(bars) == 3
    widths = [(found[:, 0] == bar[len(bar) // 2]).sum() for bar in bars]
    assert widths[1] / widths[0] == pytest.approx(0.5, abs=0.01)
    assert widths[2] / widths[0] == pytest.approx(0.25, abs=0.01)


def test_columns_of_bars_have_one_scale(tmp_path):
    labels = np.concatenate([np.eye(100), np.eye(100)[:40]]).astype(np.uint8)
    np.savez(tmp_path / "x.npz", X=np.arange(140)[:, None], Y=labels)
    inspection_sheet(tmp_path / "x.png", inspect(DataConfig(path=str(tmp_path / "x.npz"))))
    image = pixels(tmp_path / "x.png")
    found = places(image, COLOURS[0])
    halves = [found[found[:, 1] < image.shape[1] / 2], found[found[:, 1] > image.shape[1] / 2]]
    long, short = (np.bincount(half[:, 0]).max() for half in halves)
    assert short / long == pytest.approx(0.5, abs=0.03), "2 positives in the first column, 1 in the second"


def test_many_classes_are_drawn_in_readable_columns(tmp_path):
    count = MOST_BARS + 20
    labels = np.eye(count, dtype=np.uint8)
    labels[: count // 2, 0] = 1
    np.savez(tmp_path / "x.npz", X=np.arange(count)[:, None], Y=labels)
    inspection_sheet(tmp_path / "x.png", inspect(DataConfig(path=str(tmp_path / "x.npz"))))
    image = pixels(tmp_path / "x.png")
    assert image.shape[0] < 2400
    assert image.shape[1] < 2400
    assert LAST_BARS < MOST_BARS
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
    found = inspect(DataConfig(path=str(photos), max_unreadable=0.5))
    inspection_sheet(tmp_path / "x.png", found)
    image = pixels(tmp_path / "x.png")
    left, top, side = int(0.14 * 150), int(0.42 * 150), int(1.5 * 150)
    cell = image[top + 2 : top + side - 2, left + 2 : left + side - 2]
    assert cell.std() > 30, "noise, not white"
    assert len(places(image, "#0067A3")) > 50
