"""Observed and hidden positives of each class, by hand."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from spml.analysis import counts
from spml.cli.main import main
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset

LABELS = np.array([
    [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 0, 1], [0, 1, 0, 0],  # training: 2, 4, 1, 1 of each class
    [1, 0, 0, 0], [0, 1, 1, 0],
    [1, 1, 1, 1],
])  # fmt: skip
SINGLE = {"unlisted": "negative", "observe": "single"}


def save(path, labels=LABELS, classes="wxyz"):
    split = np.array((["train"] * 4 + ["val"] * 2 + ["test"])[: len(labels)])
    np.savez(path, X=np.eye(len(labels)), Y=labels, split=split, classes=np.array(list(classes)))
    return str(path)


@pytest.fixture
def features(tmp_path):
    return save(tmp_path / "toy.npz")


def rows(result, **where):
    """Values of the rows of the table that have these cells."""
    table = result.table
    return [
        table["value"][row]
        for row in range(len(table["value"]))
        if all(table[name][row] == value for name, value in where.items())
    ]


def test_positives_of_each_class(features):
    result = counts([features], data=DataConfig(**SINGLE))
    data = open_dataset(DataConfig(path=features, **SINGLE))
    observed = data.splits["train"].observed.positives_per_class()
    order = [1, 0, 2, 3]  # 4, 2, 1, 1 positives
    assert result.table["class"][:4] == ["x", "w", "y", "z"]
    assert rows(result, quantity="observed positives") == observed[order].tolist()
    assert rows(result, quantity="hidden positives") == [4 - observed[1], 2 - observed[0], 1 - observed[2],
                                                         1 - observed[3]]  # fmt: skip
    assert rows(result, quantity="wrong positives") == [0, 0, 0, 0]
    assert sum(rows(result, quantity="observed positives")) == 4
    assert {*result.table["split"][:12]} == {"train"}


def test_the_statistics_of_every_split(features):
    result = counts([features], data=DataConfig(**SINGLE))
    means = {
        split: {
            name: rows(result, split=split, quantity=name, **{"class": ""})[0]
            for name in ("samples", "mean positives", "mean negatives", "mean observed positives",
                         "mean observed negatives", "mean hidden positives", "mean wrong positives")
        }
        for split in ("train", "val", "test")
    }  # fmt: skip
    assert list(means["train"].values()) == [4, 2.0, 2.0, 1.0, 0.0, 1.0, 0.0]
    assert list(means["val"].values()) == [2, 1.5, 2.5, 1.0, 0.0, 0.5, 0.0]
    assert list(means["test"].values()) == [1, 4.0, 0.0, 1.0, 0.0, 3.0, 0.0]
    assert statistics(result) == ["toy", "4", "4", "2", "1", "2.00", "2.00", "1.00", "1.00"]


def test_another_split(features):
    result = counts([features], split="test", data=DataConfig(**SINGLE))
    assert sum(rows(result, quantity="observed positives")) == 1
    assert sum(rows(result, quantity="hidden positives")) == 3


def statistics(result, row=1):
    """Texts of a row of the table under the panels."""
    cells = result.figure.axes[-1].tables[0].get_celld()
    return [cells[row, column].get_text().get_text() for column in range(9)]


def layers(result, panel=0):
    """Bottoms and tops of the bars of each layer, and the legend."""
    axes = result.figure.axes[panel]
    bars = [[(bar.get_y(), bar.get_y() + bar.get_height()) for bar in layer] for layer in axes.containers]
    return bars, [text.get_text() for text in axes.get_legend().get_texts()]


def test_bars_are_stacked_up_to_the_true_positives(features):
    result = counts([features], data=DataConfig(**SINGLE))
    (observed, hidden), legend = layers(result)
    assert legend == ["observed positives", "hidden positives", "all 4 samples"]
    assert [bottom for bottom, _ in observed] == [0, 0, 0, 0]
    assert [top for _, top in observed] == [bottom for bottom, _ in hidden]
    assert [top for _, top in observed] == rows(result, quantity="observed positives")
    assert [top for _, top in hidden] == [4, 2, 1, 1]
    axes = result.figure.axes[0]
    assert [line.get_ydata()[0] for line in axes.lines] == [4]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "w", "y", "z"]
    assert axes.get_ylabel() == "samples with the class"


def test_wrong_positives_come_on_top(features):
    """All but certainly every positive is wrong: all true positives are hidden."""
    result = counts([features], data=DataConfig(**SINGLE, observe_noise=0.999999))
    (observed, hidden, wrong), legend = layers(result)
    assert legend[2] == "wrong positives"
    assert [top for _, top in observed] == [0, 0, 0, 0]
    assert [top for _, top in hidden] == [4, 2, 1, 1]
    assert sum(top - bottom for bottom, top in wrong) == 4
    assert rows(result, quantity="mean hidden positives", split="train") == [2.0]
    assert "4 of the" not in result.notes[0]
    assert any("wrong on purpose" in note for note in result.notes)


def test_without_the_true_labels(tmp_path):
    """Labels that a file does not list are unknown: nothing is said about what may be hidden."""
    result = counts([save(tmp_path / "toy.npz", LABELS[:6])])
    assert rows(result, quantity="observed positives") == [4, 2, 1, 1]
    assert {*result.table["quantity"]} == {
        "observed positives", "samples", "mean observed positives", "mean observed negatives",
    }  # fmt: skip
    (observed,), legend = layers(result)
    assert legend == ["observed positives", "all 4 samples"]
    assert [top for _, top in observed] == [4, 2, 1, 1]
    assert (
        "toy: the true labels are not known, so only observed positives are drawn. If every "
        in result.notes[-1]
    )
    assert statistics(result)[-4:] == ["unknown", "unknown", "2.00", "unknown"]


def test_labels_that_are_not_hidden(features):
    result = counts([features], data=DataConfig(unlisted="negative"))
    assert rows(result, quantity="hidden positives") == [0, 0, 0, 0]
    assert "toy: no positive is hidden in train. Pass data.observe=single" in result.notes[-1]


def test_many_classes_are_areas(tmp_path):
    """312 classes as in CUB: areas whose upper edges are the sorted numbers."""
    labels = np.tile(np.arange(312) % 2, (6, 1))
    labels[1:4, ::2] = 1
    path = tmp_path / "many.npz"
    np.savez(path, X=np.eye(6), Y=labels, split=np.array(["train"] * 4 + ["val", "test"]))
    result = counts([str(path)], data=DataConfig(**SINGLE))
    axes = result.figure.axes[0]
    assert not axes.containers
    observed, hidden = axes.collections
    assert len(axes.get_xticklabels()) < 20
    assert axes.get_xlabel() == "312 classes, the most frequent first"
    tops = hidden.get_paths()[0].vertices[:, 1]
    assert tops.max() == 4
    assert sum(rows(result, quantity="hidden positives")) == 4 * 156 + 3 * 156 - 4
    assert observed.get_paths()[0].vertices[:, 1].max() == max(rows(result, quantity="observed positives"))


def test_several_data_sets_and_equal_names(tmp_path, features):
    (tmp_path / "b").mkdir()
    other = save(tmp_path / "b" / "toy.npz", LABELS[:, :3], "abc")
    result = counts([features, other, "digits"], data=DataConfig(**SINGLE))
    assert [axes.get_title(loc="left") for axes in result.figure.axes[:3]] == [
        f"{features}, train", f"{other}, train", "digits, train",
    ]  # fmt: skip
    assert len(rows(result, data=other, quantity="observed positives")) == 3
    assert rows(result, data="digits", split="train", quantity="samples") == [4000]


def test_images_are_not_read(tmp_path):
    for name in ("1", "2", "3", "4"):
        (tmp_path / f"{name}.jpg").write_bytes(b"not an image")
    (tmp_path / "t.csv").write_text(
        "file,labels,split\n1.jpg,a,train\n2.jpg,a;b,train\n3.jpg,b,val\n4.jpg,b,test\n"
    )
    result = counts([str(tmp_path / "t.csv")], data=DataConfig(unlisted="negative"))
    assert rows(result, quantity="observed positives") == [2, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "test"}, r"few\.npz: has no test split; there are train, val\."),
        ({"data": DataConfig(path="x.npz")}, r"data\.path=x\.npz: name the data itself instead"),
        ({"data": DataConfig(observe="single")}, r"observe=single hides labels of fully labelled data"),
        ({"data": DataConfig(observe="single", observe_share=0.5)}, "observe_share 0.5 has no effect"),
    ],
)
def test_what_does_not_suit(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        counts([save(tmp_path / "few.npz", LABELS[:6])], **options)


def test_the_command(features, tmp_path, capsys):
    main([
        "analyse", "counts", features, "--data.unlisted", "negative", "--data.observe", "single",
        "--data.observe_all_negatives", "true", "--output", str(tmp_path / "out"),
    ])  # fmt: skip
    printed = capsys.readouterr().out
    assert "Every true negative is observed, too." in printed
    with open(tmp_path / "out" / "counts.csv", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert table[0].keys() == {"data", "split", "class", "quantity", "value"}
    (negatives,) = [
        row for row in table if row["quantity"] == "mean observed negatives" and row["split"] == "train"
    ]
    assert float(negatives["value"]) == 2.0
    with pytest.raises(SystemExit) as stopped:
        main(["analyse", "counts", str(tmp_path / "absent.csv"), "--output", str(tmp_path / "out2")])
    assert stopped.value.code == 2
    assert "absent.csv: no such file" in capsys.readouterr().err
