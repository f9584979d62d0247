"""`spml evaluate` of one run and of several, with and without full labels."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

import spml
from spml.common.errors import InputError
from spml.metrics import bootstrap_map, compare_models, resamples, shown_score
from spml.runs.fit.solve import describe_scores
from tests.helpers.commands import execute, fails
from tests.helpers.features import HIDE, arrays_of, copy_features, train_hidden

CLASSES = list("abcdefghijkl")


def make_features(path, classes=CLASSES, rows=(200, 60, 160)):
    """Fully labelled features; the classes are columns of one truth, whatever their order."""
    generator = np.random.default_rng(0)
    names = sorted(CLASSES)
    truth = (generator.random((sum(rows), 12)) < 0.15).astype(np.uint8)
    truth[np.arange(sum(rows)), generator.integers(0, 12, sum(rows))] = 1
    matrix = truth @ generator.normal(size=(12, 10)) + generator.normal(size=(sum(rows), 10))
    columns = [names.index(name) for name in classes if name in names]
    split = np.repeat(["train", "val", "test"], rows)
    np.savez(path, X=matrix.astype(np.float32), Y=truth[:, columns], classes=np.array(classes), split=split)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three runs with the same classes, two of them in another order."""
    folder = tmp_path_factory.mktemp("compared")
    data = make_features(folder / "features.npz")
    turned = make_features(folder / "turned.npz", CLASSES[::-1])
    train_hidden(data, folder / "an", "--epochs 3 --method an")
    train_hidden(turned, folder / "gr", "--epochs 6 --method gr --optim.lr 0.01")
    train_hidden(turned, folder / "ridge", "--head ridge")
    # What nobody labelled in full: the same test samples with one known label.
    truth = arrays_of(data, "test")["Y"]
    known = np.argmax(truth * np.random.default_rng(1).random(truth.shape), axis=1)
    copy_features(data, folder / "known.npz", "test", Y=known)
    return folder


@pytest.fixture
def truth(folder):
    """All labels of the test samples."""
    return arrays_of(folder / "features.npz", "test")["Y"] == 1


def predicted(run, folder):
    """Logits and predicted labels of a run for the test samples, in the order of `CLASSES`."""
    found = spml.load(run).predict(arrays_of(folder / "features.npz", "test")["X"])
    p = found.scores[:, [found.classes.index(label) for label in CLASSES]].astype(np.float64)
    return np.log(p / (1 - p)), np.array([[name in labels for name in CLASSES] for labels in found.labels])


@pytest.fixture
def names(folder):
    return [str(folder / name) for name in ("an", "gr", "ridge")]


@pytest.mark.long
def test_runs_are_compared_by_observed_labels_by_default(folder, names, tmp_path, capsys):
    output = tmp_path / "new" / "compared"
    execute("evaluate", *names, folder / "known.npz", "--mean_labels 2.6 --output", output)
    said = capsys.readouterr().out
    found = json.loads((output / "comparison.json").read_text())
    scores = {name: predicted(name, folder)[0] for name in names}
    expected = compare_models(scores, arrays_of(folder / "known.npz")["Y"], 2.6)
    assert found["labels"] == "observed only"
    assert found["samples"] == found["samples_with_a_positive"] == 160
    assert (found["mean_labels"], found["mean_labels_source"]) == (2.6, "stated")
    assert found["tie_set"] == list(expected.tie_set)
    for mine, theirs in zip(found["candidates"], expected.candidates, strict=True):
        assert (mine["run"], mine["in_tie_set"]) == (theirs.name, theirs.tied)
        values = [mine["SP"], mine["P"], mine["A"], mine["naive_mAP"], *mine["SP_interval"]]
        assert values == pytest.approx(theirs[1:7], abs=1e-3)
        assert list(mine["ranks"].values()) == list(theirs[7:11])
        assert mine["z"] == pytest.approx(theirs.z, abs=0.05)
    assert found["cross_checks"]["spearman_SP_naive_mAP"] == pytest.approx(expected.spearman_naive)
    assert found["warnings"] == list(expected.warnings)
    assert any("K = 2.6 labels per sample are 22%" in warning for warning in found["warnings"])
    assert "mAP" not in found["candidates"][0]

    assert (output / "comparison.png").read_bytes()[:4] == b"\x89PNG"

    lines = said.splitlines()
    best = max(found["candidates"], key=lambda candidate: candidate["SP"])
    first = lines[next(n for n, line in enumerate(lines) if line.startswith("run ")) + 1]
    assert first.startswith(best["run"])
    assert f"{100 * best['SP']:.2f} (1)" in first
    assert first.rstrip().endswith("yes")
    assert f"tie set, {len(found['tie_set'])} of 3: {', '.join(found['tie_set'])}" in lines
    assert [line for line in lines if line.startswith("warning: ")] == [
        f"warning: {warning}" for warning in found["warnings"]
    ]
    assert "tie set: at most 2.5 standard deviations of the difference (z) behind the best; no" in said
    assert "it is not mAP" in said
    assert "\x1b" not in said
    assert sorted(path.name for path in output.parent.iterdir()) == ["compared"]


