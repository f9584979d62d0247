"""Runs with the names of classes: train, predict, evaluate, audit, export, serve."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import spml
from spml.audit.folder import read_audit
from spml.audit.sheets import read_sample
from spml.metrics import average_precision, mean_average_precision
from spml.review.labelling import Labelling
from spml.runs.audits.sample import scores_of_sample
from tests.helpers.clip import COLOURS, colour_images, make_clip
from tests.helpers.commands import fails
from tests.helpers.commands import run as command
from tests.helpers.members import few_members
from tests.helpers.records import read_rows
from tests.reference.names import lda_of_names, name_scores

pytest.importorskip("transformers", reason="transformers is not installed")

QUICK = {"quiet": True, "pictures": False, "threads": 1, "mean_labels": 1.6}
NAMES = (*COLOURS,)


def make_scenes(folder, count=120, seed=0, known=NAMES):
    """Images of one or two colours; half of the known labels are drawn at random."""
    generator = np.random.default_rng(seed)
    images, labels = colour_images(count, generator)
    folder.mkdir()
    rows, full = [], []
    for number, (image, own) in enumerate(zip(images, labels, strict=True)):
        file, listed = f"{number:03}.png", [NAMES[column] for column in np.flatnonzero(own)]
        Image.fromarray(image).save(folder / file)
        some = known if generator.random() < 0.5 else [name for name in listed if name in known] or known
        rows.append([file, generator.choice(some)])
        full.append([file, ";".join(listed)])
    for name, table in (("labels.csv", rows), ("full.csv", full)):
        with open(folder / name, "w", newline="") as stream:
            csv.writer(stream).writerows([["file", "label"], *table])
    return folder


@pytest.fixture(scope="module", autouse=True)
def small_heads():
    with few_members():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    make_clip(folder / "clip")
    make_scenes(folder / "scenes")
    make_scenes(folder / "new", 60, seed=1)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return spml.train(
        folder / "scenes" / "labels.csv", names=str(folder / "clip"), output=folder / "run", **QUICK
    )


@pytest.fixture(scope="module")
def plain(folder):
    """The same without names."""
    model = f"hf/{folder / 'clip'}"
    return spml.train(folder / "scenes" / "labels.csv", backbone=model, output=folder / "plain", **QUICK)


def labels_of(path):
    return {row["file"]: row["label"].split(";") for row in read_rows(path / "full.csv")}


def truth(path):
    return np.asarray([[name in own for name in NAMES] for own in labels_of(path).values()])


@pytest.mark.long
def test_names_are_a_member_and_help(folder, run, plain):
    head = run.classifier.top.head
    assert head.settings.members[-1].head.startswith("names")
    model = f"hf/{folder / 'clip'}"
    assert (run.config.model.names, run.config.model.backbone) == (str(folder / "clip"), model)
    assert run.config.method == "auto"
    assert run.summary["members"][-1]["head"] == head.settings.members[-1].head
    scores, others = (each.predict(folder / "new").scores for each in (run, plain))
    wanted = truth(folder / "new")
    assert mean_average_precision(scores, wanted) > mean_average_precision(others, wanted) + 0.02
    found = run.evaluate(folder / "new" / "full.csv", unlisted="negative")
    assert found["mAP"] == pytest.approx(mean_average_precision(scores, wanted), abs=1e-6)


def test_neither_text_tower_nor_folder_is_needed_to_predict(folder, run, tmp_path):
    expected = run.predict(folder / "new").scores
    (folder / "clip").rename(tmp_path / "elsewhere")
    try:
        again = spml.load(run.folder)
        np.testing.assert_array_equal(again.predict(folder / "new").scores, expected)
        assert not any("text_model" in name for name in again.classifier.state_dict())
    finally:
        (tmp_path / "elsewhere").rename(folder / "clip")


@pytest.mark.long
def test_exported_and_served_scores_agree(folder, run, tmp_path):
    pytest.importorskip("onnxruntime")
    from tests.helpers.exported import computed, opened, with_nearest_pixels
    from tests.helpers.serving import client_of, files

    images = sorted((folder / "new").glob("*.png"))[:4]
    expected = run.predict(images).scores
    session, _ = opened(with_nearest_pixels(run, tmp_path).export())
    pixels = np.stack([np.asarray(Image.open(path)) for path in images])
    np.testing.assert_allclose(computed(session, pixels)["scores"], expected, atol=1e-5)
    with client_of(run.folder) as client:
        served = client.post("/predict?scores=all", files=files(*images)).json()
    for result, own in zip(served["predictions"], expected, strict=True):
        np.testing.assert_allclose([result["scores"][name] for name in NAMES], own, atol=1e-5)


@pytest.mark.parametrize("method", ["vlpl", "gpr"])
def test_names_make_pseudo_labels(folder, run, tmp_path, method):
    made = spml.train(
        folder / "scenes" / "labels.csv", names=str(folder / "clip"), method=method, epochs=2,
        output=tmp_path / "run", **QUICK,
    )  # fmt: skip
    state = load_file(made.folder / "objective.safetensors")["pseudo"]
    train = spml.data.open_dataset(made.settings.data).splits["train"]
    texts = run.classifier.top.head.heads[-1].texts.tolist()
    with torch.inference_mode():
        features = made.classifier.backbone(train.inputs.fetch(range(len(train)), None)).tolist()
    expected = np.exp(name_scores("names_softmax", features, texts, 20.0)) > 0.3
    np.testing.assert_array_equal(state.numpy() == 1, expected)
    assert expected.sum() > len(expected)


def test_an_audit_has_the_names_as_a_second_opinion(capsys, run, plain, folder):
    _, _, said = command(capsys, "audit", run.folder, "--output", folder / "audit", "--mean_labels 1.6")
    missing = read_audit(folder / "audit").missing
    texts = run.classifier.top.head.heads[-1]
    pixels = [np.asarray(Image.open(folder / "scenes" / each.file)).transpose(2, 0, 1) for each in missing]
    with torch.inference_mode():
        features = run.classifier.backbone(torch.from_numpy(np.stack(pixels))).tolist()
    scores = np.asarray(name_scores(texts.form, features, texts.texts.tolist(), 20.0))
    best = np.argsort(-scores, 1)[:, :2]  # K is 1.6
    expected = [
        "yes" if NAMES.index(each.label) in own else "no" for each, own in zip(missing, best, strict=True)
    ]
    assert [each.by_name for each in missing] == expected
    agreed = expected.count("yes")
    assert 0 < agreed < len(missing)
    assert f"names: agree with {agreed} of {len(missing)} listed labels (column by_name)" in said
    command(capsys, "audit", plain.folder, "--output", folder / "plain audit", "--mean_labels 1.6")
    assert {each.by_name for each in read_audit(folder / "plain audit").missing} == {""}


@pytest.mark.long
def test_the_command_line(capsys, folder, tmp_path):
    (tmp_path / "prompts.txt").write_text("a picture of a {}\n")
    words = ["train", folder / "scenes" / "labels.csv", "--names", folder / "clip", "--threads", 1]
    words += ["--model.prompts", tmp_path / "prompts.txt", "--mean_labels", 1.6]
    code, _, said = command(capsys, *words, "--output", tmp_path / "run")
    assert code == 0
    assert "names: 3 of 3 classes are read by the text tower of" in said
    assert "in 1 prompt such as 'a picture of a blue'" in said
    assert "auto head: linear heads" in said


@pytest.mark.long
def test_a_class_without_known_labels_is_predicted_by_name_and_marked(capsys, folder, tmp_path):
    known = NAMES[:2]
    scenes = make_scenes(tmp_path / "scenes", known=known)
    lines = (scenes / "labels.csv").read_text().splitlines()
    # A column for each class, of which that of the last one is empty.
    rows = [line.split(",") for line in lines[1:]]
    marks = [[file, *("1" if label == name else "" for name in NAMES)] for file, label in rows]
    with open(scenes / "marks.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([["file", *NAMES], *marks])
    (scenes / "labels.csv").unlink()
    run = spml.train(
        scenes / "marks.csv", data={"label_column": ",".join(NAMES)}, names=str(folder / "clip"),
        output=tmp_path / "run", **{**QUICK, "pictures": True},
    )  # fmt: skip
    assert run.by_name == ["red"]
    assert json.loads((run.folder / "model.json").read_text())["without_positives"] == []
    predicted = run.predict(folder / "new")
    wanted = truth(folder / "new")[:, 2]
    assert average_precision(predicted.scores[:, 2:], wanted[:, None])[0] > wanted.mean() + 0.1
    has = np.asarray(["red" in labels for labels in predicted.labels])
    assert wanted[has].mean() > wanted.mean() + 0.1
    assert has.any()
    _, _, said = command(capsys, "predict", run.folder, folder / "new", "--output", tmp_path / "p.csv")
    assert "Predicted by name alone, because no training sample had it: red." in said
    report = (run.folder / "report.html").read_text()
    assert re.search(r"<td[^>]*>by name</td>", report)
    # Without names it is never predicted.
    plain = spml.train(
        scenes / "marks.csv", data={"label_column": ",".join(NAMES)}, backbone=f"hf/{folder / 'clip'}",
        output=tmp_path / "plain", **QUICK,
    )  # fmt: skip
    assert plain.by_name == []
    assert json.loads((plain.folder / "model.json").read_text())["without_positives"] == ["red"]
    assert not any("red" in labels for labels in plain.predict(folder / "new").labels)


@pytest.mark.parametrize(
    ("source", "words", "message"),
    [
        ("labels.csv", "--names clip --method an", "method 'an' makes no use of the names of classes: pass"),
        (
            "labels.csv",
            "--names clip --head ridge",
            "but model.head=ridge is given: leave out one",
        ),
        ("labels.csv", "--names clip --frozen no", "but model.frozen=no is given"),
        ("labels.csv", "--names clip --backbone resnet50", "but model.backbone is resnet50"),
        ("labels.csv", "--names clip --model.names_lda yes", "names_lda is for photos without labels"),
        ("labels.csv", "--model.prompts p.txt", "no model with one is named: pass names=MODEL"),
        ("x.npz", "--names clip", "but x holds features: leave it out"),
        ("codes.csv", "--names clip", "no class has a name that a text tower could read"),
    ],
)
def test_what_does_not_go_with_names_is_refused(
    capsys, folder, tmp_path, monkeypatch, source, words, message
):
    monkeypatch.chdir(folder)
    scenes = folder / "scenes"
    np.savez(scenes / "x.npz", X=np.eye(4), Y=np.eye(4), classes=np.array([*"abcd"]))
    codes = (scenes / "labels.csv").read_text().replace("red", "c07").replace("blue", "c08")
    (scenes / "codes.csv").write_text(codes.replace("green", "c09"))
    assert message in fails(capsys, "train", scenes / source, words, "--output", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def untagged(folder):
    """A run of photos without labels in two folders, and the names of three classes."""
    photos = folder / "untagged" / "photos"
    for number, path in enumerate(sorted((folder / "scenes").glob("*.png"))):
        place = photos / ("first" if number % 2 else "second")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    (folder / "untagged" / "names.txt").write_text("\n".join(NAMES) + "\n")
    return folder / "untagged"


@pytest.fixture(scope="module")
def cold(folder, untagged):
    return spml.train(
        untagged / "photos", names=str(folder / "clip"), data={"classes": str(untagged / "names.txt")},
        output=untagged / "run", quiet=True, threads=1,
    )  # fmt: skip


def softmax_of_names(run, paths):
    pixels = [np.asarray(Image.open(path)).transpose(2, 0, 1) for path in paths]
    with torch.inference_mode():
        features = run.classifier.backbone(torch.from_numpy(np.stack(pixels))).tolist()
    texts = run.classifier.top.head.heads[0].texts.tolist()
    return np.exp(name_scores("names_softmax", features, texts, 20.0))


def test_photos_without_labels_are_scored_by_the_names_alone(folder, untagged, cold):
    new = sorted((folder / "new").glob("*.png"))
    predicted = cold.predict(folder / "new")
    np.testing.assert_allclose(predicted.scores, softmax_of_names(cold, new), atol=1e-5)
    wanted = truth(folder / "new")
    assert mean_average_precision(predicted.scores, wanted) > wanted.mean() + 0.2
    # Nothing is stated that needs a known label, and the cut is that of 1.5 labels of a photo on average.
    assert cold.by_name == [*NAMES]
    assert cold.calibration is None
    cut = cold.thresholds.classes[0].threshold
    assert [tuple(vars_of(each)) for each in cold.thresholds.classes] == [
        (name, cut, None, None, None, None, 0, None, None) for name in NAMES
    ]
    photos = sorted((untagged / "photos").glob("*/*.png"))
    own = cold.predict(untagged / "photos")
    assert (softmax_of_names(cold, photos) >= cut).sum() == sum(map(len, own.labels)) == 1.5 * len(photos)
    assert not any((cold.folder / name).exists() for name in ("summary.json", "report.html", "metrics.jsonl"))
    assert "no label is known yet" in repr(cold) + cold._repr_html_()


def vars_of(cut):
    return [getattr(cut, name) for name in cut.__struct_fields__]


@pytest.mark.long
def test_from_photos_without_labels_to_a_run_that_learned(capsys, folder, untagged, tmp_path):
    words = ["train", untagged / "photos", "--data.classes", untagged / "names.txt", "--threads", 1]
    code, _, said = command(capsys, *words, "--names", folder / "clip", "--output", tmp_path / "cold")
    assert code == 0
    assert "photos: 120 photos without labels" in said
    assert "no label is known yet: scores are those of the names of the classes alone" in said
    _, told, _ = command(capsys, "audit sample", tmp_path / "cold", "--rows", 80)
    sheet = tmp_path / "cold" / "sample.csv"
    assert f"{sheet}: 80 samples, drawn at random" in told
    # The page finds the photos, and lists the classes by their names' scores.
    runs = {"cold": spml.load(tmp_path / "cold")}
    sample = read_sample(sheet)
    scores = scores_of_sample(runs, sample.ids, sample.classes)
    paths = [untagged / "photos" / name for name in sample.ids]
    np.testing.assert_allclose(np.exp(scores), softmax_of_names(runs["cold"], paths), atol=1e-5)
    labelling = Labelling(sheet, "me", scores=scores)
    try:
        row = labelling.records.ids.index(sample.ids[0])
        (card,) = labelling.cards([row])
        assert card.order == np.argsort(-scores[0], kind="stable").tolist()
        assert (card.given, card.refused) == ([], [])
        labels = labels_of(folder / "scenes")
        for name in sample.ids:
            row = labelling.records.ids.index(name)
            for label in labels[name.split("/")[-1]]:
                labelling.decide(row, sample.classes.index(label), "yes")
            labelling.complete(row, complete=True)
    finally:
        labelling.store.close()
    tags = sheet.with_suffix(".labelled.csv")
    code, said, _ = command(capsys, "audit use", sheet, tmp_path / "cold")
    assert (code, tags.is_file()) == (0, True)
    train = f"spml train {tags} --data.images {untagged / 'photos'} --data.unlisted negative"
    train += f" --names {folder / 'clip'}"
    assert f"next: {train}" in said
    code, _, said = command(capsys, *train.split()[1:], "--threads", 1, "--output", tmp_path / "run")
    assert code == 0, said
    learned = spml.load(tmp_path / "run")
    assert (learned.by_name, learned.summary["data"]["samples"]) == ([], {"train": 64, "val": 16})
    wanted = truth(folder / "new")
    before, after = (each.predict(folder / "new").scores for each in (runs["cold"], learned))
    code, _, _ = command(
        capsys, "evaluate", tmp_path / "cold", folder / "new" / "full.csv", "--data.unlisted=negative"
    )
    measured = runs["cold"].evaluate(folder / "new" / "full.csv", unlisted="negative")["mAP"]
    assert (code, measured) == (0, pytest.approx(mean_average_precision(before, wanted), abs=1e-6))
    assert mean_average_precision(after, wanted) > mean_average_precision(before, wanted)


def test_a_table_of_photos_may_be_without_labels_too(folder, untagged, cold, tmp_path):
    files = [path.relative_to(untagged / "photos").as_posix() for path in (untagged / "photos").glob("*/*")]
    (tmp_path / "photos.csv").write_text("\n".join(["file,place", *(f"{name},x" for name in sorted(files))]))
    run = spml.train(
        tmp_path / "photos.csv", names=str(folder / "clip"), output=tmp_path / "run", quiet=True, threads=1,
        data={"classes": str(untagged / "names.txt"), "images": str(untagged / "photos")},
    )  # fmt: skip
    assert run.thresholds.classes == cold.thresholds.classes
    weights = (cold.folder / "model.safetensors").read_bytes()
    assert (run.folder / "model.safetensors").read_bytes() == weights
    # The written settings repeat the run, and say that features are kept.
    config = cold.config
    assert (config.model.frozen, config.model.backbone) == ("yes", f"hf/{folder / 'clip'}")
    again = spml.train(dataclasses.replace(config, output=str(tmp_path / "again")), quiet=True)
    assert (again.folder / "model.safetensors").read_bytes() == weights


def features_of_parts(run, paths):
    """Features (N, 14, D) of images, and of their 4 and 9 crops."""
    pixels = torch.from_numpy(np.stack([np.asarray(Image.open(path)).transpose(2, 0, 1) for path in paths]))
    side, found = pixels.shape[2], []
    with torch.inference_mode():
        for grid in (1, 2, 3):
            cell = side // grid
            for top, left in np.ndindex(grid, grid):
                crop = pixels[:, :, top * cell : (top + 1) * cell, left * cell : (left + 1) * cell].float()
                large = torch.nn.functional.interpolate(crop, (side, side), mode="bilinear")
                found.append(run.classifier.backbone(large).numpy())
    return np.stack(found, 1)


LISTED, MANY = "--data.classes names.txt", "--data.classes many.txt"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("thresholds run", "run: no label is known yet"),
        ("audit run --mean_labels 1.5 --output audit", "spml audit sample run, then spml review"),
        (f"train photos {LISTED}", "pass names=MODEL"),
        (
            f"train photos {LISTED} --names clip --epochs 3 --mean_labels 2",
            "epochs, mean_labels would",
        ),
        (f"train photos {LISTED} --names clip --local on", "model.local would have no effect"),
        (f"train photos {LISTED} --names clip --frozen no", "model.frozen would have no effect"),
        (f"train photos {LISTED} --names clip --resume", "holds no run to resume"),
        (f"train photos {MANY} --names clip --model.names_lda yes", "LDA of 7 classes needs 140 photos, 20"),
        ("train photos --data.classes code.txt --names clip", "'c07' can't be read as a name either"),
        ("train photos --data.classes twice.txt --names clip", "repeats 'red'"),
        ("train photos --data.classes one.txt --names clip", "names one class only"),
        ("train photos --data.classes empty.txt --names clip", "is empty"),
        (f"train none {LISTED} --names clip", "holds no image"),
        (f"train one.txt {LISTED} --names clip", "name a folder of them, or a table"),
        ("train one --names clip", "If no label is known yet"),
        (f"train photos {LISTED} --names clip --output run", "overwrite"),
        (f"train photos {LISTED} --names clip --output run --resume", "nothing is trained without a known"),
    ],
)
def test_what_needs_a_known_label_says_so(capsys, cold, untagged, folder, monkeypatch, line, message):
    monkeypatch.chdir(untagged)
    if not Path("clip").exists():
        Path("clip").symlink_to(folder / "clip")
        many = "\n".join(f"{word} thing" for word in ("red", "blue", "big", "old", "new", "wet", "dry"))
        texts = {"many": many, "code": "red\nc07\n", "twice": "red\nred\n", "one": "red\n", "empty": ""}
        for name, text in texts.items():
            Path(f"{name}.txt").write_text(text)
        for name in ("none", "one"):
            Path(name).mkdir()
        shutil.copy(next(Path("photos").glob("*/*.png")), "one")
    words = [] if "--output" in line or not line.startswith("train") else ["--output", "never"]
    assert message in fails(capsys, line, *words)
    assert not Path("never").exists()


def test_the_configuration_of_photos_without_labels_is_printed(capsys, folder, untagged, tmp_path):
    words = "--data.classes", untagged / "names.txt", "--names", folder / "clip", "--print_config --output"
    code, printed, _ = command(capsys, "train", untagged / "photos", *words, tmp_path / "run")
    assert code == 0
    assert f"names: {folder / 'clip'}" in printed
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.parametrize(("crops", "lda"), [(True, False), (False, True), (True, True)])
def test_photos_without_labels_by_crops_and_by_lda(folder, untagged, cold, tmp_path, crops, lda, caplog):
    caplog.set_level("INFO", "spml")
    run = spml.train(
        untagged / "photos", names=str(folder / "clip"), data={"classes": str(untagged / "names.txt")},
        local="crops" if crops else "auto", model={"names_lda": lda}, output=tmp_path / "run", quiet=True,
        threads=1,
    )  # fmt: skip
    told = f"names: fitted to 120 photos{' and their crops' * crops} by LDA"
    assert (told in caplog.text) == lda
    assert ("its best of 4 crops and its best of 9 count alike" in caplog.text) == crops
    photos, new = sorted((untagged / "photos").glob("*/*.png")), sorted((folder / "new").glob("*.png"))
    fitted, given = (features_of_parts(run, paths)[:, : 14 if crops else 1] for paths in (photos, new))
    texts = cold.classifier.top.head.heads[0].texts.tolist()

    def log_probabilities(parts):
        flat = parts.reshape(-1, parts.shape[2]).tolist()
        scores = name_scores("names_softmax", flat, texts, 20.0)
        if lda:
            scores = lda_of_names(fitted.reshape(-1, fitted.shape[2]).tolist(), flat, texts, 20.0)
        return np.reshape(scores, (*parts.shape[:2], len(texts)))

    if crops:

        def variants(scores):
            return np.stack([scores[:, 0], scores[:, 1:5].max(1), scores[:, 5:].max(1)])

        own = variants(log_probabilities(fitted))
        centre, spread = own.mean(1, keepdims=True), own.std(1, keepdims=True)
        mean = ((own - centre) / spread).mean(0)
        chances = np.exp(own[0])
        logits = np.log(chances / (1 - chances))
        scale = logits.std(0) / mean.std(0)
        sums = ((variants(log_probabilities(given)) - centre) / spread).mean(0)
        expected = 1 / (1 + np.exp(-(logits.mean(0) + scale * sums)))
    else:
        expected = np.exp(log_probabilities(given)[:, 0])
    predicted = run.predict(folder / "new")
    np.testing.assert_allclose(predicted.scores, expected, atol=1e-4)
    assert mean_average_precision(predicted.scores, truth(folder / "new")) > 0.9
    # Labels of the photos themselves: 1.5 of each on average, by the scores that were kept.
    assert sum(map(len, run.predict(untagged / "photos").labels)) == pytest.approx(1.5 * len(photos), abs=2)
    card = json.loads((run.folder / "model.json").read_text())
    assert card["method"]["name"] == ("names_lda" if lda else "names_softmax")
    some = [photos[0].relative_to(untagged / "photos").as_posix()]
    scores = scores_of_sample({"run": run}, some, run.classes)
    assert np.isfinite(scores).all()


@pytest.mark.long
def test_a_run_of_names_alone_is_exported_and_served(folder, cold, tmp_path):
    pytest.importorskip("onnxruntime")
    from tests.helpers.exported import with_nearest_pixels
    from tests.helpers.serving import client_of, files

    images = sorted((folder / "new").glob("*.png"))[:4]
    # Names as a member are in an ONNX file above.
    program = torch.export.load(with_nearest_pixels(cold, tmp_path).export(format="torch-export")).module()
    pixels = np.stack([np.asarray(Image.open(path)) for path in images])
    expected = cold.predict(images)
    with torch.inference_mode():
        scores = program(torch.from_numpy(pixels))["scores"]
    np.testing.assert_allclose(scores, expected.scores, atol=1e-5)
    with client_of(cold.folder) as client:
        served = client.post("/predict", files=files(*images)).json()
    assert [each["labels"] for each in served["predictions"]] == expected.labels
