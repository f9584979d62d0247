"""The classifier and its folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from spml.common.errors import InputError
from spml.config import ModelConfig
from spml.models import Classifier, Top, build_backbone, load_classifier, save_classifier
from spml.models.heads import HEADS
from tests.helpers.commands import refusal
from tests.helpers.networks import GREY, PHOTOS, TINY, _rewrite, describe, set_weights
from tests.helpers.processes import finish_function


def small_classifier(frozen: bool = False) -> Classifier:
    torch.manual_seed(0)
    config = ModelConfig()
    backbone = build_backbone(describe(config, GREY), config)
    return Classifier(backbone, Top(64, 2, head="mlp", hidden=5, dropout=0.1), frozen=frozen)


def test_a_frozen_backbone_does_not_change() -> None:
    classifier = small_classifier(frozen=True).train()
    before = {name: value.clone() for name, value in classifier.backbone.state_dict().items()}
    images = torch.randint(0, 256, (4, 1, 40, 40), dtype=torch.uint8)
    classifier(images).logits.sum().backward()
    assert all(torch.equal(before[name], value) for name, value in classifier.backbone.state_dict().items())
    assert all(parameter.grad is None for parameter in classifier.backbone.parameters())
    assert all(parameter.grad is not None for parameter in classifier.top.parameters())
    assert not classifier.backbone.training
    assert classifier.top.training


def test_a_top_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="63 features on a backbone of 64"):
        Classifier(small_classifier().backbone, Top(63, 2))


def photo_classifier(head: str, backbone: str = "resnet18") -> Classifier:
    torch.manual_seed(0)
    config = ModelConfig(backbone, weights="random")
    network = build_backbone(describe(config, PHOTOS, size=64), config)
    for name, buffer in network.network.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return Classifier(network, Top(network.num_features, 2, head=head, hidden=5, scaling="raw")).eval()


def photos(seed: int = 1) -> torch.Tensor:
    return torch.randint(
        0, 256, (3, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )


@pytest.mark.parametrize("head", ["linear", "boosted_cam"])
def test_class_maps_average_to_the_logits_in_one_pass_through_the_backbone(head: str) -> None:
    classifier, passes = photo_classifier(head), []
    classifier.backbone.network.get_submodule("conv1").register_forward_hook(
        lambda *call: passes.append(call)  # type: ignore[func-returns-value]
    )
    outputs = classifier(photos(), class_maps=True)
    assert len(passes) == 1
    assert outputs.class_maps.shape == (3, 2, 2, 2)
    assert outputs.class_maps.std() > 1e-3
    torch.testing.assert_close(outputs.class_maps.mean((2, 3)), outputs.logits.detach())


@pytest.mark.parametrize("head", ["linear", "mlp", "gaussian"])
def test_class_maps_change_no_other_output(head: str) -> None:
    classifier, results = photo_classifier(head, TINY), []
    for class_maps in (False, True):
        classifier.zero_grad()
        outputs = classifier(photos(), class_maps)
        outputs.logits.square().sum().backward()
        gradients = [parameter.grad.clone() for parameter in classifier.parameters()]
        results.append([outputs.logits, outputs.features, *gradients])
        assert (outputs.class_maps is not None) == class_maps
    for without, with_maps in zip(*results, strict=True):
        torch.testing.assert_close(with_maps, without)
    assert not outputs.class_maps.requires_grad


def test_class_maps_are_trained_only_where_they_shall_be() -> None:
    classifier = photo_classifier("linear")
    outputs = classifier(photos(), class_maps=True, trained_maps=True)
    torch.testing.assert_close(outputs.class_maps, classifier(photos(), class_maps=True).class_maps)
    weight = classifier.backbone.network.get_parameter("conv1.weight")
    # With a linear head the logits are the means of the maps, and so have the same gradient.
    from_maps, from_logits = (
        torch.autograd.grad(values.square().sum(), weight, retain_graph=True)[0]
        for values in (outputs.class_maps.mean((2, 3)), outputs.logits)
    )
    torch.testing.assert_close(from_maps, from_logits)
    assert from_maps.abs().max() > 0
    with torch.no_grad():
        assert not classifier(photos(), class_maps=True, trained_maps=True).class_maps.requires_grad


def test_class_maps_of_a_network_that_normalises_its_features() -> None:
    classifier = photo_classifier("linear", "test_convnext")
    backbone = classifier.backbone
    outputs = classifier(photos(), class_maps=True)
    maps = backbone.maps(photos())
    one_place = backbone.pool(maps[:, :, 1:, :1])
    torch.testing.assert_close(outputs.class_maps[:, :, 1, 0], classifier.top(one_place).logits.detach())


@pytest.mark.parametrize(("head", "class_maps"), [("linear", True), ("boosted_cam", False)])
def test_a_backbone_without_a_feature_map_is_refused(head: str, class_maps: bool) -> None:
    classifier = photo_classifier(head, "mobilenetv3_small_050")
    with pytest.raises(InputError, match="backbone mobilenetv3_small_050 has no feature map"):
        classifier(photos(), class_maps)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("head", HEADS)
def test_every_head_is_saved_and_loaded(head: str, tmp_path: Path) -> None:
    classifier = photo_classifier(head, TINY)
    with torch.no_grad():
        for tensor in (*classifier.top.head.parameters(), *classifier.top.head.buffers()):
            tensor.add_(0.1 * torch.randn_like(tensor))  # not as a new head has them
    save_classifier(tmp_path, classifier, classifier.spec, {"classes": ["a", "b"]})
    loaded, card = load_classifier(tmp_path)
    assert card["top"]["head"] == head
    expected, actual = classifier(photos(), class_maps=True), loaded(photos(), class_maps=True)
    assert torch.equal(actual.logits, expected.logits)
    assert torch.equal(actual.class_maps, expected.class_maps)


@pytest.mark.usefixtures("no_network")
def test_scores_are_saved_and_loaded(tmp_path: Path) -> None:
    config = ModelConfig()
    backbone = build_backbone(describe(config, GREY), config)
    classifier = Classifier(backbone, Top(64, 2, scores="log_softmax")).eval()
    save_classifier(tmp_path, classifier, classifier.spec, {"classes": ["a", "b"]})
    images = torch.randint(0, 256, (3, 1, 40, 40), dtype=torch.uint8)
    actual = load_classifier(tmp_path)[0](images).logits
    torch.testing.assert_close(actual.exp().sum(1), torch.ones(3))
    assert torch.equal(actual, classifier(images).logits)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    classifier = small_classifier()
    save_classifier(tmp_path, classifier, classifier.spec, {"classes": ["a", "b"], "note": "kept"})
    return tmp_path


@pytest.mark.usefixtures("no_network")
def test_a_saved_classifier_has_its_settings(saved: Path) -> None:
    loaded, card = load_classifier(saved)
    assert not loaded.training
    assert loaded.spec == small_classifier().spec
    assert (card["classes"], card["note"], card["format"]) == (["a", "b"], "kept", 2)


@pytest.mark.usefixtures("no_network")
def test_a_timm_model_of_a_file_is_saved_with_all_that_changes_it(weights: Path, tmp_path: Path) -> None:
    sidecar = json.loads(weights.with_suffix(".json").read_text())
    weights.with_suffix(".json").write_text(json.dumps({**sidecar, "timm_kwargs": {"act_layer": "gelu"}}))
    config = ModelConfig(weights=str(weights))
    spec = describe(config, PHOTOS)
    backbone = build_backbone(spec, config)
    top = Top(backbone.num_features, 2, scaling="raw")
    save_classifier(tmp_path, Classifier(backbone, top), spec, {"classes": ["a", "b"]})
    weights.unlink()
    loaded, _ = load_classifier(tmp_path)
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    expected = Classifier(backbone, top).eval()(images).logits
    assert torch.equal(loaded(images).logits, expected)


@pytest.mark.usefixtures("no_network")
def test_a_network_fitted_to_another_size_is_loaded_at_that_size(tmp_path: Path) -> None:
    config = ModelConfig("test_vit", weights="random")
    spec = describe(config, PHOTOS, size=64)
    backbone = build_backbone(spec, config)
    classifier = Classifier(backbone, Top(backbone.num_features, 2)).eval()
    save_classifier(tmp_path, classifier, spec, {"classes": ["a", "b"]})
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    assert torch.equal(load_classifier(tmp_path)[0](images).logits, classifier(images).logits)


def test_class_names_must_be_as_many_as_logits(tmp_path: Path) -> None:
    classifier = small_classifier()
    with pytest.raises(ValueError, match="3 class names for 2 logits"):
        save_classifier(tmp_path, classifier, classifier.spec, {"classes": ["a", "b", "c"]})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 1}, "has format 1"),
        ({"classes": ["a"]}, "for 2 logits"),
        ({"top": None}, "Expected `object`, got `null` - at `$.top`"),
        ({"format": None}, "has format null"),
        ({"format": "\x1b[31m"}, r"has format '\x1b[31m'"),
        ({"classes": ["a", 2]}, "Expected `str`, got `int` - at `$.classes[1]`"),
        ({"classes": [1, 2]}, "Expected `str`, got `int` - at `$.classes[0]`"),
        ({"classes": "ab"}, "Expected `array`, got `str` - at `$.classes`"),
        ({"classes": ["a", "a"]}, "the class name 'a' occurs twice - at `$.classes[1]`"),
        ({"classes": ["", "b"]}, "the class name '' is empty - at `$.classes[0]`"),
        (
            {"classes": ["a", "\x1b[2J"]},
            "the class name '\\x1b[2J' holds control characters - at `$.classes[1]`",
        ),
        ({"weights_sha256": "0" * 64}, "not the file that model.json"),
        ({"top__hidden": 6}, "3 of another shape: top.head.0.weight (5, 64) instead of (6, 64)"),
        ({"top__hidden": -1}, "Expected `int` >= 1 - at `$.top.hidden`"),
        ({"top__dropout": "half"}, "Expected `float`, got `str` - at `$.top.dropout`"),
        ({"top__head": "surprise"}, "head must be one of"),
        ({"top__head": "gaussian"}, "4 missing: top.head.code.weight"),
        ({"top__scaling": "raw"}, "2 unexpected: top.scaling"),
        ({"top__num_features": 65}, "65 features on a backbone of 64"),
        ({"top__surprise": 1}, "unknown field `surprise` - at `$.top`"),
        ({"backbone__surprise": 1}, "unknown field 'surprise' - at `$.backbone`"),
        ({"backbone": {}}, "missing required field `name` - at `$.backbone`"),
        ({"backbone__size": 10**9}, "size must be from 1 to 8192"),
        ({"backbone__size": 40.5}, "Expected `int`, got `float` - at `$.backbone.size`"),
        ({"backbone__std": [0]}, "std positive"),
        ({"backbone__name": "hf-hub:someone/model"}, "mean and std must have 3 numbers"),
        (
            {"backbone__name": TINY, "backbone__mean": [0, 0, 0], "backbone__std": [1, 1, 1]},
            "64 features on a backbone of 96",
        ),
        ({"backbone__options": {"checkpoint_path": "evil.pth"}}, "checkpoint_path"),
    ],
)
@pytest.mark.usefixtures("no_network")
def test_a_wrong_model_json_is_explained(saved: Path, changes: dict[str, Any], words: str) -> None:
    _rewrite(saved, **changes)
    message = refusal(load_classifier, saved)
    assert words in message
    assert str(saved) in message


def test_no_damaged_bit_of_a_model_changes_it(saved: Path) -> None:
    """It is refused, or it was only in the layout of the JSON."""
    _, card = load_classifier(saved)
    path = saved / "model.json"
    data, same = path.read_bytes(), 0
    for byte in range(len(data)):
        damaged = bytearray(data)
        damaged[byte] ^= 1 << byte % 8
        path.write_bytes(damaged)
        try:
            _, read = load_classifier(saved)
        except InputError:
            continue
        # Without the name of its field, the checksum is not found, as in a file of an earlier version.
        read = {key: value for key, value in read.items() if value != card["sha256"]}
        assert read == {key: value for key, value in card.items() if key != "sha256"}
        same += 1
    assert same < 20
    path.write_bytes(data)
    card["classes"] = ["a", "c"]
    path.write_text(json.dumps(card))
    assert refusal(load_classifier, saved) == (
        f"{path}: damaged: its content does not have the SHA-256 that it states; to keep a change of your "
        "own, remove the field sha256. Train again."
    )
    _rewrite(saved, classes=["a", "c"])
    assert load_classifier(saved)[1]["classes"] == ["a", "c"]


@pytest.mark.usefixtures("no_network")
def test_nan_in_the_weights_is_refused(saved: Path) -> None:
    set_weights(saved, **{"top.head.2.bias": torch.tensor([0.5, torch.nan])})
    assert refusal(load_classifier, saved) == (
        f"{saved / 'model.safetensors'}: holds NaN in top.head.2.bias, so predictions would be NaN. Train "
        "again."
    )
    set_weights(saved, **{"top.head.2.bias": torch.tensor([0.5, 1e38])})
    assert load_classifier(saved)[0].top.head[2].bias.tolist() == [0.5, torch.tensor(1e38)]


def load_with_little_memory(folder: Path, sizes: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Load a model with changed sizes, with 256 MiB more memory than the imports take."""
    import resource

    import timm  # noqa: F401 (imported before memory is little)

    card = json.loads((folder / "model.json").read_text())
    del card["sha256"]
    lines = Path("/proc/self/status").read_text().splitlines()
    size = 1024 * int(next(line for line in lines if line.startswith("VmSize")).split()[1])
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 28), size + (1 << 28)))
    for top, backbone in sizes:
        changed = {**card, "top": {**card["top"], **top}, "backbone": {**card["backbone"], **backbone}}
        (folder / "model.json").write_text(json.dumps(changed))
        try:
            load_classifier(folder)
        except InputError as error:
            print(error, flush=True)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory as Linux counts it")
