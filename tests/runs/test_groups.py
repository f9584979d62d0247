"""Groups from end to end: training, audit, evaluation and comparison never separate a group."""

from __future__ import annotations

import json

import numpy as np
import pytest

import spml
from spml.common.errors import InputError
from spml.data import open_dataset
from spml.runs.audits import out_of_fold
from spml.runs.audits.answers import Audited, audited_groups
from spml.runs.folder.held_out import read_held_out
from spml.sklearn import SinglePositiveClassifier
from tests.helpers.commands import FAST, execute, fails
from tests.helpers.photos import make_photos

HIDE = ["--data.unlisted", "negative", "--data.observe", "single", "--threads", "1"]


def arrays(count=300, groups=40, seed=0):
    """Features that tell the labels and, more so, the group; full labels; and groups."""
    generator = np.random.default_rng(seed)
    truth = (generator.random((count, 4)) < 0.4).astype(np.uint8)
    truth[np.arange(count), generator.integers(0, 4, count)] = 1
    group = generator.integers(0, groups, count)
    noise = generator.normal(size=(groups, 10))[group] + 0.3 * generator.normal(size=(count, 10))
    return (truth @ generator.normal(size=(4, 10)) + noise).astype(np.float32), truth, group


def write_features(path, **settings):
    X, Y, group = arrays(**settings)
    np.savez(path, X=X, Y=Y, classes=np.array(list("abcd")), patient=group)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Feature file, and folder of a run on it with a ridge head."""
    folder = tmp_path_factory.mktemp("groups")
    path = write_features(folder / "features.npz")
    spml.train(
        path,
        head="ridge",
        data={"unlisted": "negative", "observe": "single", "group": "patient", "test_share": 0.2},
        threads=1,
        output=str(folder / "run"),
        quiet=True,
    )
    return path, folder / "run"


@pytest.mark.long
def test_train_audit_and_evaluate_a_table(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = make_photos(tmp_path, per_class=20)
    files = sorted(path.relative_to(tmp_path).as_posix() for path in folder.rglob("*.png"))
    rows = [f"{name},{'ab'[k % 2]},p{k // 5}" for k, name in enumerate(files)]
    (tmp_path / "table.csv").write_text("\n".join(["file,label,patient", *rows]))
    command = ["train", "table.csv", "--data.group", "patient", "--epochs", "1", "--output", "run"]
    execute(*command, *FAST, "--threads 1")
    assert "groups by 'patient', the largest of " in capsys.readouterr().err
    config = spml.load("run").config.data
    assert config.group == "patient"
    own = [{*samples.groups.tolist()} for samples in open_dataset(config, size=32).splits.values()]
    assert own[0].isdisjoint(own[1])
    execute("audit run --mean_labels 1.2 --folds 2 --output audit")
    patient = dict(row.split(",")[::2] for row in rows)
    held = [
        {patient[name] for name in read_held_out(tmp_path / "audit" / f"fold-{part}-of-2").ids}
        for part in (1, 2)
    ]
    assert held[0]
    assert held[0].isdisjoint(held[1])
    execute("evaluate run table.csv --data.group patient")
    number = len({row.rpartition(",")[2] for row in rows})
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["groups"] == number


def test_held_out_scores_keep_groups(trained):
    _, folder = trained
    held_out, (_, _, group) = read_held_out(folder), arrays()
    of_file = group[[int(name) for name in held_out.ids]]
    assert len({*zip(held_out.groups.tolist(), of_file.tolist(), strict=True)}) == len({*of_file.tolist()})
    assert len({*held_out.groups.tolist()}) == len({*of_file.tolist()})


@pytest.mark.parametrize("stated", [None, 3])
def test_an_audit_solves_the_head_without_whole_groups(trained, tmp_path, monkeypatch, stated):
    _, folder = trained
    parts = []
    draw = out_of_fold.draw_folds
    watched = lambda *given: parts.append((given, draw(*given))) or parts[-1][1]  # noqa: E731
    monkeypatch.setattr(out_of_fold, "draw_folds", watched)
    flags = ["--folds", stated] if stated else []
    execute("audit", folder, "--mean_labels 2 --output", tmp_path / "a", *flags)
    ((_, folds, _, groups), part) = parts[0]
    assert folds == (stated or 5)
    assert len({*zip(groups.tolist(), part.tolist(), strict=True)}) == len({*groups.tolist()}) > 5


def test_more_folds_than_groups(tmp_path, capsys):
    path = write_features(tmp_path / "f.npz", count=120, groups=4)
    flags = ["--data.group", "patient", "--head", "ridge", "--output", tmp_path / "run"]
    execute("train", path, *flags, *HIDE)
    audit = ["audit", tmp_path / "run", "--mean_labels", "2", "--output", tmp_path / "audit"]
    assert "folds=5 is too many for 3 groups of training samples" in fails(capsys, *audit, "--folds 5")
    execute(*audit)
    assert "3 solutions of ridge" in "".join(capsys.readouterr())


def test_one_group_is_refused(tmp_path, capsys):
    path = write_features(tmp_path / "f.npz", groups=1)
    said = fails(capsys, "train", path, "--data.group patient --output", tmp_path / "run", *HIDE)
    assert "all 300 training samples are in one group (data.group), so none can be held out" in said
    assert not (tmp_path / "run").exists()


def test_intervals_are_those_of_groups(trained, tmp_path):
    """Five copies of each sample, as a group, have the interval of the samples themselves."""
    _, folder = trained
    X, Y, _ = arrays(count=80, seed=1)
    model = spml.load(folder)
    common = {"classes": list("abcd"), "observed": False, "draws": 100, "unlisted": "negative"}
    common["batch_size"] = 80
    once = spml.compare([model], X, Y, **common)
    # A batch is computed as the samples alone are, so that copies have the same scores, to the bit.
    copies = [np.concatenate([values] * 5) for values in (X, Y, np.arange(80))]
    groups = spml.compare([model], *copies[:2], groups=copies[2], **common)
    single = spml.compare([model], *copies[:2], **common)
    assert (groups["groups"], "groups" in once, "groups" in single) == (80, False, False)
    one, whole, narrow = (
        next(iter(result["runs"].values()))["intervals"]["mAP"] for result in (once, groups, single)
    )
    assert whole["margin"] == pytest.approx(one["margin"], rel=1e-9)
    assert narrow["margin"] < 0.7 * whole["margin"]
    observed = {**common, "observed": True, "observe": "single"}
    assert spml.compare([model], *copies[:2], groups=copies[2], **observed)["groups"] == 80


def test_a_split_that_separates_groups_and_a_single_group_are_warned_of(trained, tmp_path):
    _, folder = trained
    X, Y, group = arrays(count=60, groups=6, seed=2)
    split = np.array(["train"] * 20 + ["val"] * 20 + ["test"] * 20)
    np.savez(tmp_path / "f.npz", X=X, Y=Y, classes=np.array(list("abcd")), patient=group, split=split)
    model = spml.load(folder)
    result = model.evaluate(tmp_path / "f.npz", group="patient", unlisted="negative")
    assert any(text.startswith("Groups in several splits of the data: 6 of 6") for text in result["warnings"])
    one = spml.compare(
        [model], X, Y, classes=list("abcd"), groups=["p"] * 60, observe="single", unlisted="negative"
    )
    assert any(
        "All 60 samples are in one group, so intervals are from draws of" in w for w in one["warnings"]
    )


def test_groups_of_arrays_and_of_the_estimator(tmp_path):
    X, Y, group = arrays()
    names = [f"p{k}" for k in group]
    settings = {"head": "ridge", "threads": 1, "quiet": True}
    spml.train(X, Y, groups=names, output=str(tmp_path / "run"), **settings)
    held = group[[int(name) for name in read_held_out(tmp_path / "run").ids]]
    assert 0.1 < len(held) / 300 < 0.3
    assert np.isin(group, held).sum() == len(held), "all samples of these groups"
    SinglePositiveClassifier(head="ridge", output=tmp_path / "fit").fit(X, Y, groups=group)
    held = group[[int(name) for name in read_held_out(tmp_path / "fit").ids]]
    assert np.isin(group, held).sum() == len(held)
    with pytest.raises(InputError, match="y, classes, split and groups belong to samples in memory"):
        spml.train("digits", groups=names, output=str(tmp_path / "other"), **settings)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SinglePositiveClassifier(head="ridge").fit(X, Y, groups=group[:9])


def test_samples_to_label_know_their_groups(trained, tmp_path, capsys):
    _, folder = trained
    sheet = tmp_path / "sample.csv"
    execute("audit sample", folder, "--rows 20 --output", sheet)
    assert "groups. Each was drawn by itself, not with its group" in capsys.readouterr().out
    held_out = read_held_out(folder)
    ids = (held_out.ids[3], "new", held_out.ids[0], "other")
    groups = audited_groups(Audited("", ids, np.zeros((4, 4), bool), ()), held_out)
    assert groups[[0, 2]].tolist() == held_out.groups[[3, 0]].tolist()
    assert groups[1] != groups[3]
    assert not np.isin(groups[[1, 3]], held_out.groups).any()