@pytest.mark.long
def test_k_is_that_of_the_runs_unless_it_is_stated(folder, names, tmp_path, capsys):
    data, copies = str(folder / "known.npz"), {}
    for name, k in (("ridge", 2.6), ("an", 3.1)):
        copies[k] = str(shutil.copytree(folder / name, tmp_path / name))
        spml.load(copies[k]).set_thresholds(mean_labels=k)
    one = spml.compare([names[1], copies[2.6]], data)
    assert (one["mean_labels"], one["mean_labels_source"]) == (2.6, "runs")
    assert one["candidates"] == spml.compare([names[1], copies[2.6]], data, mean_labels=2.6)["candidates"]
    assert not any("K is that of" in note for note in one["notes"])
    execute("evaluate", copies[2.6], data)
    assert "K = 2.6 labels per sample (as the runs know it)." in capsys.readouterr().out
    both = spml.compare([copies[3.1], copies[2.6]], data)
    assert both["mean_labels"] == 3.1
    note = f"K is that of {copies[3.1]}; other runs have 2.6 (`mean_labels` states one)."
    assert note in both["notes"]
    with pytest.raises(InputError, match=r"mean_labels=0\.9 is below 1, the mean number of"):
        spml.compare(names, data, mean_labels=0.9)


def test_python_finds_the_same_and_the_place_of_the_best_does_not_matter(folder, names):
    data = str(folder / "known.npz")
    found = spml.compare(names, data)
    again = spml.compare([spml.load(name) for name in reversed(names)], data)
    assert again["tie_set"] == found["tie_set"]
    for mine, theirs in zip(again["candidates"], reversed(found["candidates"]), strict=True):
        assert mine["SP"] == pytest.approx(theirs["SP"], abs=1e-12)
        assert mine["z"] == pytest.approx(theirs["z"], abs=1e-6)
    assert found["mean_labels_source"] == "default"
    other = spml.compare(names, data, draws=50, seed=1)
    assert (other["draws"], other["seed"]) == (50, 1)
    assert other["candidates"][0]["SP_interval"] != found["candidates"][0]["SP_interval"]


def test_observed_does_not_use_the_true_labels(folder, names, tmp_path, capsys):
    data = folder / "features.npz"
    execute("evaluate", *names, data, *HIDE, "--observed --output", tmp_path / "a.json")
    assert "The data is fully labelled; its true labels were not used." in capsys.readouterr().out
    found = json.loads((tmp_path / "a.json").read_text())
    assert sorted(tmp_path.iterdir()) == [tmp_path / "a.json"]
    # Other true labels with the same observed ones give the same.
    from spml.config import DataConfig
    from spml.data import open_dataset

    opened = open_dataset(DataConfig(path=str(data), unlisted="negative", observe="single"))
    known = opened.splits["test"].observed.index
    again = copy_features(data, tmp_path / "b.npz", "test", Y=known)
    execute("evaluate", *names, again, "--output", tmp_path / "b.json")
    again = json.loads((tmp_path / "b.json").read_text())
    for key in ("candidates", "tie_set", "cross_checks", "warnings"):
        assert again[key] == found[key]
    assert again["notes"] == []


