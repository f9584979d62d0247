"""Embeddings of names of classes by the text tower of a CLIP or SigLIP model of transformers.

Only towers that transformers itself defines, with weights in safetensors files and the tokenizer of
tokenizer.json: others could contain programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ...common.errors import InputError, first_line
from ...config import ModelConfig
from ..backbones.hugging_face import (
    CLIP,
    PAIRS,
    SIGLIP,
    all_weights,
    architecture,
    config_class,
    filled,
    pair_of_towers,
    quiet,
    read_config,
    require_transformers,
    width_of,
)
from ..backbones.weights import CONFIG, TOKENIZER, Source
from .words import PLACE, read_as_names, read_prompts

_BATCH = 256
_ANY_END = 2  # configurations of old files state this for the end of a text, whatever it is


class NameEvidence(NamedTuple):
    """What a model knows of the names of classes.

    Attributes:
        names: Names of the classes as the text tower reads them; empty for a class without one.
        embeddings: Embedding of each, float32 (C, D), of length 1; 0 for a class without a name.
        temperature: Factor of the cosine of image and text in the logits that the model was trained with.
    """

    names: tuple[str, ...]
    embeddings: Tensor
    temperature: float


def read_name_evidence(
    config: ModelConfig, classes: Sequence[str], report: Callable[[str], None] = lambda line: None
) -> NameEvidence:
    """Embed the names of classes: for each the mean of the embeddings of all prompts, each of length 1.

    Args:
        config: Settings, of which `names`, `names_file` and `prompts` are used.
        classes: Names of the classes.
        report: Called with a line about names and prompts, and with remarks.

    Raises:
        InputError: Names, prompts, weights or tokenizer do not suit.

    Source:
        Radford et al. Learning Transferable Visual Models From Natural Language Supervision. ICML 2021.
    """
    prompts = read_prompts(config.prompts)
    names, remarks = read_as_names(classes, config.names_file)
    named = [row for row, name in enumerate(names) if name]
    texts = [prompt.replace(PLACE, names[row]) for row in named for prompt in prompts]
    embedded, temperature = embed_texts(Source(config.names, of_names=True), texts)
    means = functional.normalize(embedded, dim=1).view(len(named), len(prompts), -1).mean(1)
    embeddings = means.new_zeros(len(classes), means.shape[1])
    embeddings[named] = functional.normalize(means, dim=1)
    example = names[named[0]]
    report(
        f"names: {len(named)} of {len(classes)} classes are read by the text tower of {config.names}, in "
        f"{len(prompts)} prompt{'s' if len(prompts) > 1 else ''} such as "
        f"{prompts[0].replace(PLACE, example)!r}"
    )
    for remark in remarks:
        report(f"names: {remark}")
    return NameEvidence(tuple(names), embeddings, temperature)


@torch.no_grad()
def embed_texts(source: Source, texts: Sequence[str]) -> tuple[Tensor, float]:
    """Embed texts in the space of images.

    Args:
        source: Files of the model.
        texts: At least one text.

    Returns:
        Embeddings, float32 (n, D), of any length, and the temperature.

    Raises:
        InputError: A file is missing, damaged or of another kind of model.
    """
    transformers = require_transformers()
    path = source.path(CONFIG)
    content = pair_of_towers(path, read_config(path))
    kind = content["model_type"]
    described = {"model_type": f"{kind}_text_model", **content["text_config"]}
    try:
        kept = architecture(
            {**described, **(width_of(content) if kind == CLIP else {})},
            [f"{each}_text_model" for each in PAIRS],
        )
    except ValueError as error:
        raise InputError(f"{path}: text_config: {error}.") from error
    scale = all_weights(source).get("logit_scale")
    if scale is None or scale.numel() != 1 or not scale.isfinite().all():
        raise InputError(
            f"{source.weights()[0]}: lacks logit_scale, the temperature of a whole CLIP or SigLIP model. "
            "Save both towers together (CLIPModel.save_pretrained)."
        )
    try:
        with quiet():
            settings = config_class(kept.pop("model_type"))(**kept)
            model = getattr(transformers, PAIRS[kind])(settings)
    except Exception as error:  # checks of the library
        raise InputError(
            f"{path}: transformers can't build the text tower ({first_line(error)}). Save the model again."
        ) from error
    tower: Any = filled(model, source, f"the text tower of {source.name}").eval()
    ids = _tokens(source.path(TOKENIZER), settings, texts, fixed=kind == SIGLIP)
    name = "text_embeds" if kind == CLIP else "pooler_output"
    parts = [tower(input_ids=part)[name] for part in torch.split(ids, _BATCH)]
    return torch.cat(parts).float(), float(scale.float().exp())


def _tokens(path: Path, settings: Any, texts: Sequence[str], *, fixed: bool) -> Tensor:
    """Numbers of the tokens of texts, int64 (n, length).

    Args:
        path: Tokenizer.
        settings: Configuration of the text tower.
        texts: Texts; what is too long for the tower is cut off.
        fixed: Pad all texts to the length of the tower, with which SigLIP was trained. CLIP ignores padding.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
        length, pad = settings.max_position_embeddings, settings.pad_token_id or 0
        tokenizer.enable_truncation(length)
        tokenizer.enable_padding(pad_id=pad, length=length if fixed else None)
        ids = torch.tensor([each.ids for each in tokenizer.encode_batch([*texts])])
    except Exception as error:  # of the library, in Rust
        raise InputError(
            f"{path}: not a tokenizer that can be read ({first_line(error)}). Save it again "
            "(AutoTokenizer.from_pretrained(...).save_pretrained(FOLDER))."
        ) from error
    end = settings.eos_token_id
    wrong = ""
    if int(ids.max()) >= settings.vocab_size:
        wrong = f"has tokens beyond the {settings.vocab_size:,} of the text tower"
    elif not fixed and end != _ANY_END and not (ids == end).any(1).all():
        wrong = f"does not end texts with token {end}, where CLIP reads them"
    if wrong:
        raise InputError(f"{path}: {wrong}, so it is not the tokenizer of this model. Restore its own.")
    return ids
