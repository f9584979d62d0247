"""Settings, methods and machines that do not go together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import spml
from spml.common.errors import InputError
from spml.config import Config, DataConfig, ModelConfig
from spml.data import Dataset
from spml.data.images.image_files import ImageFiles
from spml.methods import registry
from spml.methods.base import Card, Facts, Needs, Objective
from spml.methods.registry import create, find, methods
from spml.models import describe_backbone
from spml.runs.fit.build import make_backbone
from spml.runs.run import exportable
from spml.runs.settle import conflicts
from spml.runs.settle.conflicts import bytes_per_score, check_method_memory, check_recording, check_settled
from spml.runs.settle.resolve import Opened, Resolved, check_stated, resolve
from spml.scores import forms
from tests.helpers.commands import refusal
from tests.helpers.networks import FEATURES, GREY, PHOTOS
from tests.helpers.training import make_data

# -- needs of a method or a head: resolved, checked before training, trained and kept --------------------


NOTHING, MAPS, LATENT = Needs(), Needs(class_maps=True), Needs(latent=True)
SOFT, EMBEDDING = Needs(latent=True, posterior=True), Needs(embedding=5)


class Demanding(find("an")):  # type: ignore[misc]
    """A method whose needs a test sets."""


@pytest.fixture(autouse=True)
def demanding(monkeypatch: pytest.MonkeyPatch) -> None:
    find("an")  # all methods are registered
    monkeypatch.setitem(registry._REGISTRY.entries, "an", ("", Demanding))
    monkeypatch.setattr(Demanding, "needs", NOTHING)


def resolved(model: ModelConfig, data: Dataset = PHOTOS, needs: Needs = NOTHING) -> Resolved:
    Demanding.needs = needs
    config = Config(method="an", model=model)
    config.data.path = "data"
    config, start = check_stated(config)
    return resolve(config, Opened(data, describe_backbone(config.model, data.kind, data.width)), start)


def settled(model: ModelConfig, data: Dataset = PHOTOS, needs: Needs = NOTHING) -> Config:
    return resolved(model, data, needs).config


@pytest.fixture
def card_with_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    card = replace(find("an").card, head="boosted_cam")
    monkeypatch.setattr(find("an"), "card", card)


@pytest.mark.usefixtures("card_with_a_head")
def test_the_card_chooses_the_head_unless_the_user_does() -> None:
    assert settled(ModelConfig()).model.head == "boosted_cam"
    assert settled(ModelConfig(head="mlp")).model.head == "mlp"
    again = settled(settled(ModelConfig()).model)
    assert (again.model.head, again.model.frozen) == ("boosted_cam", "no")


def test_a_card_without_a_head_means_a_linear_one() -> None:
    assert Card("", "", 0, "").head == "linear"
    assert settled(ModelConfig()).model.head == "linear"


def test_auto_freezes_a_pretrained_backbone_unless_its_maps_are_needed() -> None:
    assert settled(ModelConfig()).model.frozen == "yes"
    assert settled(ModelConfig(head="gaussian")).model.frozen == "yes"
    boosted = settled(ModelConfig(head="boosted_cam"))
    assert (boosted.model.frozen, boosted.optim.lr) == ("no", 1e-4)
    assert settled(ModelConfig(), needs=MAPS).model.frozen == "no"


WITH_MAPS = pytest.mark.parametrize(
    ("head", "needs", "who"),
    [
        ("boosted_cam", NOTHING, "head 'boosted_cam' (method 'an')"),
        ("queries", NOTHING, "head 'queries' (method 'an')"),
        ("linear", MAPS, "method 'an'"),
    ],
)


@WITH_MAPS
def test_maps_need_a_backbone_that_is_trained(head: Any, needs: Needs, who: str) -> None:
    frozen = refusal(resolved, ModelConfig(head=head, frozen="yes"), PHOTOS, needs)
    assert frozen.startswith(who)
    assert "model.frozen is 'yes'" in frozen
    assert "pass model.frozen=no" in frozen
    vectors = refusal(resolved, ModelConfig(head=head), FEATURES, needs)
    assert vectors.startswith(who)
    assert "feature vectors" in vectors
    assert "give the images" in vectors
    assert settled(ModelConfig(head=head, frozen="no"), PHOTOS, needs).model.frozen == "no"
    assert settled(ModelConfig(head=head), GREY, needs).model.frozen == "no"


@WITH_MAPS
def test_maps_need_a_backbone_that_has_them(head: Any, needs: Needs, who: str) -> None:
    for name, fits in (("resnet18", True), ("test_vit", False)):
        plain = ModelConfig(name, weights="random")
        assert make_backbone(resolved(plain)).num_features > 0
        run = resolved(replace(plain, head=head), needs=needs)
        if fits:
            assert make_backbone(run).num_features == 512
            continue
        message = refusal(make_backbone, run)
        assert message.startswith(f"{who} needs a feature map, but backbone test_vit")
        assert "model.backbone=resnet50" in message


IMAGES = "or for images model.head=queries"


@pytest.mark.parametrize("data", [FEATURES, GREY, PHOTOS], ids=["features", "grey", "photos"])
@pytest.mark.parametrize(
    ("needs", "head", "what", "instead"),
    [
        (LATENT, "mlp", "with a random code", f"pass model.head=gaussian, {IMAGES}"),
        (SOFT, "mlp", "that predicts a distribution of every label", f"pass model.head=beta, {IMAGES}"),
        (SOFT, "gaussian", "that predicts a distribution of every label", f"pass model.head=beta, {IMAGES}"),
        (EMBEDDING, "gaussian", "with an embedding of each class", "pass model.head=queries"),
    ],
)
def test_a_method_needs_a_head_with_what_it_uses(
    needs: Needs, head: Any, what: str, instead: str, data: Dataset
) -> None:
    message = refusal(resolved, ModelConfig(head=head), data, needs)
    assert f"method 'an' needs a head {what}, but model.head is '{head}': {instead}" in message


@pytest.mark.parametrize("data", [FEATURES, GREY, PHOTOS], ids=["features", "grey", "photos"])
@pytest.mark.parametrize(("head", "needs"), [("gaussian", LATENT), ("beta", LATENT), ("beta", SOFT)])
def test_a_head_that_has_it_is_kept(head: Any, needs: Needs, data: Dataset) -> None:
    assert settled(ModelConfig(head=head), data, needs).model.head == head


def test_label_queries_have_what_the_method_uses() -> None:
    for needs, expected in (
        (NOTHING, (0, 0, False)), (LATENT, (9, 0, False)), (SOFT, (9, 0, True)), (EMBEDDING, (0, 5, False)),
    ):  # fmt: skip
        queries = resolved(ModelConfig(head="queries", code=9), GREY, needs).top["queries"]
        assert (queries.code, queries.embedding, queries.posterior) == expected
    assert "model.code is 0" in refusal(resolved, ModelConfig(head="queries", code=0), GREY, LATENT)


def test_parts_are_frozen_of_a_network_that_is_trained() -> None:
    parts = ModelConfig("resnet18", frozen_parts="norms,conv1", frozen="no")
    assert settled(parts).model.frozen_parts == "norms,conv1"
    with pytest.raises(InputError, match=r"frozen_parts='norms,conv1' names .* the backbone is frozen"):
        settled(replace(parts, frozen="auto"))


def test_parts_of_images_are_trained_on_where_the_backbone_is_trained() -> None:
    model = ModelConfig("resnet18", head="linear", frozen="no")
    config, images = Config(data=DataConfig(crop=0.5), method="an", model=model), ImageFiles([], [], size=32)
    more = NOTHING, describe_backbone(model, "image", 0), "image", images
    check_settled(config, *more)
    frozen = replace(config, model=replace(model, frozen="yes"))
    with pytest.raises(InputError, match=r"data.crop=0\.5 .* frozen, so its features are computed once"):
        check_settled(frozen, *more)
    check_settled(replace(frozen, data=DataConfig()), *more)


def test_views_and_further_passes_suit_every_model() -> None:
    needs = Needs(views=("weak", "strong"), train_pass=True, batch_coupled=True)
    for data in (FEATURES, GREY, PHOTOS):
        assert settled(ModelConfig(), data, needs).model.head == "linear"


# -- whole runs ------------------------------------------------------------------------------------------


QUICK: dict[str, Any] = {"epochs": 1, "threads": 1, "quiet": True, "pictures": False}
SOME: dict[str, Any] = {**QUICK, "data": {"sample_rows": 100}}


def shapes_of(head: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in head.named_parameters()}


@pytest.mark.long
@pytest.mark.parametrize("head", ["boosted_cam", "gaussian", "beta", "queries"])
def test_a_head_learns_and_predicts_the_same_after_loading(head: str, tmp_path: Path) -> None:
    sizes = {"encoder_layers": 0, "decoder_layers": 1, "ffn": 32} if head == "queries" else {}  # faster
    settings = {**QUICK, "epochs": 3, "batch_size": 16, "model": {"head": head, **sizes}}
    data = {"sample_rows": 800}
    run = spml.train("digits", method="an", data=data, output=tmp_path / "run", **settings)
    history = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert history[2]["val/SP"] > history[0]["val/SP"] + 0.15
    assert history[2]["val/SP"] > 0.45
    assert run.card["top"]["head"] == head
    assert spml.load(run.folder).classifier.top.settings() == run.card["top"]
    summary = json.loads((run.folder / "summary.json").read_text())
    assert run.evaluate("digits", split="test", sample_rows=800)["mAP"] == pytest.approx(
        summary["test"]["mAP"], abs=1e-6
    )


def test_sizes_of_label_queries_are_settings_and_belong_to_the_model(tmp_path: Path) -> None:
    sizes = {"width": 8, "attention_heads": 2, "encoder_layers": 0, "decoder_layers": 1, "ffn": 6}
    settings = {**SOME, "method": "an"}
    first = spml.train("digits", model={"head": "queries", **sizes}, output=tmp_path / "first", **settings)
    none = {"code": 0, "codes_in_evaluation": 0, "embedding": 0, "posterior": False}
    assert first.card["top"]["queries"] == sizes | none
    shapes = shapes_of(first.classifier.top.head)
    assert (shapes["project.weight"], shapes["decoder.0.widen.weight"]) == ((8, 64), (6, 8))
    settings["init_from"] = str(tmp_path / "first")
    second = spml.train("digits", output=tmp_path / "second", **settings)
    assert second.card["top"] == first.card["top"]
    with pytest.raises(InputError, match=r"is 7, but the model of .* has 6"):
        spml.train("digits", model={"ffn": 7}, output=tmp_path / "third", **settings)
    with pytest.raises(InputError, match="the head of the run to start from has none"):
        spml.train("digits", output=tmp_path / "third", **(settings | {"method": "mime"}))


def test_codes_of_classes_belong_to_the_model(tmp_path: Path) -> None:
    sizes = {"head": "queries", "width": 8, "ffn": 6, "code": 3, "codes_in_evaluation": 10}
    run = spml.train("digits", method="mime", model=sizes, output=tmp_path / "run", **SOME)
    loaded = spml.load(run.folder).classifier.top
    assert loaded.settings()["queries"] == run.card["top"]["queries"]
    assert [run.card["top"]["queries"][key] for key in ("code", "codes_in_evaluation")] == [3, 10]
    shapes = shapes_of(loaded.head)
    assert shapes["code.2.weight"] == (6, 8)
    assert shapes["last.weight"] == (10, 3)
    images = torch.zeros(2, 1, 40, 40, dtype=torch.uint8)
    network = exportable(run).network
    assert torch.equal(network(images), network(images))  # what is exported repeats itself
    assert not torch.equal(run.model(images), run.model(images))


def test_a_code_per_class_belongs_to_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 6)).astype(np.float32), rng.integers(0, 3, 80)
    settings = {**QUICK, "method": "mime", "epochs": 3, "mean_labels": 1}
    sizes = {"head": "gaussian_per_class", "hidden": 7, "code": 5, "codes_in_evaluation": 4}
    run = spml.train(X, y, model=sizes, output=tmp_path / "run", **settings)
    assert run.card["top"]["codes"] == {"code": 5, "codes_in_evaluation": 4}
    loaded = spml.load(run.folder).classifier.top
    assert loaded.settings() == run.card["top"]
    shapes = shapes_of(loaded.head)
    assert [shapes[f"{name}.weight"] for name in ("hidden", "code", "last")] == [(21, 6), (30, 7), (1, 5)]
    features, network = torch.from_numpy(X), exportable(run).network
    assert torch.equal(network(features), network(features))  # what is exported repeats itself
    assert not torch.equal(run.model(features), run.model(features))
    settings["init_from"] = str(run.folder)
    again = spml.train(X, y, output=tmp_path / "again", **settings)
    assert again.card["top"] == run.card["top"]
    with pytest.raises(InputError, match=r"is 6, but the model of .* has 5"):
        spml.train(X, y, model={"code": 6}, output=tmp_path / "third", **settings)
    assert "has a random code of each class, but model.code is 0" in refusal(
        resolved, ModelConfig(head="gaussian_per_class", code=0), FEATURES, NOTHING
    )


def test_distributions_of_labels_belong_to_the_model(tmp_path: Path) -> None:
    settings = {**SOME, "method": "smile_image"}
    sizes = {"head": "queries", "width": 8, "ffn": 6, "code": 3}
    run = spml.train("digits", model=sizes, output=tmp_path / "first", **settings)
    loaded = spml.load(run.folder).classifier.top
    assert loaded.settings()["queries"] == run.card["top"]["queries"]
    assert run.card["top"]["queries"]["posterior"] is True
    shapes = shapes_of(loaded.head)
    assert shapes["code.2.weight"] == (6, 8)
    assert shapes["last.weight"] == shapes["alpha.weight"] == shapes["beta.weight"] == (10, 8)
    images = torch.zeros(2, 1, 40, 40, dtype=torch.uint8)
    torch.testing.assert_close(exportable(run).network(images), run.model(images))
    settings["init_from"] = str(run.folder)
    again = spml.train("digits", output=tmp_path / "again", **settings)
    assert again.card["top"] == run.card["top"]
    with pytest.raises(InputError, match=r"predicts a distribution of every label, unlike .* 'mime'"):
        spml.train("digits", output=tmp_path / "third", **(settings | {"method": "mime"}))


def test_frozen_norms_keep_their_statistics_in_a_run(tmp_path: Path) -> None:
    changed = {}
    for parts in ("", "norms"):
        settings = {**SOME, "method": "an", "model": {"frozen_parts": parts}}
        run = spml.train("digits", output=tmp_path / f"run {parts}", **settings)
        state = run.classifier.backbone.state_dict()
        start = make_backbone(resolved(ModelConfig("small_cnn"), GREY)).state_dict()
        changed[parts] = {name for name in state if not torch.equal(state[name], start[name])}
    norms = {name for name in changed[""] if name.startswith(("network.layers.2", "network.layers.5"))}
    assert any("running_mean" in name for name in norms)
    assert changed["norms"] == {f"network.layers.{index}.weight" for index in (0, 3, 7)}


class Needy(Objective):
    """Needs a random code and is given none."""

    card = Card("Needy", "none", 2000, "none")
    needs = LATENT


DIGITS, MOBILE = {"source": "digits"}, {"backbone": "mobilenetv3_small_050", "weights": "random"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"head": "boosted_cam"}}, "the data holds feature vectors"),
        ({"model": {"head": "queries"}}, "the data holds feature vectors"),
        ({"model": {"frozen_parts": "norms"}}, "names parts of a network .* the data holds feature vectors"),
        ({"data": {"crop": 0.5}}, "random parts of images, but the data holds no image files"),
        ({**DIGITS, "data": {"crop": 0.5}}, "random parts of images, but the data holds no image"),
        ({"data": {"crop": 0.0}}, "must be from 0.01 to 1, got 0.0"),
        (
            {**DIGITS, "model": {"frozen_parts": "layer1"}},
            "small_cnn has no part 'layer1'. Did you mean layers",
        ),
        (
            {**DIGITS, "model": {"head": "queries", "attention_heads": 3}},
            "an even width that is a multiple of its 3 attention heads, got 64, that of the feature map",
        ),
        ({"method": "needy"}, "pass model.head=gaussian"),
        (
            {**DIGITS, "model": {"head": "boosted_cam", **MOBILE}},
            "backbone mobilenetv3_small_050 has no feature map",
        ),
    ],
)
def test_what_does_not_suit_is_refused_before_anything_is_written(
    changes: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._REGISTRY.entries, "needy", ("", Needy))
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, 5)).astype(np.float32)
    np.savez(tmp_path / "x.npz", X=vectors, Y=np.eye(4, dtype=np.uint8)[rng.integers(0, 4, 40)])
    settings = {"method": "an", "output": str(tmp_path / "run"), "quiet": True, **changes}
    with pytest.raises(InputError, match=words):
        spml.train(settings.pop("source", tmp_path / "x.npz"), **settings)
    assert not (tmp_path / "run").exists()


# -- methods and recordings that would not fit into memory are refused before anything is allocated


def facts(samples=100, classes=4):
    data = make_data(n=samples + 50, classes=classes)
    train = data.splits["train"].take(range(samples))
    return Facts(train.observed, train.ids, data.classes, 2.0)


@pytest.mark.parametrize("name", sorted(set(methods()) - {"combine", "bce", "iu", "iun"}))
def test_what_a_method_keeps_is_measured_on_a_few_samples(name):
    given, objective = facts(), create(name)
    found = bytes_per_score(objective, given)
    state = methods()[name].card.state
    assert found == 0 or state != "none"
    objective.on_fit_start(given)  # was not started by the measurement
    expected = 4 * objective.needs.train_pass
    for tensors, copies in ((objective.buffers(), 2), (objective.parameters(), 5)):
        held = [each for each in tensors if each.shape[:2] == (100, 4)]
        expected += copies * sum(each.element_size() * each[0, 0].numel() for each in held)
    assert found == expected


def test_a_method_that_does_not_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(conflicts, "total_memory", lambda: 1000)
    role = create("role")
    check_method_memory(role, "role", facts())  # few scores: nothing is measured
    monkeypatch.setattr(forms, "MOST_SCORES", 399)
    said = refusal(check_method_memory, role, "role", facts())
    message = said
    assert "method 'role' keeps 0.0 GB for 100 samples x 4 classes" in message
    others = message.split("(`method`): ")[1].split(";")[0].split(", ")
    assert {"an", "wan", "em"} <= set(others)
    assert not {"role", "ll_cp", "em_apl"} & set(others)
    monkeypatch.setattr(conflicts, "total_memory", lambda: 20 * 400)
    check_method_memory(role, "role", facts())
    monkeypatch.setattr(conflicts, "total_memory", lambda: 20 * 400 - 1)
    with pytest.raises(InputError):
        check_method_memory(role, "role", facts())
    check_method_memory(create("an"), "an", facts())


def test_a_method_without_memory_starts_whatever_the_size(monkeypatch):
    monkeypatch.setattr(conflicts, "total_memory", lambda: 0)
    monkeypatch.setattr(forms, "MOST_SCORES", 0)
    check_method_memory(create("an"), "an", facts())


def test_features_of_all_samples_that_do_not_fit_are_refused_with_their_size(monkeypatch):
    smile, given = create("smile"), facts()
    monkeypatch.setattr(conflicts, "total_memory", lambda: 32 * 100 * 7 - 1)
    with pytest.raises(InputError, match=r"'smile' compares .* 0\.0 GB for 100 samples x 7 features"):
        check_method_memory(smile, "smile", replace(given, width=7))
    check_method_memory(smile, "smile", replace(given, width=6))
    check_method_memory(smile, "smile", given)


def test_a_recording_that_does_not_fit_is_refused(monkeypatch):
    data = make_data()
    monkeypatch.setattr(conflicts, "total_memory", lambda: 10 * 100 * 4)
    check_recording(data, [])
    check_recording(data, ["train"])
    with pytest.raises(InputError, match=r"scores of \d+ samples x 4 classes takes 0\.0 GB"):
        check_recording(data, ["train", "val"])
