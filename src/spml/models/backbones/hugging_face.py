"""Image encoders of the library transformers, from a folder or from the Hugging Face hub.

Only encoders that transformers itself defines, by an own list, and only the settings of their architecture
are read from config.json: others make transformers load code, packages or files from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...common.documents import load_json
from ...common.errors import InputError, missing_extra
from ...common.files import sha256_file
from ...common.messages import log
from ...config import ModelConfig
from ..spec import HUGGING_FACE, BackboneSpec
from .backbone import POOLED, WAYS, Backbone, inspect_network
from .preparation import DEFAULT, Preparation, read_processor
from .weights import CONFIG, PROCESSOR, WEIGHTS, Source, read_weights

ENCODERS = (
    "aimv2_vision_model", "beit", "clip_vision_model", "convnext", "convnextv2", "data2vec-vision",
    "deit", "dinov2", "dinov2_with_registers", "dinov3_convnext", "dinov3_vit", "efficientnet", "focalnet",
    "hiera", "ijepa", "levit", "mobilenet_v1", "mobilenet_v2", "mobilevit", "poolformer", "pvt_v2", "regnet",
    "resnet", "siglip_vision_model", "swin", "swinv2", "vit", "vit_msn",
)  # fmt: skip
"""Types of networks that are built. Each maps pixels to tokens or maps, without chance in evaluation."""

_OF_ONE_SIZE = (
    "aimv2_vision_model", "beit", "clip_vision_model", "data2vec-vision", "deit", "ijepa",
    "siglip_vision_model", "vit", "vit_msn",
)  # fmt: skip
"""Those whose position embeddings are made for the size in the configuration alone."""

_REFUSED = (
    "auto_map", "attn_implementation", "quantization_config", "compression_config", "dtype", "torch_dtype",
    "backbone", "backbone_config", "backbone_kwargs", "use_timm_backbone", "use_pretrained_backbone",
    "architectures", "id2label", "label2id", "num_labels", "problem_type", "transformers_version",
    "name_or_path", "output_attentions", "output_hidden_states", "return_dict", "torchscript",
    "chunk_size_feed_forward", "is_encoder_decoder", "gradient_checkpointing",
)  # fmt: skip
"""Settings that are no part of the architecture, some of which load something."""

CLIP, SIGLIP = "clip", "siglip"
PAIRS = {CLIP: "CLIPTextModelWithProjection", SIGLIP: "SiglipTextModel"}
"""Types of networks with towers for images and for texts, and the classes of their text towers."""

PROJECTED = "projected"
"""Whether features are projected to the space of texts, in the architecture of a backbone."""

_LARGEST, _MOST_LAYERS, _MOST_ENTRIES, _MOST_WORDS = 1 << 16, 512, 64, 1 << 20
_SAVE_AGAIN = "Save it again (save_pretrained)."


def describe(config: ModelConfig, size: int) -> BackboneSpec:
    """Describe the network in a folder, or of a repository of the hub.

    Args:
        config: Settings; `backbone` is `hf/FOLDER` or `hf/OWNER/NAME`, `weights` is `pretrained` or `random`.
        size: Side of the images in pixels; 0 = as the folder says.

    Raises:
        InputError: transformers is not installed, a file is missing, damaged or not of a known image encoder.
    """
    require_transformers()
    if config.weights not in ("pretrained", "random"):
        raise InputError(
            f"model.weights={config.weights}: a Hugging Face folder has its weights inside ({WEIGHTS}): "
            "leave it out, or pass random."
        )
    name = config.names or config.backbone.removeprefix(f"{HUGGING_FACE}/")
    backbone = f"{HUGGING_FACE}/{name}"
    source = Source(name, of_names=bool(config.names))
    if source.folder is None:
        log.info(
            f"{backbone}: no such folder, so its files are those of huggingface.co/{name}, downloaded "
            "once (Hugging Face cache)"
        )
    path = source.path(CONFIG)
    content = read_config(path)
    projected = config.names and pair_of_towers(path, content)["model_type"] == CLIP
    if isinstance(content.get("vision_config"), dict):  # of a pair of encoders for images and texts
        content = {**content["vision_config"], **(width_of(content) if projected else {})}
    try:
        kept = architecture(content)
    except ValueError as error:
        raise InputError(f"{path}: {error}.") from error
    sha256 = ""
    if config.weights == "pretrained":
        sums = [sha256_file(file) for file in source.weights()]
        sha256 = sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()
    prepared, described = _preparation(source, content), dict[str, Any](config=kept)
    if projected:
        described[PROJECTED] = True
    return prepared.spec(backbone, config.weights, size, sha256=sha256, architecture=described)


def width_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The width that both towers of CLIP are projected to, which the whole configuration states."""
    return {"projection_dim": content.get("projection_dim", 512)}