def test_one_run_alone(folder, names, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(names[2], run)
    execute("evaluate", run, folder / "known.npz")
    said = capsys.readouterr().out
    found = json.loads((run / "evaluation.json").read_text())
    low, high = found["SP_interval"]
    assert f"SP-score {100 * found['SP']:.2f} (95 % interval {100 * low:.2f} to {100 * high:.2f})" in said
    assert "K = 2 labels per sample (assumed" in said
    assert "tie set" not in said
    assert found["warnings"] == []
    assert not {"tie_set", "candidates", "cross_checks", "mAP"} & set(found)
    assert found.pop("run") == spml.load(run).identity
    del found["sha256"]
    assert spml.load(run).evaluate(str(folder / "known.npz")) == found
    execute("evaluate", run, folder / "known.npz", "--output", tmp_path / "out")
    assert len(json.loads((tmp_path / "out" / "comparison.json").read_text())["candidates"]) == 1


def test_one_run_on_few_samples_warns(folder, names):
    known = arrays_of(folder / "known.npz")
    found = spml.load(names[0]).evaluate(known["X"][:50], known["Y"][:50])
    assert [warning[:15] for warning in found["warnings"]] == ["Only 50 samples"]


def test_several_runs_on_full_labels_are_each_measured(folder, names, tmp_path, capsys):
    data = str(folder / "features.npz")
    execute("evaluate", *names, data, "--data.unlisted negative --output", tmp_path / "all.json")
    assert "tie set, 1 of 3 by mAP: " in capsys.readouterr().out
    found = json.loads((tmp_path / "all.json").read_text())
    assert list(found["runs"]) == names
    for name in names:
        summary = json.loads((folder / name / "summary.json").read_text())
        assert found["runs"][name]["mAP"] == pytest.approx(summary["test"]["mAP"], abs=1e-9)
        alone = spml.load(name).evaluate(data, unlisted="negative")
        assert alone["mAP"] == pytest.approx(found["runs"][name]["mAP"], abs=1e-12)
    copies = [tmp_path / "one", tmp_path / "two"]
    for name, copy in zip(names, copies, strict=False):
        shutil.copytree(name, copy)
    execute("evaluate", *copies, "--data.path", data, "--data.unlisted negative")
    assert not list(tmp_path.glob("*/evaluation.json"))  # several runs are written where --output says
    execute("evaluate", copies[0], "--data.path", data, "--data.unlisted negative")
    alone = json.loads((copies[0] / "evaluation.json").read_text())
    assert (alone["mAP"], alone["samples"]) == (found["runs"][names[0]]["mAP"], 160)


def test_several_runs_on_full_labels_give_one_table_with_paired_intervals(
    folder, names, truth, tmp_path, capsys
):
    data, output = str(folder / "features.npz"), tmp_path / "new" / "compared"
    execute("evaluate", *names, data, "--data.unlisted negative --draws 50 --output", output)
    said = capsys.readouterr().out.splitlines()
    found = json.loads((output / "comparison.json").read_text())
    assert (found["draws"], found["seed"]) == (50, 0)
    multiplicity = np.concatenate(list(resamples(160, 50, 0)))
    drawn, values, f1 = {}, {}, {}
    for name in names[1:]:
        scores, tags = predicted(name, folder)
        values[name] = average_precision_score(truth, scores, average="macro")
        drawn[name] = bootstrap_map(scores, truth, multiplicity)  # itself compared with scikit-learn
        f1[name] = [
            precision_recall_fscore_support(truth, tags, average="micro", sample_weight=row)[2]
            for row in [np.ones(160), *multiplicity]
        ]
    best = max(values, key=values.__getitem__)
    for name in names[1:]:
        score = found["runs"][name]["intervals"]["mAP"]
        spread = 1.96 * np.std(drawn[name], ddof=1)
        assert score["value"] == pytest.approx(found["runs"][name]["mAP"], abs=1e-12)
        assert score["value"] == pytest.approx(values[name], abs=1e-6)
        assert score["interval"] == pytest.approx([values[name] - spread, values[name] + spread], abs=1e-5)
        behind = values[best] - values[name]
        spread = 1.96 * np.std(np.subtract(drawn[best], drawn[name]), ddof=1)
        assert score["behind_interval"] == pytest.approx([behind - spread, behind + spread], abs=1e-5)
        score = found["runs"][name]["intervals"]["micro_F1"]
        spread = 1.96 * np.std(f1[name][1:], ddof=1)
        assert (score["value"], score["margin"]) == pytest.approx((f1[name][0], spread), abs=1e-5)
    assert found["tie_set"] == [best]
    (line,) = [line for line in said if line.startswith(best + " ")]
    score = found["runs"][best]["intervals"]
    assert f" {100 * score['mAP']['value']:.2f} ±{100 * score['mAP']['margin']:.2f} " in line
    assert f" {100 * score['R@3']['value']:.2f} ±{100 * score['R@3']['margin']:.2f} " in line
    assert (output / "comparison.png").read_bytes()[:4] == b"\x89PNG"
    again = spml.compare(names, data, observed=False, unlisted="negative", draws=50)
    assert again["runs"] == found["runs"]


def test_each_run_has_its_own_decision_unless_one_is_stated(folder, names, truth, tmp_path, capsys):
    data = folder / "features.npz"

    def micro(*options):
        path = tmp_path / "e.json"
        execute("evaluate", *names, data, "--data.unlisted negative --output", path, *options)
        found = json.loads(path.read_text())
        return [found["runs"][name]["thresholded"]["micro"] for name in names]

    scores = {name: predicted(name, folder) for name in names}
    for measured, (_, tags) in zip(micro(), scores.values(), strict=True):
        expected = precision_recall_fscore_support(truth, tags, average="micro")[:3]
        assert list(measured.values()) == pytest.approx(expected)
    assert "K is not known, so thresholds are placed as for 1.5 labels per sample" in capsys.readouterr().out
    for measured, (logits, _) in zip(micro("--threshold", "0.3"), scores.values(), strict=True):
        tags = logits >= np.log(0.3 / 0.7)
        expected = precision_recall_fscore_support(truth, tags, average="micro", zero_division=0)[:3]
        assert list(measured.values()) == pytest.approx(expected)
    assert "K is not known" not in capsys.readouterr().out
    for measured, (logits, _) in zip(micro("--top_k", "2"), scores.values(), strict=True):
        tags = (-logits).argsort(axis=1).argsort(axis=1) < 2
        expected = precision_recall_fscore_support(truth, tags, average="micro")[:3]
        assert list(measured.values()) == pytest.approx(expected)
    more, few = micro("--mean_labels", "4"), micro("--mean_labels", "1")
    for many, less in zip(more, few, strict=True):
        assert many["recall"] > less["recall"] + 0.1
    with_one = micro("--mean_labels", "1", "--top1_fallback")
    assert all(one["recall"] > less["recall"] for one, less in zip(with_one, few, strict=True))


def test_a_class_without_training_positives_is_never_predicted_and_named(folder, truth, tmp_path, capsys):
    data = str(folder / "features.npz")
    run = tmp_path / "run"
    shutil.copytree(folder / "ridge", run)
    card = json.loads((run / "model.json").read_text())
    del card["sha256"]
    (run / "model.json").write_text(json.dumps({**card, "without_positives": ["c"]}))
    execute("evaluate", run, data, "--data.unlisted negative --top_k 5")
    said = capsys.readouterr().out
    assert [line.split("  ")[-2:] for line in said.splitlines() if "never" in line] == [
        ["c", "(never predicted: had no training positive)"]
    ]
    found = json.loads((run / "evaluation.json").read_text())
    assert found["never_predicted"] == ["c"]
    assert found["threshold"] is None
    logits, _ = predicted(run, folder)
    logits[:, 2] = -99
    for k in (3, 5):
        tags = (-logits).argsort(axis=1).argsort(axis=1) < k
        precision = (truth & tags).sum() / tags.sum()
        assert found["top_k"][str(k)]["precision"] == pytest.approx(precision)
    recall = precision_recall_fscore_support(truth, tags, average="macro", zero_division=0)[1]
    assert found["thresholded"]["macro"]["recall"] == pytest.approx(recall)
    assert found["AP"]["c"] > 0  # its scores still rank
    execute("evaluate", run, folder / "gr", data, "--data.unlisted negative")
    assert f"{run}: never predicted (no training positive): c" in capsys.readouterr().out


def other_classes(folder, path, *, full):
    """Test samples in which `a` and `b` are called `new` and `other`, with full labels or the known one."""
    source, split = ("features.npz", "test") if full else ("known.npz", "")
    copy_features(folder / source, path, split, classes=["new", "other", *CLASSES[2:]])
    return arrays_of(path)["Y"]


def test_classes_that_the_run_lacks_are_refused_unless_left_out_by_name(folder, tmp_path, capsys):
    run, path = str(folder / "gr"), tmp_path / "other.npz"
    truth = other_classes(folder, path, full=True)
    said = fails(capsys, "evaluate", run, path, "--data.unlisted negative")
    assert f"{path}: has the class 'new' (and 1 more), which the model in {run} does not know" in said
    assert "give them an empty name in data.rename: data.rename={'new': ''}" in said
    (tmp_path / "names.csv").write_text("new,\nother,\n")
    options = ["--data.unlisted negative --data.rename", tmp_path / "names.csv"]
    execute("evaluate", run, path, *options, "--output", tmp_path / "e.json")
    said = capsys.readouterr().out
    found = json.loads((tmp_path / "e.json").read_text())
    assert f"2 classes left out with {truth[:, :2].sum()} labels: 'new', 'other'." in said
    assert found["classes_not_in_data"] == ["b", "a"]  # the order of the run
    assert found["samples"] == 160
    logits, _ = predicted(run, folder)
    expected = average_precision_score(truth[:, 2:], logits[:, 2:], average="macro")
    assert found["mAP"] == pytest.approx(expected, abs=1e-6)


def test_by_observed_labels_classes_may_be_left_out_by_name(folder, names, tmp_path, capsys):
    path = tmp_path / "other.npz"
    known = other_classes(folder, path, full=False)
    assert "does not know" in fails(capsys, "evaluate", *names, path)
    (tmp_path / "names.csv").write_text("new,\nother,\n")
    options = ["--data.rename", tmp_path / "names.csv", "--output", tmp_path / "e.json"]
    execute("evaluate", *names, path, *options)
    found = json.loads((tmp_path / "e.json").read_text())
    assert found["samples_with_a_positive"] == int((known > 1).sum())


def test_a_score_on_few_samples_is_not_shown_and_one_above_100_is_capped(folder, names, tmp_path, capsys):
    known = arrays_of(folder / "known.npz")
    for count in (49, 50):
        rows = {"X": known["X"][:count], "Y": known["Y"][:count]}
        np.savez(tmp_path / f"{count}.npz", **rows, classes=CLASSES)
    output = tmp_path / "out"
    output.mkdir()
    (output / "comparison.png").write_text("of an earlier comparison")
    execute("evaluate", *names, tmp_path / "49.npz", "--output", output)
    said = capsys.readouterr().out
    assert "SP-score not shown: it says too little about 49 samples" in said
    assert "at least 50 are needed." in said
    assert "tie set" not in said.split("warning:")[0]
    found = json.loads((output / "comparison.json").read_text())
    assert found["candidates"][0]["SP"] > 0
    assert sorted(path.name for path in output.iterdir()) == ["comparison.json"]
    execute("evaluate", names[0], tmp_path / "50.npz", "--output", tmp_path / "one.json")
    assert "SP-score not shown" not in capsys.readouterr().out
    assert shown_score(1.2345) == "100.00"
    assert shown_score(0.98765) == "98.77"


def test_options_of_a_decision_are_checked_and_have_no_effect_without_full_labels(
    folder, names, tmp_path, capsys
):
    known, full = folder / "known.npz", [folder / "features.npz", "--data.unlisted", "negative"]
    execute("evaluate", names[0], known, "--threshold 0.4 --output", tmp_path / "e.json")
    assert "The SP-score needs no predicted labels: threshold changed nothing." in capsys.readouterr().out
    said = fails(capsys, "evaluate", names[0], *full, "--threshold 0.4 --mean_labels 2")
    assert "pass mean_labels or threshold, not both" in said
    assert "between 0 and 1" in fails(capsys, "evaluate", names[0], *full, "--threshold 3")
    assert "top_k must be at least 0" in fails(capsys, "evaluate", names[0], *full, "--top_k -1")
    for data in ([known], full):
        assert "`draws` must be at least 50, got 7" in fails(capsys, "evaluate", *names, *data, "--draws 7")
    assert spml.load(names[0]).evaluate(full[0], unlisted="negative", top_k=1)["top_k_limit"] == 1


def test_a_fully_labelled_split_is_measured_by_map_where_training_is_not(tmp_path):
    full = make_features(tmp_path / "full.npz")
    arrays = arrays_of(full)
    labels = arrays["Y"].astype(float)
    training = arrays["split"] == "train"
    labels[training[:, None] & (labels == 0)] = np.nan
    mixed = copy_features(full, tmp_path / "mixed.npz", Y=labels)
    run = spml.train(mixed, method="an", epochs=1, threads=1, quiet=True, output=tmp_path / "run")
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["selected"]["metric"] == "val/mAP"
    assert "warnings" not in summary["selected"]
    found = run.evaluate(mixed)
    assert found["labels"] == "full"
    assert found["mAP"] == pytest.approx(summary["test"]["mAP"], abs=1e-9)
    assert run.evaluate(mixed, split="train")["labels"] == "observed only"


# -- the summary of a run --------------------------------------------------------------------------------


def test_the_summary_says_what_to_distrust(folder, tmp_path, capsys):
    summary = json.loads((folder / "an" / "summary.json").read_text())
    (warning,) = summary["selected"]["warnings"]
    assert warning.startswith("Only 60 samples have a known positive label")
    assert "tie_set" not in summary["selected"]
    data = make_features(tmp_path / "more.npz", rows=(200, 160, 20))
    options = "--method an --epochs 1"
    capsys.readouterr()
    train_hidden(data, tmp_path / "run", options)
    assert "note: 2 labels per sample assumed" in (printed := capsys.readouterr().err)
    assert printed.count("note: ") == 1
    selected = json.loads((tmp_path / "run" / "summary.json").read_text())["selected"]
    assert selected["warnings"] == []
    train_hidden(data, tmp_path / "run", options, "--overwrite --mean_labels 3")
    (warning,) = json.loads((tmp_path / "run" / "summary.json").read_text())["selected"]["warnings"]
    assert warning.startswith("K = 3 labels per sample are 25% of the 12 classes")
    assert f"warning: {warning}" in capsys.readouterr().err


def test_training_does_not_show_a_score_on_few_samples(tmp_path, capsys):
    for samples, shown in ((49, False), (50, True)):
        data = make_features(tmp_path / "features.npz", rows=(100, samples, 20))
        output = train_hidden(data, tmp_path / str(samples), "--method an --epochs 2")
        said = capsys.readouterr().err
        summary = json.loads((output / "summary.json").read_text())
        naive, sp = (f"{100 * summary['validation'][f'val/{name}']:.2f}" for name in ("naive_mAP", "SP"))
        best = f"of 2 by the SP-score: held-out score {naive} (naive mAP of 50 validation samples"
        assert (best in said) == shown
        assert (f"held-out score {naive}, SP-score {sp}" in said) == shown
        assert said.count("held-out score not shown (< 50 samples)") == (0 if shown else 2)
        assert ("held-out score not shown (49 validation samples are fewer than 50: hold" in said) != shown
        assert ("warning: Only 50 samples" in said) == shown  # of 49, the line about the score says it
        assert "Only 49" not in said


def test_the_score_of_training_is_capped_where_it_is_shown(capsys):
    judge = SimpleNamespace(metric="val/SP")
    record = {"val/SP": 1.3, "val/naive_mAP": 0.4, "val/mAP": 0.5}
    said = "held-out score 40.00, SP-score 100.00  (true mAP 50.00, not used)"
    assert describe_scores(record, judge) == said
    assert describe_scores(record, SimpleNamespace(metric="val/mAP")) == "mAP 50.00"


def test_the_summary_counts_the_penalties_in_the_tie_set(folder, tmp_path, capsys):
    from spml import models
    from spml.config import DataConfig
    from spml.data import open_dataset

    path = make_features(tmp_path / "features.npz", rows=(200, 900, 20))
    output = train_hidden(path, tmp_path / "ridge", "--head ridge")
    selected = json.loads((output / "summary.json").read_text())["selected"]
    assert f"({selected['tie_set']} in the tie set)" in capsys.readouterr().err
    data = open_dataset(DataConfig(path=str(path), unlisted="negative", observe="single"))
    classifier, _ = models.load_classifier(output)
    found = models.moments(data.splits["train"], classifier.top.scaling)
    val, scores = data.splits["val"], []
    solver = models.ClosedForm("ridge", found, 2.0)
    for penalty in solver.penalties:
        solver.fill(classifier.top.head, penalty)
        scores.append(classifier.top(val.inputs.fetch(range(len(val)), None)).logits.detach())
    expected = compare_models(scores, val.observed.index)
    assert selected["tie_set"] == len(expected.tie_set)
    assert 1 < selected["tie_set"] < 13
    run = spml.train(
        folder / "features.npz", model={"head": "ridge"}, data={"unlisted": "negative"},
        threads=1, output=str(tmp_path / "full"), quiet=True,
    )  # fmt: skip
    assert "tie_set" not in json.loads((run.folder / "summary.json").read_text())["selected"]


# -- mistakes --------------------------------------------------------------------------------------------


def test_runs_with_other_classes(folder, names, tmp_path, capsys):
    data = folder / "features.npz"
    for name, classes in (("others", [*CLASSES[:11], "z"]), ("fewer", CLASSES[:11])):
        labels = arrays_of(data)["Y"][:, : len(classes)]
        other = copy_features(data, tmp_path / f"{name}.npz", Y=labels, classes=classes)
        spml.train(other, method="an", epochs=1, threads=1, output=tmp_path / name, quiet=True)
        said = fails(capsys, "evaluate", names[0], tmp_path / name, folder / "known.npz")
        assert f"{names[0]} knows the class 'l' and" in said
        assert "only runs with the same classes can be compared" in said
    said = fails(capsys, "evaluate", tmp_path / "fewer", names[0], folder / "known.npz")
    assert f"{names[0]} knows the class 'l' and {tmp_path / 'fewer'} does not" in said


def test_mistakes_are_named(folder, names, tmp_path, capsys):
    known, full = folder / "known.npz", folder / "features.npz"
    file, nothing, labels = tmp_path / "file", tmp_path / "nothing.npz", np.full((20, 12), np.nan)
    file.write_text("kept")
    labels[:, 0] = 0
    np.savez(nothing, X=np.zeros((20, 10)), Y=labels, classes=np.array(CLASSES))
    for words, message in (
        (names, "name the labelled data"),
        (names[:1], "name the labelled data"),
        ([*names, names[0], known], f"{names[0]}: is named twice"),
        (
            [*names, full, "--data.unlisted negative --observed"],
            "every label of the 'test' split is known",
        ),
        ([*names, known, "--split val"], "has no 'val' split, but test"),
        ([*names, known, "--mean_labels 12"], "`mean_labels`"),
        ([*names, known, "--output", file], "is a file; --output must name a .json file or a folder"),
        ([*names, known, "--output", file / "below"], "is a file"),
        ([names[0], tmp_path / "nowhere", known], "no such folder"),
        ([*names, nothing], "no sample of the 'test' split has a known positive label"),
    ):
        assert message in fails(capsys, "evaluate", *words)
    assert file.read_text() == "kept"
    with pytest.raises(spml.InputError, match="no run to evaluate"):
        spml.compare([], str(known))


def test_the_table_on_a_terminal(folder, names, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    execute("evaluate", *names, folder / "known.npz")
    said = capsys.readouterr().out
    assert "┃" in said or "│" in said


def test_classes_that_the_data_does_not_have_are_left_out(folder, tmp_path, capsys):
    run, few = str(folder / "gr"), CLASSES[::2]
    data = make_features(tmp_path / "few.npz", few)
    execute("evaluate", run, data, "--data.unlisted negative --output", tmp_path / "e.json")
    assert f"Not in the data, and left out: {', '.join(CLASSES[:0:-2])}." in capsys.readouterr().out
    found = json.loads((tmp_path / "e.json").read_text())
    assert sorted(found["classes_not_in_data"]) == CLASSES[1::2]
    assert list(found["AP"]) == few[::-1]
    assert found["classes_without_positives"] == []
    test = arrays_of(data, "test")
    labels = spml.load(run).predict(test["X"]).labels
    tags = np.array([[name in each for name in few] for each in labels])
    for average in ("micro", "macro", "samples"):
        expected = precision_recall_fscore_support(test["Y"], tags, average=average, zero_division=0)[:3]
        assert list(found["thresholded"][average].values())[:3] == pytest.approx(expected)


def test_data_that_a_run_was_trained_on(folder, tmp_path, capsys):
    run = str(folder / "an")
    execute("evaluate", run, folder / "features.npz", *HIDE[:2], "--split train")
    assert "was trained on samples of" in capsys.readouterr().out
    execute("evaluate", run, folder / "features.npz", *HIDE[:2])
    assert "was trained on" not in capsys.readouterr().out  # it has a test split of its own
    whole = copy_features(folder / "features.npz", tmp_path / "all.npz", split=None)
    trained = spml.train(whole, method="an", epochs=1, output=tmp_path / "run", quiet=True)
    found = trained.evaluate(whole)
    assert "so these results say little about new samples" in found["warnings"][0]
    shutil.copy(whole, tmp_path / "copy.npz")
    assert not any("trained on" in text for text in trained.evaluate(tmp_path / "copy.npz")["warnings"])


def test_two_classes_and_no_k(tmp_path):
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, 120)
    np.savez(
        tmp_path / "two.npz", X=np.eye(2, dtype=np.float32)[truth], Y=truth, classes=np.array(["a", "b"])
    )
    np.savez(tmp_path / "x.npz", X=np.eye(2, dtype=np.float32)[truth])
    settings = {"method": "an", "epochs": 10, "optim": {"lr": 0.1}, "quiet": True}
    run = spml.train(tmp_path / "two.npz", output=tmp_path / "run", **settings)
    assert run.predict(tmp_path / "x.npz").labels == [["ab"[one]] for one in truth]
