"""Runs whose images are scored at the best one or two sizes: which they are, and that everything agrees."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

import spml
from spml.common.errors import InputError
from spml.config import from_dict
from spml.engine import Interrupted
from spml.models import BackboneSpec, takes_any_size
from spml.models.backbones.backbone import resized
from spml.models.solved.members import class_logits
from spml.runs.audits.out_of_fold import open_for_run, score_samples
from spml.runs.by_names import open_unlabelled
from spml.runs.fit import sizes as fit_sizes
from spml.runs.fit.solve import HeldOutJudge
from spml.runs.folder.held_out import read_held_out
from spml.runs.predict.batches import Engine
from spml.runs.settle.like import like_run
from spml.runs.settle.resolve import candidate_sizes, open_for_backbone
from tests.helpers.commands import fails
from tests.helpers.exported import check_exported_images
from tests.helpers.features import make_weights
from tests.helpers.logits import keep_own_labels
from tests.helpers.members import few_members
from tests.helpers.photo_runs import train_on, write_photos
from tests.helpers.serving import check_served_windows

BACKBONE = "test_convnext"


@pytest.fixture(scope="module", autouse=True)
def small_heads():
    with few_members():
        yield


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_weights(folder / "weights.safetensors", BACKBONE, 64)
    return write_photos(folder / "photos", count=80)


@pytest.fixture(scope="module")
def large(photos, tmp_path_factory):
    """Half of the photographs, of 120 pixels."""
    folder = tmp_path_factory.mktemp("large") / "photos"
    folder.mkdir()
    for path in sorted(photos.parent.glob("*.png"))[:40]:
        Image.open(path).resize((120, 100)).save(folder / path.name)
    (folder / "labels.csv").write_text("".join(photos.read_text().splitlines(keepends=True)[:41]))
    return folder / "labels.csv"


def train_sizes(photos, output, weights, size, **settings):
    model = {"backbone": BACKBONE, "weights": str(weights), **settings.pop("model", {})}
    model = {"frozen": "yes", "local": "on", **model}
    data = {"size": size, **settings.pop("data", {})}
    settings = {"method": "auto", "mean_labels": 1.5, **settings}
    return train_on(photos, output, data=data, model=model, **settings)


@pytest.fixture(scope="module")
def weights(photos):
    return photos.parent.parent / "weights.safetensors"


BOTH = 0.50, 0.51, 0.40
"""Scores of 64 pixels, of 96, and of their sum, which decides nothing: both are used though it is lower."""


def told_by(told, seen=None):
    """A judge that gives these scores, one after the other, and keeps what it was given."""

    class Told(HeldOutJudge):
        def __call__(self, scores, *rest):
            if seen is not None:
                seen.append(np.sort(scores, 0))
            return next(told)

    return Told


@pytest.fixture(scope="module")
def judged(photos, weights, tmp_path_factory):
    """A run that uses both sizes, and the scores that its judge was given."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_sizes, "HeldOutJudge", told_by(iter(BOTH), seen))
        folder = train_sizes(photos, tmp_path_factory.mktemp("runs") / "two", weights, "64,96")
    return spml.load(folder), seen


@pytest.fixture(scope="module")
def run(judged):
    return judged[0]


@pytest.fixture(scope="module")
def alone(photos, weights, tmp_path_factory):
    """Folders of runs with one size each."""
    folder = tmp_path_factory.mktemp("runs")
    return {size: train_sizes(photos, folder / str(size), weights, size) for size in (64, 96)}


@pytest.fixture(scope="module")
def images(photos):
    return sorted(photos.parent.glob("*.png"))[:10]


@pytest.mark.parametrize(
    ("own", "side", "expected"),
    [
        (224, 341, (224, 320, 384)),
        (224, 320, (224, 320)),
        (224, 4000, (224, 320, 448)),
        (260, 341, (260, 384)),
        (224, 128, (224,)),
        (8000, 20_000, (8000,)),
    ],
)
def test_candidates_follow_from_network_and_photographs(own, side, expected):
    assert candidate_sizes(own, side) == expected


@pytest.mark.parametrize("size", [20, 64, 96, 150])
def test_images_are_resized_as_pillow_does(size):
    pixels = np.random.default_rng(0).integers(0, 256, (96, 96, 3), np.uint8)
    expected = np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))
    found = resized(torch.from_numpy(pixels).permute(2, 0, 1)[None], size)[0].permute(1, 2, 0).numpy()
    assert np.abs(found - expected).max() <= 1.01  # Pillow rounds twice