def test_sizes_are_compared_before_memory_is_taken(saved: Path, tmp_path: Path) -> None:
    colour = {"mean": [0, 0, 0], "std": [1, 1, 1], "weights": "random"}
    space = {"scaling": "standard", "features": 10**8, "width": 1}
    member = {"space": 0, "head": "ridge", "penalty": 1, "score": 0.5, "weight": 1}
    ensemble = {"spaces": [space], "members": [member], "landmarks": 10**8, "start": ""}
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"num_features": 200_000_000}, {}, "a top for 200000000 features on a backbone of 64"),
        ({"hidden": 10**9}, {}, "3 of another shape: top.head.0.weight (5, 64) instead of (1000000000, 64)"),
        ({"head": "gaussian", "hidden": 10**9}, {}, "4 missing: top.head.code.weight"),
        ({"head": "ensemble", "ensemble": ensemble}, {}, "missing: top.head.weight"),
        (
            {"num_features": 2**24},
            {"name": "none", "size": 0, "width": 2**24, "mean": [], "std": []},
            "of another shape",
        ),
        (
            {"num_features": 768},
            {**colour, "name": "vit_base_patch16_224", "size": 8192},
            "missing: backbone",
        ),
        (
            {"num_features": 1664},
            {**colour, "name": "vit_gigantic_patch14_224", "size": 224},
            "missing: backbone",
        ),
    ]
    finish_function(load_with_little_memory, tmp_path / "said", saved, [case[:2] for case in cases])
    lines = (tmp_path / "said").read_text().splitlines()
    assert len(lines) == len(cases)
    for line, (*_, words) in zip(lines, cases, strict=True):
        assert line.startswith(str(saved))
        assert words in line
        assert line.endswith("Train again.")