def read_config(path: Path) -> dict[str, Any]:
    """Content of a config.json."""
    return load_json(path, dict[str, Any], advice=_SAVE_AGAIN)


def pair_of_towers(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """The content of a config.json, which must be that of a network with towers for images and for texts.

    Raises:
        InputError: It is that of another network.
    """
    kind = content.get("model_type")
    if kind in [*PAIRS] and all(
        isinstance(content.get(f"{part}_config"), dict) for part in ("vision", "text")
    ):
        return content
    raise InputError(
        f"{path}: model_type is {kind!r}, but names of classes are scored by a whole CLIP or SigLIP model, "
        f"with towers for images and for texts ({', '.join(PAIRS)}). Name one (names=MODEL), or use this "
        f"network without names (backbone={HUGGING_FACE}/...)."
    )


def build(spec: BackboneSpec) -> Backbone:
    """Build a network with the weights that it starts from. Its description says how features are read.

    Raises:
        InputError: The weights are missing, damaged or do not fit, or the network does not take images of
            this size.
    """
    source = Source(spec.name.removeprefix(f"{HUGGING_FACE}/"))
    model = _empty(spec)
    if spec.weights == "pretrained":
        model = filled(model, source, spec.name)
    way, width = inspect_network(model, spec.name, len(spec.mean), spec.size)
    prepared = _preparation(source, spec.architecture["config"])
    log.info(
        f"backbone {spec.name}: {type(model).__name__}, {width} features ({way}); "
        f"{prepared._replace(size=spec.size).describe()}"
    )
    complete = replace(spec, architecture={**spec.architecture, "features": way, "num_features": width})
    return Backbone(complete, model, width, way=way)


def create(spec: BackboneSpec) -> Backbone:
    """Create a network with random weights from a description that `build` completed. Opens no file.

    Raises:
        InputError: transformers is not installed or does not know the network.
        ValueError: The description is damaged.
    """
    way, width = spec.architecture.get("features"), spec.architecture.get("num_features")
    if way not in WAYS or not isinstance(width, int) or not 0 < width <= _LARGEST:
        raise ValueError(f"architecture: features {way!r}, num_features {width!r}")
    model = _empty(spec)
    if way != POOLED:
        _remove_random_pooler(model)
    return Backbone(spec, model, width, way=way)


def architecture(config: Mapping[str, Any], known: Sequence[str] = ENCODERS) -> dict[str, Any]:
    """The settings of config.json on which the architecture depends; `known` are the types that are built.

    Raises:
        ValueError: The network is none that is built here, or a setting is of an impossible size.
        InputError: transformers is not installed, or too old for the network.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(
            f"model_type is {kind!r}, which is not among the {'image' if known is ENCODERS else 'text'} "
            f"encoders that are read ({', '.join(known)}); another network of transformers can be passed in "
            "Python (backbone=module, transform=processor)"
        )
    defaults = config_class(kind)().to_dict()
    allowed = {name for name in defaults if not name.startswith("_")} - {*_REFUSED}
    kept = {name: value for name, value in config.items() if name in allowed}
    for name, value in kept.items():
        _check_value(name, value)
    return {**kept, "model_type": kind}


def _check_value(name: str, value: Any) -> None:
    """Refuse values that would take unbounded time or memory before shapes of weights are compared."""
    values = value if isinstance(value, list) else [value]
    if len(values) > _MOST_ENTRIES:
        raise ValueError(f"{name} has {len(values)} entries, more than {_MOST_ENTRIES}")
    layers = name in ("num_hidden_layers", "depths", "num_blocks", "num_block_repeats")
    for each in values:
        if isinstance(each, list):
            _check_value(name, each)
        elif isinstance(each, Mapping):
            raise ValueError(f"{name} holds settings by name, which are not read")
        elif isinstance(each, (int, float)):
            of_words = name == "vocab_size" or name.endswith("_token_id")
            if not abs(each) <= (_MOST_LAYERS if layers else _MOST_WORDS if of_words else _LARGEST):
                raise ValueError(f"{name} is {each:g}, which no encoder has")


def _empty(spec: BackboneSpec) -> nn.Module:
    """Create the network with random weights."""
    transformers = require_transformers()
    kept = architecture(spec.architecture.get("config", {}))
    settings = {name: value for name, value in kept.items() if name != "model_type"}
    if isinstance(settings.get("image_size"), int) and kept["model_type"] in _OF_ONE_SIZE:
        settings["image_size"] = spec.size
    try:
        # Never code from elsewhere; `architecture` has left out what names such code.
        with _RatesInMemory():
            config = config_class(kept["model_type"])(**settings)
            model: nn.Module = (
                transformers.CLIPVisionModelWithProjection(config)
                if spec.architecture.get(PROJECTED)
                else transformers.AutoModel.from_config(config, trust_remote_code=False)
            )
    except (InputError, RuntimeError):  # a RuntimeError may come from the device without memory
        raise
    except Exception as error:  # checks of the library
        raise InputError(
            f"backbone {spec.name}: transformers can't build it ({type(error).__name__}: {error}). Check its "
            f"{CONFIG}."
        ) from error
    return model.float()


def all_weights(source: Source) -> dict[str, Tensor]:
    """Weights of all files of a network."""
    tensors: dict[str, Tensor] = {}
    for path in source.weights():
        tensors |= read_weights(path)
    return tensors


def filled(model: Any, source: Source, name: str) -> nn.Module:
    """The network `name` with the weights of its folder, with the names that transformers gives them.

    Raises:
        InputError: Weights are missing or do not fit. Without those of the pooler alone, it has none.
    """
    tensors = all_weights(source)
    what = f"{source.weights()[0]}: these weights do not fit {name}"
    try:
        with quiet():
            # Told apart below from weights that are missing, which the library would draw at random.
            filled, told = model.from_pretrained(
                None,
                config=model.config,
                state_dict=tensors,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except Exception as error:  # checks of the library
        text = " ".join(str(error).split())[:300]
        raise InputError(f"{what} ({type(error).__name__}: {text}). Save it again.") from error
    shapes = [
        f"{name} {tuple(found)} instead of {tuple(expected)}"
        for name, found, expected in told["mismatched_keys"]
    ]
    # Some versions of transformers name weights as in the file of a classifier.
    names = sorted(name.removeprefix(f"{model.base_model_prefix}.") for name in told["missing_keys"])
    missing = [name for name in names if not name.startswith("pooler.")]
    for wrong, label, advice in (
        (shapes, "of another shape", "Leave out data.size, or save it again."),
        (missing, "missing", _SAVE_AGAIN),
    ):
        if wrong:
            raise InputError(f"{what} ({len(wrong)} {label}: {', '.join(wrong[:3])}). {advice}")
    if names:
        _remove_random_pooler(filled)
    network: nn.Module = filled.float()
    return network


class _RatesInMemory(TorchFunctionMode):
    """Compute rates of layers, which some networks read back while they are built, on the CPU.

    On a device without memory, where shapes of weights are found out, they could not be read.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **{**(kwargs or {}), **({"device": "cpu"} if func is torch.linspace else {})})


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from printing its report on weights, which is checked here, and a progress bar."""
    logging = require_transformers().utils.logging
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def _remove_random_pooler(model: nn.Module) -> None:
    if any(True for _ in getattr(getattr(model, "pooler", None), "parameters", list)()):
        model.pooler = None  # type: ignore[assignment]


def _preparation(source: Source, config: Mapping[str, Any]) -> Preparation:
    """Preparation of images, as preprocessor_config.json says, or else by default at the network's size."""
    size = config.get("image_size")
    default = DEFAULT._replace(size=size if isinstance(size, int) else DEFAULT.size)
    if not source.has(PROCESSOR):
        return default
    content = load_json(source.path(PROCESSOR), dict[str, Any], advice=_SAVE_AGAIN)
    return read_processor(content, PROCESSOR, default)


def config_class(kind: str) -> Any:
    """The class of the configuration of a type of network."""
    transformers = require_transformers()
    if kind not in transformers.CONFIG_MAPPING:
        raise InputError(
            f"transformers {transformers.__version__} does not know {kind}: install a newer one "
            "(pip install -U transformers)."
        )
    return transformers.CONFIG_MAPPING[kind]


def require_transformers() -> Any:
    """The library transformers."""
    try:
        import transformers
    except ImportError as error:
        raise missing_extra("transformers", "transformers") from error
    return transformers