def logits_by_hand(run, images):
    """Weighted sum of the logits of each size, and the window of the size whose logit is highest."""
    classifier = run.classifier
    pixels = torch.stack([run.transform(Image.open(path)) for path in images])
    total, logits, places = 0.0, [], []
    with torch.inference_mode():
        for each, top in zip(classifier.sizes, classifier.tops, strict=True):
            small = resized(pixels, each.size)
            outputs = top(*top.local.settings.windows.features(classifier.backbone, small))
            total = total + each.weight * outputs.logits
            logits.append(outputs.logits.numpy())
            places.append(top.local.settings.windows.places()[outputs.windows.numpy()])
    best = np.stack(logits).argmax(0)
    return total.numpy(), np.take_along_axis(np.stack(places), best[None, ..., None], 0)[0]


@pytest.mark.long
def test_scores_of_two_sizes_are_averaged(run, images):
    logits, places = logits_by_hand(run, images)
    predicted = run.predict(images, where=True)
    np.testing.assert_allclose(predicted.scores, 1 / (1 + np.exp(-logits.astype(np.float64))), atol=1e-5)
    for row, (labels, windows) in enumerate(zip(predicted.labels, predicted.where, strict=True)):
        columns = [run.classes.index(label) for label in labels]
        np.testing.assert_allclose(windows, places[row, columns], atol=1e-6)
    assert any(predicted.labels)


def test_the_run_says_which_sizes_it_has_tried(run):
    card = json.loads((run.folder / "model.json").read_text())
    assert card["backbone"]["size"] == 96
    assert sorted(each["size"] for each in card["sizes"]) == [64, 96]
    assert sum(each["weight"] for each in card["sizes"]) == pytest.approx(1)
    assert card["sizes"][0]["weight"] >= card["sizes"][1]["weight"]
    sizes = run.summary["sizes"]
    assert [(each["size"], each["samples"]) for each in sizes["tried"]] == [(64, 80), (96, 80)]
    assert all(each["seconds"] > 0 and 0 < each["val/SP"] <= 1 for each in sizes["tried"])
    assert sizes["weights"] == {str(each["size"]): each["weight"] for each in card["sizes"]}
    assert run.settings.data.size == "64,96"
    report = (run.folder / "report.html").read_text()
    assert "SP-score of each size that was tried: 64: " in report


def test_probabilities_add_up_to_the_stated_number_of_labels(run, photos):
    assert 1.2 < float(run.predict(photos.parent).scores.sum(1).mean()) < 1.9


@pytest.mark.long
def test_held_out_scores_are_those_of_both_sizes(run, alone):
    """Up to a line, the weighted sum of what a run of each size alone has kept."""
    kept, total = read_held_out(run.folder), 0.0
    for each in run.classifier.sizes:
        of_size = read_held_out(alone[each.size])
        of_size = of_size._replace(scores=of_size.compared)
        total = total + each.weight * of_size.scores_of(kept.ids).gather()
    found = kept.compared.gather()
    for column in range(found.shape[1]):
        assert np.corrcoef(found[:, column], total[:, column])[0, 1] > 0.99  # 64 pixels are made of 96
    known = torch.from_numpy((kept.labels.to_ternary() == 1).astype(np.int64))
    fitted = class_logits(torch.from_numpy(found), known, 1.5)
    # The own label is left out of the sum, not of its parts as well.
    np.testing.assert_allclose(kept.scores.gather(), fitted.logits, atol=1e-2)


def test_sizes_are_scored_by_logits_to_which_known_labels_were_fitted(judged, alone):
    _, seen = judged
    kept = read_held_out(alone[96])
    compared, left_out = (np.sort(each.gather(), 0) for each in (kept.compared, kept.scores))
    assert any(np.allclose(each, compared, atol=1e-4) for each in seen)
    assert not any(np.allclose(each, left_out, atol=1e-4) for each in seen)


@pytest.mark.long
def test_one_exported_file_has_both_sizes(run, images, tmp_path):
    """And the windows of each."""
    about = check_exported_images(run, images, tmp_path, "onnx")
    assert sorted(about["preparation"]["sizes"]) == [64, 96]


