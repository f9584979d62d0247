"""The towers of a model that knows images and language, against transformers itself."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from spml.common.errors import InputError
from spml.config import ModelConfig
from spml.models import build_backbone
from spml.models.backbones import create_backbone
from spml.models.names import read_name_evidence
from tests.helpers.clip import SIZE, make_clip, write_tokenizer
from tests.helpers.commands import refusal
from tests.helpers.networks import PHOTOS, describe

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

IMAGES = torch.randint(
    0, 256, (3, 3, SIZE, SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
PIXELS = IMAGES / 255 * 2 - 1


def features(output):
    """Versions of transformers return a tensor or an object."""
    return output if isinstance(output, torch.Tensor) else output.pooler_output


def backbone_of(folder, **settings):
    config = ModelConfig(names=str(folder), **settings)
    return build_backbone(describe(config, PHOTOS, 0), config).eval()


@pytest.fixture(params=["clip", "siglip"])
def kind(request):
    return request.param


def test_the_backbone_is_the_image_tower_in_the_space_of_texts(tmp_path, kind, no_network):
    model = make_clip(tmp_path / "model", kind)
    backbone = backbone_of(tmp_path / "model")
    with torch.inference_mode():
        expected = features(model.get_image_features(PIXELS))
        torch.testing.assert_close(backbone(IMAGES), expected, rtol=1e-4, atol=1e-5)
        again = create_backbone(backbone.spec).eval()
        again.load_state_dict(backbone.state_dict())
        torch.testing.assert_close(again(IMAGES), expected, rtol=1e-4, atol=1e-5)
    assert backbone.spec.name == f"hf/{tmp_path / 'model'}"
    assert backbone.num_features == {"clip": 8, "siglip": 16}[kind]
    assert backbone.spec.architecture["features"] == {"clip": "image_embeds", "siglip": "pooler_output"}[kind]
    assert not any("text" in name for name in backbone.state_dict())
    with torch.device("meta"):
        assert [*create_backbone(backbone.spec).state_dict()] == [*backbone.state_dict()]


def test_embeddings_are_those_of_transformers(tmp_path, kind, no_network, lines):
    model = make_clip(tmp_path / "model", kind, temperature=30.0)
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a photo of a {}.\nthe {}\n")
    config = ModelConfig(names=str(tmp_path / "model"), prompts=str(prompts))
    evidence = read_name_evidence(config, ["red", "c07", "Traffic_Light"])
    assert evidence.names == ("red", "", "traffic light")
    assert evidence.temperature == pytest.approx(30.0)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "model" / "tokenizer.json"), pad_token="<pad>"
    )
    for row, name in ((0, "red"), (2, "traffic light")):
        padding = {"padding": "max_length", "max_length": 12} if kind == "siglip" else {"padding": True}
        ids = tokenizer([f"a photo of a {name}.", f"the {name}"], return_tensors="pt", **padding).input_ids
        with torch.inference_mode():
            texts = functional.normalize(features(model.get_text_features(input_ids=ids)), dim=1)
        torch.testing.assert_close(
            evidence.embeddings[row], functional.normalize(texts.mean(0), dim=0), rtol=1e-4, atol=1e-5
        )
    assert not evidence.embeddings[1].any()
    assert lines[0].startswith("names: 2 of 3 classes are read by the text tower of ")
    assert lines[0].endswith("in 2 prompts such as 'a photo of a red.'")
    assert "1 class has a code" in lines[1]


def test_long_names_are_cut_off_before_the_end(tmp_path):
    make_clip(tmp_path / "model")
    evidence = read_name_evidence(ModelConfig(names=str(tmp_path / "model")), ["red " * 40])
    assert evidence.embeddings.isfinite().all()


def change(path, **settings):
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **settings}))


def rewrite(folder, without="nothing", **more):
    """Leave out the weights that have a word in their names, and add others."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    path.unlink()
    kept = {name: value for name, value in weights.items() if without not in name}
    save_file({**kept, **more}, path)


def huge(folder):
    content = json.loads((folder / "config.json").read_text())["text_config"]
    change(folder / "config.json", text_config={**content, "vocab_size": 1 << 30})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "tokenizer.json").unlink(),
            "tokenizer.json is missing. Save the tokenizer",
        ),
        (
            lambda folder: (folder / "tokenizer.json").write_text("{}"),
            "tokenizer.json: not a tokenizer that can be read",
        ),
        (
            lambda folder: write_tokenizer(folder, tuple(f"word{row}" for row in range(99))),
            "has tokens beyond the 17 of the text tower, so it is not the tokenizer of this",
        ),
        (
            lambda folder: write_tokenizer(folder, end=False),
            "does not end texts with token 16, where CLIP reads them",
        ),
        (
            lambda folder: rewrite(folder, "logit_scale"),
            "lacks logit_scale, the temperature of a whole CLIP or SigLIP model",
        ),
        (lambda folder: rewrite(folder, logit_scale=torch.tensor(torch.nan)), "lacks logit_scale"),
        (lambda folder: change(folder / "config.json", model_type=[]), "model_type is []"),
        (lambda folder: rewrite(folder, "text_model"), "these weights do not fit the text tower of"),
        (
            lambda folder: change(folder / "config.json", text_config=None),
            "names of classes are scored by a whole CLIP or SigLIP model",
        ),
        (huge, "text_config: vocab_size is 1.07374e+09, which no encoder has"),
    ],
)
def test_damaged_models(tmp_path, damage, message):
    make_clip(tmp_path / "model")
    damage(tmp_path / "model")
    assert message in refusal(read_name_evidence, ModelConfig(names=str(tmp_path / "model")), ["red", "blue"])


def test_a_model_of_another_kind(tmp_path):
    vision = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=16
    )
    vision.save_pretrained(tmp_path)
    assert "model_type is 'vit', but names of classes are scored by a whole CLIP or SigLIP" in refusal(
        backbone_of, tmp_path
    )


def test_weights_that_could_contain_programs_are_not_opened(tmp_path):
    make_clip(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").rename(tmp_path / "model" / "pytorch_model.bin")
    message = refusal(backbone_of, tmp_path / "model")
    assert "model.safetensors is missing" in message
    assert "can contain programs" in message


def test_without_a_network_the_command_that_fetches_it_is_named(no_network):
    message = refusal(backbone_of, "openai/clip-vit-base-patch16")
    assert "hf download openai/clip-vit-base-patch16" in message
    assert "names=FOLDER" in message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone": "resnet50"}, "its image tower is the backbone, but model.backbone is resnet50"),
        ({"weights": "random"}, "the model has its weights inside, but model.weights is random"),
    ],
)
def test_settings_that_do_not_go_together(tmp_path, settings, message):
    assert message in refusal(backbone_of, tmp_path, **settings)


def test_a_folder_that_does_not_exist():
    with pytest.raises(InputError, match=r"^names=nowhere: no such folder\. Name one with config\.json"):
        backbone_of("nowhere")
