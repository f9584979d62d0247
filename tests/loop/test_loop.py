"""The whole loop on small data, with a sheet that is filled in and answers that are given by the truth."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import spml
from spml import loop as steps
from spml.audit.folder import read_audit
from spml.audit.sheets import read_answers
from spml.cli.main import main
from spml.config import differences, read_yaml
from spml.data.readers import read
from spml.loop import Change, compare_rounds, describe_change
from spml.metrics import average_precision
from spml.review.labelling import Labelling
from spml.runs.folder.held_out import read_held_out, write_held_out
from spml.runs.predict.batches import Engine
from tests.helpers.audits import HIDDEN, answer, fill_in, truth_of
from tests.helpers.commands import fails
from tests.helpers.features import make_features, make_weights
from tests.helpers.members import few_members
from tests.helpers.photo_runs import write_photos


def go_on(work, capsys, *words):
    """Call the loop; what it printed."""
    capsys.readouterr()
    main(["loop", *map(str, words), "--output", str(work)])
    return capsys.readouterr().out


@pytest.fixture
def small_heads():
    with few_members():
        yield


@pytest.fixture
def features(tmp_path):
    return make_features(tmp_path / "x.npz")


@pytest.mark.long
def test_features_from_the_first_training_to_the_third(features, tmp_path, capsys):
    work, truth = tmp_path / "work", truth_of(features)
    said = go_on(work, capsys, features, *HIDDEN, "--head", "ridge", "--rows", "40", "--top", "60")
    assert "sample.csv: 0 of 40 samples are complete" in said
    assert said.endswith(f"next: spml loop --output {work}\n")
    assert not (work / "round-1" / "audit").exists()
    fill_in(work / "sample.csv", truth, rows=15)
    assert "sample.csv: 15 of 40 samples are complete" in go_on(work, capsys)
    fill_in(work / "sample.csv", truth)
    said = go_on(work, capsys)
    assert f"next: spml review {work}/round-1/audit\nnext: spml loop --output {work}\n" in said
    first = spml.load(work / "round-1" / "run")
    sheet = read_answers(work / "sample.csv", first.classes)
    k = sheet.truth.sum(1).mean()
    assert first.thresholds.mean_labels.value == pytest.approx(k)
    assert first.thresholds.mean_labels.source == "audit"
    assert len(read_audit(work / "round-1" / "audit").missing) == 60
    for name in (".lock", ".audit.json.123456-1.abcdef.tmp"):  # of a process that was killed in the end
        (work / "round-1" / "audit" / name).touch()
    assert go_on(work, capsys) == said  # nothing has been answered, so nothing changes
    assert not [*(work / "round-1" / "audit").glob(".*")]

    given = answer(work / "round-1" / "audit", truth, 50)
    said = go_on(work, capsys)
    assert "round 1 -> round 2, on 40 samples labelled in full" in said
    assert f"next: spml review {work}/round-2/audit" in said
    second = read_yaml(work / "round-2" / "run" / "config.yaml")
    changed = differences(read_yaml(work / "round-1" / "run" / "config.yaml"), second)
    assert changed == ["data.observe", "data.path", "data.unlisted", "mean_labels", "output"]
    assert second.mean_labels == pytest.approx(k)  # from the sample

    # The labels are those that were known, and the answers, except about the sample that measures.
    labels = read(spml.config.DataConfig(path=str(work / "round-2" / "labels.npz")))
    values = dict(zip(labels.ids, labels.labels.to_ternary(), strict=True))
    audited = set(sheet.ids)
    about_sample = {name for name, _ in given} & audited
    assert about_sample  # otherwise the test says nothing
    position = {name: column for column, name in enumerate(labels.classes)}
    for (name, label), said_so in given.items():
        expected = 0 if name in audited else 1 if said_so == "yes" else -1
        assert values[name][position[label]] == expected
    known = sum(int((row != 0).sum()) for row in values.values())
    assert known == 300 + sum(name not in audited for name, _ in given)
    assert labels.split == tuple(np.load(features)["split"])

    answer(work / "round-2" / "audit", truth, 20)
    said = go_on(work, capsys)
    assert "round 1 -> round 3" in said
    assert (work / "round-3" / "compared.json").is_file()
    assert spml.load(work / "round-3" / "run").thresholds.mean_labels.source == "audit"


@pytest.mark.long
def test_groups_go_on_to_the_next_round(features, tmp_path, capsys):
    work, truth = tmp_path / "work", truth_of(features)
    with np.load(features) as file:
        arrays = {name: file[name] for name in file if name != "split"}
    arrays["X"] += 3 * np.random.default_rng(0).normal(size=arrays["X"].shape)  # so that mAP is not 1
    np.savez(features, **arrays, patient=np.arange(300) // 7)
    settings = ["--data.group", "patient", "--head", "ridge", "--rows", "30", "--top", "60"]
    go_on(work, capsys, features, *HIDDEN, *settings)
    fill_in(work / "sample.csv", truth)
    go_on(work, capsys)
    answer(work / "round-1" / "audit", truth, 30)
    assert "round 1 -> round 2, on 30 samples labelled in full" in go_on(work, capsys)
    runs = [spml.load(work / f"round-{number}" / "run") for number in (1, 2)]
    assert [run.config.data.group for run in runs] == ["patient", "group"]
    held_out = [read_held_out(run.folder) for run in runs]
    assert held_out[0].ids == held_out[1].ids
    for each in held_out:
        patients = np.asarray(each.ids, int) // 7
        assert len({*zip(patients.tolist(), each.groups.tolist(), strict=True)}) == len({*patients.tolist()})
    # The intervals are those of draws of groups, with which single draws don't agree.
    changes = compare_rounds(work / "sample.csv", *runs, Engine())
    for name in ("round-1", "round-2"):
        write_without_groups(work / name / "run")
    single = compare_rounds(work / "sample.csv", *runs, Engine())
    assert changes["mAP"].before == single["mAP"].before
    assert changes["mAP"].before_margin != single["mAP"].before_margin


def write_without_groups(folder):
    held_out, classes = read_held_out(folder), spml.load(folder).classes
    write_held_out(folder, held_out._replace(groups=None), classes)


@pytest.mark.long
def test_the_comparison_is_that_of_the_metrics(features, tmp_path, capsys):
    work, truth = tmp_path / "work", truth_of(features)
    go_on(work, capsys, features, *HIDDEN, "--head", "ridge", "--rows", "60")
    fill_in(work / "sample.csv", truth)
    go_on(work, capsys)
    answer(work / "round-1" / "audit", truth, 120)
    said = go_on(work, capsys)
    runs = [spml.load(work / f"round-{number}" / "run") for number in (1, 2)]
    sheet = read_answers(work / "sample.csv", runs[0].classes)
    values = []
    for run in runs:
        held_out = read_held_out(run.folder, run.classes)
        rows = [held_out.ids.index(name) for name in sheet.ids]
        scores = held_out.scores.gather()[rows]
        predicted = scores >= np.float32(run.thresholds.logits)
        hits, both = (predicted & sheet.truth).sum(), predicted.sum() + sheet.truth.sum()
        values.append((average_precision(scores, sheet.truth).mean(), 2 * hits / both))
    changes = compare_rounds(work / "sample.csv", *runs, Engine())
    for metric, column in (("mAP", 0), ("micro_F1", 1)):
        change = changes[metric]
        assert change.before == pytest.approx(values[0][column])
        assert change.after == pytest.approx(values[1][column])
        assert change.difference == pytest.approx(values[1][column] - values[0][column])
        assert 0 < change.difference_margin < change.before_margin + change.after_margin
        assert describe_change("mAP" if metric == "mAP" else "micro F1", change) in said
    stored = json.loads((work / "round-2" / "compared.json").read_text())
    assert stored["mAP"]["after"] == changes["mAP"].after
    turned = compare_rounds(work / "sample.csv", *runs[::-1], Engine())["mAP"]
    assert turned.difference == pytest.approx(-changes["mAP"].difference)
    assert turned.difference_margin == pytest.approx(changes["mAP"].difference_margin)


def test_a_change_in_words():
    assert describe_change("mAP", Change(0.5, 0.05, 0.561, 0.04, 0.02)) == (
        "  mAP        50.0 ±5.0 ->  56.1 ±4.0, difference +6.1 ±2.0"
    )


@pytest.mark.long
@pytest.mark.usefixtures("small_heads")
def test_photos_keep_their_names_split_backbone_and_weights(tmp_path, capsys):
    weights = make_weights(tmp_path / "weights.safetensors", "test_convnext", 96)
    source, work = write_photos(tmp_path / "photos", 40), tmp_path / "work"
    truth = truth_of(source, separator=" ")
    go_on(
        work, capsys, source, *HIDDEN, "--data.separator", " ", "--data.size", "64,96", "--data.workers", "0",
        "--backbone", "test_convnext", "--weights", weights, "--local", "on", "--rows", "30",
    )  # fmt: skip
    fill_in(work / "sample.csv", truth)
    go_on(work, capsys)
    answer(work / "round-1" / "audit", truth, 30)
    said = go_on(work, capsys)
    assert "round 1 -> round 2, on 30 samples labelled in full" in said
    runs = [spml.load(work / f"round-{number}" / "run") for number in (1, 2)]
    assert [run.summary["data"]["samples"] for run in runs] == [{"train": 30, "val": 10}] * 2
    assert runs[0].classes == runs[1].classes
    one, two = (run.config for run in runs)
    assert (two.model, two.method, two.optim, two.data.size) == (one.model, one.method, one.optim, "64,96")
    assert two.data.images == str(tmp_path / "photos")
    for run in runs:
        assert [each["size"] for each in run.summary["sizes"]["tried"]] == [64, 96]
        assert all(top.local for top in run.classifier.tops)


@pytest.mark.long
def test_a_loop_that_is_killed_goes_on(features, tmp_path, capsys, monkeypatch):
    work, truth = tmp_path / "work", truth_of(features)

    def killed(*arguments, **settings):
        raise KeyboardInterrupt

    for name in ("run_training", "sample_for_audit"):
        with monkeypatch.context() as patch:
            patch.setattr(steps, name, killed)
            command = ["loop", features, *HIDDEN, "--head ridge --rows 40 --output", work]
            assert "interrupted" in fails(capsys, *command, code=130)
    go_on(work, capsys)
    fill_in(work / "sample.csv", truth)
    for name in ("use_audit", "run_audit"):
        with monkeypatch.context() as patch:
            patch.setattr(steps, name, killed)
            fails(capsys, "loop", "--output", work, code=130)
    go_on(work, capsys)
    answer(work / "round-1" / "audit", truth, 30)
    undisturbed = shutil.copytree(work, tmp_path / "other")
    for name in ("next_labels", "like_run", "run_training", "use_audit", "compare_rounds", "run_audit"):
        with monkeypatch.context() as patch:
            patch.setattr(steps, name, killed)
            fails(capsys, "loop", "--output", work, code=130)
    said = go_on(work, capsys)
    other = go_on(undisturbed, capsys)
    assert said.replace(str(work), "") == other.replace(str(undisturbed), "")
    for name in ("labels.npz", "run/model.safetensors", "compared.json", "audit/missing.csv"):
        first, second = ((folder / "round-2" / name).read_bytes() for folder in (work, undisturbed))
        assert first == second, name


def test_a_loop_ends_where_each_sample_has_one_label(features, tmp_path, capsys):
    with np.load(features) as file:
        arrays = dict(file)
    arrays["Y"] = np.eye(arrays["Y"].shape[1], dtype=np.int8)[arrays["Y"].argmax(1)]
    np.savez(features, **arrays)
    work = tmp_path / "work"
    go_on(work, capsys, features, *HIDDEN, "--head", "ridge", "--rows", "40")
    fill_in(work / "sample.csv", truth_of(features))
    said = go_on(work, capsys)
    assert "have 1 labels each, no more than are known: no label is missing" in said
    assert said.endswith(f"the model: {work / 'round-1' / 'run'}\n")


def test_what_is_refused(features, tmp_path, capsys):
    work = tmp_path / "work"
    assert "name the folder of the loop: --output FOLDER" in fails(capsys, "loop", features)
    assert "holds no loop to go on with. Name data: spml loop DATA" in fails(capsys, "loop", "--output", work)
    assert not work.exists()
    message = fails(capsys, "loop", features, "--devices", "2", "--output", work)
    assert "--devices: a loop trains on one device" in message
    message = fails(capsys, "loop", tmp_path / "nowhere", "--output", work)
    assert "nowhere: no such file or folder" in message
    # Nothing was trained, so it begins.
    go_on(work, capsys, features, *HIDDEN, "--head", "ridge", "--rows", "40")
    message = fails(capsys, "loop", "--head", "lda", "--rows", "50", "--output", work)
    assert "this loop was begun with another model.head, another rows. Leave it out to go on" in message
    go_on(work, capsys, features, *HIDDEN, "--head", "ridge", "--rows", "40")  # the same command goes on
    fill_in(work / "sample.csv", {name: {"zebra"} for name in truth_of(features)})
    assert "row 2: 'zebra' is not a class" in fails(capsys, "loop", "--output", work)
    (work / "loop.json").write_text('{"settings": 1}')
    assert "loop.json: can't be read" in fails(capsys, "loop", "--output", work)


def test_too_few_samples_are_refused(tmp_path, capsys):
    source = make_features(tmp_path / "all.npz")
    with np.load(source) as stored:
        few = {name: values[:60] for name, values in stored.items() if name not in ("split", "classes")}
    np.savez(tmp_path / "few.npz", **few)
    message = fails(
        capsys, "loop", tmp_path / "few.npz", *HIDDEN, "--method", "gr", "--epochs", "1",
        "--output", tmp_path / "work",
    )  # fmt: skip
    assert "has held-out scores of 12 samples, but 20 or more must be labelled in full" in message


@pytest.mark.long
def test_a_sample_that_was_labelled_on_the_page_is_used(features, tmp_path, capsys):
    work, truth = tmp_path / "work", truth_of(features)
    go_on(work, capsys, features, *HIDDEN, "--head", "ridge", "--rows", "20", "--top", "60")
    table = (work / "sample.csv").read_bytes()
    page = Labelling(work / "sample.csv", "person")
    for card in page.cards(page.shown()[0]):
        for column, name in enumerate(page.sample.classes):
            page.decide(card.sample, column, "yes" if name in truth[card.name] else "no")
        if card.name != page.sample.ids[-1]:
            page.complete(card.sample, complete=True)
    assert "sample.csv: 19 of 20 samples are complete" in go_on(work, capsys)
    page.complete(page.shown("open")[0][0], complete=True)
    page.store.close()
    said = go_on(work, capsys)
    assert f"next: spml review {work}/round-1/audit" in said
    k = spml.load(work / "round-1" / "run").thresholds.mean_labels
    assert k.value == pytest.approx(np.mean([len(truth[name]) for name in page.sample.ids]))
    assert (work / "sample.csv").read_bytes() == table
    answer(work / "round-1" / "audit", truth, 10)
    assert "on 20 samples labelled in full" in go_on(work, capsys)