def test_a_cluster_scores_both_sizes(run, images, played):
    alone = run.predict(images, where=True)
    together = run.predict(images, where=True, engine="ray")
    assert played == ["logits"]
    np.testing.assert_allclose(together.scores, alone.scores, atol=1e-6)
    assert together.labels == alone.labels
    for one, other in zip(alone.where, together.where, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_server_predicts_at_both_sizes(run, images):
    check_served_windows(run, images[:2])


@pytest.mark.long
def test_an_audit_solves_heads_of_both_sizes(run, photos, weights, tmp_path, monkeypatch):
    # Windows of both sizes speak for labels.
    first = sum(run.classifier.top.local.settings.windows.counts)
    assert first < len(run.places)
    windows = read_held_out(run.folder).windows
    assert 0 <= windows.min() < first <= windows.max() < len(run.places)

    keep_own_labels(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(fit_sizes, "HeldOutJudge", told_by(iter(BOTH)))
        run = spml.load(train_sizes(photos, tmp_path / "two", weights, "64,96"))
    kept = read_held_out(run.folder)
    (run.folder / "held_out.safetensors").rename(tmp_path / "kept")
    data, config = open_for_run(run, run.settings.data), run.settings.data
    scored = score_samples(
        run, data, config, folds=None, folder=tmp_path / "refits", overwrite=False, engine=Engine()
    )
    (tmp_path / "kept").rename(run.folder / "held_out.safetensors")
    assert scored.how.startswith("5 solutions of auto")
    row = {name: number for number, name in enumerate(scored.ids)}
    found = scored.scores.gather()[[row[name] for name in kept.ids]]
    # Up to the line that gives the average the scale of logits.
    for column in range(found.shape[1]):
        assert np.corrcoef(found[:, column], kept.scores.array[:, column])[0, 1] > 0.99999


@pytest.mark.long
def test_the_best_sizes_are_chosen(large, weights, tmp_path):
    """Of the network's 64 pixels, 96 and 128, for photographs of 120."""
    run = spml.load(train_sizes(large, tmp_path / "run", weights, "auto"))
    tried = run.summary["sizes"]["tried"]
    assert [each["size"] for each in tried] == [64, 96, 128]
    best = sorted(tried, key=lambda each: -each["val/SP"])[:2]
    weights_of = run.summary["sizes"]["weights"]
    assert set(weights_of) <= {str(each["size"]) for each in best}
    assert next(iter(weights_of)) == str(best[0]["size"])
    assert like_run(run.folder, {})["data"]["size"] == ",".join(weights_of)  # they are settled
    assert run.spec.size == 128
    assert run.settings.data.size == "auto"
    assert run.summary["test"] is None


@pytest.mark.long
def test_a_part_of_many_samples_chooses(large, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(fit_sizes, "_PART", 19)
    run = spml.load(train_sizes(large, tmp_path / "run", weights, "auto"))
    tried = [(each["size"], each["samples"]) for each in run.summary["sizes"]["tried"]]
    assert [size for size, count in tried if count == 19] == [64, 96, 128]
    assert 1 <= len([size for size, count in tried if count == 40]) <= 2


def opened_with(photos, weights, size="auto"):
    data = {"path": str(photos), "size": size, "separator": " ", "unlisted": "negative", "observe": "single"}
    model = {"backbone": BACKBONE, "weights": str(weights), "frozen": "yes"}
    return open_for_backbone(from_dict({"data": data, "model": model}), several=True)


def test_small_photographs_are_seen_at_the_size_of_the_network(photos, weights, caplog):
    caplog.set_level("INFO", "spml")
    found = opened_with(photos, weights)
    assert (found.spec.size, found.sizes) == (64, ())
    said = "half of the photographs have less than 32 pixels on the longer side (median 24) and are enlarged"
    assert said in caplog.text


def test_the_median_of_a_folder_of_mixed_sizes_decides(large, weights, tmp_path, caplog):
    caplog.set_level("INFO", "spml")
    mixed = tmp_path / "photos"
    mixed.mkdir()
    for number, path in enumerate(sorted(large.parent.glob("*.png"))):
        Image.open(path).resize((400, 60) if number % 2 else (40, 40)).save(mixed / path.name)
    (mixed / "labels.csv").write_text(large.read_text())
    found = opened_with(mixed / "labels.csv", weights)
    assert found.sizes == (64, 96, 128)
    assert (
        "four in five have 40 to 400 pixels on the longer side. Sizes are chosen by the median, 220."
        in caplog.text
    )


def test_networks_of_one_size_keep_it():
    """A plain vision transformer, and the small network that is trained."""
    three = {"size": 224, "mean": (0.5,) * 3, "std": (0.5,) * 3}
    assert not takes_any_size(BackboneSpec("vit_tiny_patch16_224", **three))
    assert takes_any_size(BackboneSpec("mobilenetv2_100", **three))
    assert not takes_any_size(BackboneSpec("small_cnn", **three))


@pytest.mark.long
def test_a_killed_run_goes_on_in_the_second_size(photos, weights, run, tmp_path, monkeypatch):
    whole = run
    fit, sizes = fit_sizes._fit_at, []
    # The first size is scored twice, from features that are kept.
    monkeypatch.setattr(fit_sizes, "HeldOutJudge", told_by(iter([BOTH[0], *BOTH])))

    def killed(build, run, size, *rest):
        sizes.append(size)
        if size == 96:
            raise KeyboardInterrupt
        return fit(build, run, size, *rest)

    monkeypatch.setattr(fit_sizes, "_fit_at", killed)
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        train_sizes(photos, tmp_path / "run", weights, "64,96")
    monkeypatch.setattr(fit_sizes, "_fit_at", fit)
    run = spml.load(train_sizes(photos, tmp_path / "run", weights, "64,96", resume=True))
    assert sizes == [64, 96]
    images = sorted(photos.parent.glob("*.png"))[:5]
    np.testing.assert_allclose(run.predict(images).scores, whole.predict(images).scores, atol=1e-6)


@pytest.mark.long
def test_a_time_limit_leaves_sizes_out(photos, weights, tmp_path, monkeypatch, caplog):
    """Of two sizes, the first took 10,000 seconds, so that the second would take 22,500."""
    fit = fit_sizes._fit_at
    monkeypatch.setattr(fit_sizes, "_fit_at", lambda *rest: fit(*rest)._replace(seconds=1e4))
    with caplog.at_level("INFO", logger="spml"):
        run = spml.load(train_sizes(photos, tmp_path / "run", weights, "64,96", minutes=200))
    assert "minutes=200: no time is left for images of 96 pixels" in caplog.messages
    assert [each["size"] for each in run.summary["sizes"]["tried"]] == [64]
    assert [each.size for each in run.classifier.sizes] == [64]


@pytest.mark.long
def test_what_windows_need_is_kept_in_a_stated_cache_only(photos, weights, alone, tmp_path):
    """Rows of 64 pixels: 5 times what features take."""
    run = train_sizes(photos, tmp_path / "run", weights, 64, data={"cache": str(tmp_path / "cache")})
    own, stated = (
        sorted(path.stat().st_size for path in folder.rglob("*.rows"))
        for folder in (alone[64] / "features", tmp_path / "cache")
    )
    width = 4 * spml.load(run).classifier.backbone.num_features
    assert (own, stated) == ([80 * width], [80 * width, 80 * width * 5])


@pytest.mark.long
def test_fine_tuning_takes_the_size_that_won(run, photos, weights, tmp_path):
    tuned = spml.load(
        train_sizes(
            photos, tmp_path / "run", weights, "auto",
            method="em", init_from=str(run.folder), epochs=1, model={"frozen": "no", "local": "off"},
        )
    )  # fmt: skip
    assert tuned.spec.size == run.classifier.sizes[0].size
    assert tuned.classifier.sizes == ()


def test_two_sizes_are_for_the_auto_head(photos, weights, tmp_path, capsys):
    options = [
        "train", photos, "--data.unlisted", "negative", "--data.observe", "single", "--data.separator", " ",
        "--weights", weights, "--output", tmp_path / "run",
    ]  # fmt: skip
    said = fails(capsys, *options, "--data.size 64,96 --method em")
    assert "data.size=64,96: several sizes are averaged by the auto head" in said
    said = fails(capsys, *options, "--data.size 64,0")
    assert "data.size=64,0: state one size, or two or three different ones above 0." in said
    said = fails(capsys, *options, "--data.size large")
    assert "data.size must be auto, or numbers from 0 to 8192 such as 320 or 224,320, got 'large'" in said
    assert not (tmp_path / "run").exists()


def test_names_alone_and_comparisons_take_one_size(photos, weights, tmp_path):
    with pytest.raises(InputError, match=r"data\.size would have no effect.*at one size"):
        open_unlabelled(
            from_dict({"data": {"path": str(photos), "size": "64,96"}, "model": {"names": "clip"}}),
            resume=False,
        )
    config = {"path": str(photos), "size": "64,96", "separator": " "}
    model = {"backbone": BACKBONE, "weights": str(weights)}
    with pytest.raises(InputError, match=r"data\.size=64,96: several sizes are averaged by the auto head"):
        open_for_backbone(from_dict({"data": config, "model": model}))


def test_a_size_that_the_network_can_not_take_is_refused(run, monkeypatch):
    backbone = run.classifier.backbone
    monkeypatch.setattr(type(backbone.network), "forward", lambda self, x: x.reshape(1, 3, 64, 64))
    with pytest.raises(
        InputError, match=r"backbone test_convnext can't take images of 32 pixels \(RuntimeError: shape"
    ):
        fit_sizes.check_sizes(backbone, (32,))
