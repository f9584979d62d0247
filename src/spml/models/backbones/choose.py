"""Choice of the backbone, and building it with the weights that it starts from."""

from __future__ import annotations

from torch import nn

from ...common.errors import InputError
from ...common.messages import log
from ...config import ModelConfig
from ...data.dataset import Inputs, Kind
from ...data.texts import Texts
from ..spec import HUGGING_FACE, LARGEST_SIZE, NONE, OWN, SENTENCES, SMALL_CNN, TFIDF, BackboneSpec, origin_of
from . import hugging_face, own, texts, timm_models
from .backbone import Backbone, SmallCNN


def describe_backbone(
    config: ModelConfig,
    kind: Kind,
    width: int,
    *,
    size: int = 0,
    source: str = "the data",
) -> BackboneSpec:
    """Determine the backbone that `config` chooses for data of this kind.

    Reads no weights, except to note the SHA-256 of those of a file, and downloads none but those of a
    repository of Hugging Face. `auto` is `none` for feature vectors, `tfidf` for texts, `small_cnn` for grey
    images and `resnet50` for colour images. A JSON file next to a weights file of a timm model, with the same
    name, may contain `timm_model` (the meaning of `auto`), `timm_kwargs`, `input_size`, `mean`, `std` and
    `interpolation`.

    Args:
        config: Settings of the user.
        kind: Kind of the samples.
        width: Length of the feature vectors, or number of colour channels of the images (3 for image files).
        size: Side of the images in pixels if the user chose it; 0 = the size the backbone was trained with.
        source: Name of the data in messages.

    Raises:
        InputError: The backbone is unknown or does not suit the data, the size is too large, the JSON file
            is damaged, or a network of the user's own was not passed.
    """
    if size > LARGEST_SIZE:
        raise InputError(f"data.size must be at most {LARGEST_SIZE} pixels, got {size}.")
    name = config.backbone
    origin = origin_of(name)
    if config.names:
        _check_names(config, kind, source)
        return hugging_face.describe(config, size)
    if kind == "text":
        return texts.describe(config, source)
    if origin in (TFIDF, SENTENCES):
        raise InputError(
            f"backbone {name!r} takes texts, but {source} holds {kind}s: name the columns of a table that "
            "hold texts (data.text title,abstract), or leave out model.backbone."
        )
    if kind == "feature":
        if name not in ("auto", NONE):
            advice = (
                "pass the features that it computes as data, or leave it out"
                if origin == OWN
                else "leave out model.backbone, or pass model.backbone=none"
            )
            raise InputError(f"backbone {name!r} takes images, but {source} holds feature vectors: {advice}.")
        return BackboneSpec(NONE, width=width)
    if name == NONE:
        raise InputError(
            f"backbone none takes feature vectors, but {source} holds images: leave out model.backbone, "
            "or pass the name of a timm model."
        )
    if origin == OWN:
        return own.needed(name).describe(config, size)
    if origin == HUGGING_FACE:
        return hugging_face.describe(config, size)
    of_file = config.weights not in ("pretrained", "random")
    if name == SMALL_CNN and of_file:
        raise InputError(
            f"small_cnn starts from random weights only, but model.weights is {config.weights}: leave it "
            "out, or pass the backbone of these weights to model.backbone."
        )
    if name == SMALL_CNN or (name == "auto" and width == 1 and not of_file):
        return BackboneSpec(SMALL_CNN, {}, size or 40, (0.25,) * width, (0.25,) * width, weights="random")
    return timm_models.describe(config, size)


def _check_names(config: ModelConfig, kind: Kind, source: str) -> None:
    """Check that a model that knows names can be the backbone."""
    if kind != "image":
        raise InputError(
            f"names={config.names}: its towers compare names with images, but {source} holds {kind}s: "
            "leave it out."
        )
    if config.backbone not in ("auto", f"{HUGGING_FACE}/{config.names}"):
        raise InputError(
            f"names={config.names}: its image tower is the backbone, but model.backbone is "
            f"{config.backbone}: leave out one of the two."
        )
    if config.weights != "pretrained":
        raise InputError(
            f"names={config.names}: the model has its weights inside, but model.weights is "
            f"{config.weights}: leave it out."
        )


def build_backbone(spec: BackboneSpec, config: ModelConfig, samples: Inputs | None = None) -> Backbone:
    """Build a backbone with its initial weights, on the CPU.

    Random weights are drawn from torch's global random state. Weights of a file must fit exactly; only those
    of its classifier are left out. Pretrained weights are timm's own, as safetensors files, those of a
    Hugging Face folder, or those of the network that the user passed.

    Args:
        spec: Description from `describe_backbone`.
        config: Settings of the model, with the path of the weights file.
        samples: Training samples, from which a backbone for texts takes its words.

    Raises:
        InputError: The weights can't be downloaded, are damaged or do not fit, or the backbone does not
            accept images of this size.
    """
    origin = origin_of(spec.name)
    if origin == OWN:
        network = own.needed(spec.name)
        backbone = network.build(spec, config.weights if spec.weights == "file" else "")
        log.info(network.line(spec, backbone.num_features))
        return backbone
    if origin == HUGGING_FACE:
        return hugging_face.build(spec)
    if isinstance(samples, Texts):
        return texts.build(spec, samples)
    if spec.weights in ("pretrained", "file"):
        return timm_models.build(spec, config)
    return create_backbone(spec)


def create_backbone(spec: BackboneSpec) -> Backbone:
    """Build a backbone with random weights, on the CPU. Needs no network access and no file.

    A network of the user's own is the one at hand, with its weights.

    Raises:
        InputError: The library does not know the model or is not installed, the model does not accept the
            options or the size, or a network of the user's own was not passed.
        ValueError: The description is damaged.
    """
    origin = origin_of(spec.name)
    if origin == NONE:
        return Backbone(spec, nn.Identity(), spec.width)
    if origin == SMALL_CNN:
        if spec.size < 8:
            raise InputError(
                f"small_cnn halves images three times: data.size must be at least 8, got {spec.size}."
            )
        return Backbone(spec, SmallCNN(len(spec.mean)), SmallCNN.num_features)
    if origin == OWN:
        return own.needed(spec.name).build(spec)
    if origin == HUGGING_FACE:
        return hugging_face.create(spec)
    if spec.kind == "text":
        return texts.create(spec)
    return timm_models.create(spec)