def test_a_model_json_without_later_settings_has_their_defaults(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = ModelConfig()
    backbone = build_backbone(describe(config, GREY), config)
    classifier = Classifier(backbone, Top(64, 2)).eval()
    save_classifier(tmp_path, classifier, classifier.spec, {"classes": ["a", "b"]})
    _rewrite(tmp_path, top={"num_features": 64, "num_classes": 2})
    images = torch.randint(0, 256, (3, 1, 40, 40), dtype=torch.uint8)
    assert torch.equal(load_classifier(tmp_path)[0](images).logits, classifier(images).logits)


@pytest.mark.parametrize("file", ["model.json", "model.safetensors"])
def test_missing_and_damaged_files_are_named(saved: Path, file: str) -> None:
    path = saved / file
    data = path.read_bytes()
    for damaged in (data[: len(data) // 2], b"", bytes([data[0] ^ 1]) + data[1:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=file):
            load_classifier(saved)
    path.unlink()
    with pytest.raises(InputError, match=f"{file} is missing"):
        load_classifier(saved)


def test_frozen_parts_stay_as_they_are_in_training() -> None:
    torch.manual_seed(0)
    config = ModelConfig("resnet18", weights="random")
    backbone = build_backbone(describe(config, PHOTOS, size=64), config)
    for norm in backbone.parts("norms"):
        torch.nn.init.ones_(norm.get_parameter("weight"))  # some are 0, and nothing before them would learn
    classifier = Classifier(backbone, Top(512, 2, scaling="raw"), frozen_parts="norms, conv1,layer1")
    classifier.train()
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    parameters = [parameter for parameter in classifier.parameters() if parameter.requires_grad]
    classifier(photos()).logits.square().sum().backward()
    torch.optim.SGD(parameters, lr=0.1).step()
    changed = {
        name for name, value in classifier.state_dict().items() if not torch.equal(value, before[name])
    }
    names = {
        name for name in before if "conv" in name or name.startswith("top.head") or "downsample.0" in name
    }
    stem = ("backbone.network.conv1", "backbone.network.layer1")
    assert changed == {name for name in names if not name.startswith(stem)}
    assert len(changed) == 17  # 12 convolutions, 3 of shortcuts, the weight and the bias of the head
    assert classifier.backbone.network.get_submodule("layer2").training
    assert all(parameter.grad is None for parameter in classifier.parameters() if not parameter.requires_grad)


def test_norms_are_trained_unless_they_are_frozen() -> None:
    classifier = photo_classifier("linear").train()
    norm = classifier.backbone.network.get_submodule("layer4.1.bn2")
    before = norm.get_buffer("running_mean").clone()
    classifier(photos())
    assert not torch.equal(norm.get_buffer("running_mean"), before)


def test_a_part_that_does_not_exist_is_refused() -> None:
    backbone = photo_classifier("linear").backbone
    assert refusal(Classifier, backbone, Top(512, 2), frozen_parts="norms,layer9").startswith(
        "backbone resnet18 has no part 'layer9'. Did you mean layer"
    )


def test_an_error_of_the_disk_is_not_called_damage(tmp_path, monkeypatch):
    config = ModelConfig()
    backbone = build_backbone(describe(config, GREY), config)
    classifier = Classifier(backbone, Top(backbone.num_features, 2))
    save_classifier(tmp_path, classifier, backbone.spec, {"classes": ["a", "b"]})

    def fail(path):
        raise OSError(5, "Input/output error")

    for function in ("spml.models.classifier.sha256_file", "safetensors.torch.load_file"):
        with monkeypatch.context() as patch:
            patch.setattr(function, fail)
            with pytest.raises(InputError, match=r"can't be read \(Input/output error\)\. Check the disk"):
                load_classifier(tmp_path)
    load_classifier(tmp_path)
