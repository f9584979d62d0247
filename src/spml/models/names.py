"""Names of classes as evidence: words, and their embeddings by the text tower of a model that knows images
and language.

Only towers that transformers itself defines, with weights in safetensors files and the tokenizer of
tokenizer.json: others could contain programs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..common.errors import InputError, first_line, nearest
from ..common.messages import log
from ..common.phrases import counted, first_few
from ..common.safe import check_readable, quote
from ..config import ModelConfig
from ..data.rename import read_names
from .backbones.hugging_face import (
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
from .backbones.weights import CONFIG, TOKENIZER, Source

PLACE = "{}"
PROMPTS = (
    "a photo of a {}.", "a photo of the {}.", "a photo of one {}.", "a photo of many {}.",
    "a close-up photo of a {}.", "a blurry photo of a {}.", "a photo of a {} in a scene.",
    "a picture with a {} in it.",
)  # fmt: skip
"""Sentences that the name of a class is put into where the user gives none."""

_MOST_PROMPTS, _LONGEST_PROMPT = 1000, 1000
_NUMBER = re.compile(r"^\d+[._ -]+(?=\D)")  # in front of the names of folders, such as 001.Laysan_Albatross
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAPS = re.compile(r"[\s_./\\|+]+|(?<=\w)-(?=\w)")
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af]")  # a letter may be a word
_GENERAL = frozenset({"class", "label", "category", "tag", "cluster", "topic", "group", "type", "id", "no"})
_BATCH = 256
_ANY_END = 2  # configurations of old files state this for the end of a text, whatever it is


def readable(name: str) -> str:
    """The name of a class in words: without underscores, camel case and a number in front, in lower case.

    Empty for a code, which has no word: nothing of two letters without a digit, or only words such as
    `class`.

    Example:
        >>> [readable(name) for name in ("trafficLight", "001.Laysan_Albatross", "c07", "class_3")]
        ['traffic light', 'laysan albatross', '', '']
    """
    text = _GAPS.sub(" ", _CAMEL.sub(" ", _NUMBER.sub("", name.strip()))).lower().strip()
    return text if any(map(_is_word, text.split())) else ""


def _is_word(part: str) -> bool:
    if any(map(str.isdigit, part)) or part in _GENERAL:
        return False
    return sum(map(str.isalpha, part)) >= 2 or bool(_WITHOUT_BLANKS.search(part))


def read_as_names(classes: Sequence[str], file: str = "") -> tuple[list[str], list[str]]:
    """Names of classes as the text tower reads them.

    Args:
        classes: Names of the classes.
        file: CSV or TSV file with other names for some of them; an empty one leaves the class without a name.

    Returns:
        The names, empty for a class without one, and remarks for the user.

    Raises:
        InputError: The file is damaged or names a class that does not exist; two classes have the same name;
            or no class has a name.
    """
    stated = read_names(Path(file)) if file else {}
    for given in stated:
        if given not in classes:
            raise InputError(
                f"{file}: names the class {quote(given)}, which the data does not have. "
                f"{nearest(given, classes)}"
            )
    names = [stated.get(each, readable(each)) for each in classes]
    how = "model.names_file=FILE: rows of a class of the data and the name to read"
    codes = [
        quote(each) for each, name in zip(classes, names, strict=True) if not name and each not in stated
    ]
    if not any(names):
        raise InputError(
            f"`names`: no class has a name that a text tower could read ({first_few(codes, 3)}): give names "
            f"({how}), or leave out `names`."
        )
    before: dict[str, str] = {}
    for each, name in zip(classes, names, strict=True):
        if name and before.setdefault(name, each) != each:
            raise InputError(
                f"`names`: the classes {quote(before[name])} and {quote(each)} both read {quote(name)}, so "
                f"that names can't tell them apart: give one of them another name ({how})."
            )
    remarks = []
    if codes:
        remarks.append(
            f"{counted(len(codes), 'class has a code', 'classes have codes')} in place of a name "
            f"({first_few(codes, 3)}), so that their names say nothing; {how}"
        )
    if foreign := [quote(name) for name in names if not _is_latin(name)]:
        remarks.append(
            f"{counted(len(foreign), 'name is', 'names are')} not in Latin script ({first_few(foreign, 3)}), "
            f"which most text towers have not learned; {how}"
        )
    return names, remarks


def _is_latin(name: str) -> bool:
    return all(unicodedata.name(letter, "").startswith("LATIN") for letter in name if letter.isalpha())


def read_prompts(file: str = "") -> tuple[str, ...]:
    """Prompts of a text file, one per line, or the default ones.

    Raises:
        InputError: The file is missing, empty or too long, or a prompt has no place for the name.
    """
    if not file:
        return PROMPTS
    path = Path(file)
    check_readable(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text. Save the prompts as text, one per line.") from error
    prompts = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if line.count(PLACE) != 1 or len(line) > _LONGEST_PROMPT:
            raise InputError(
                f"{path}: line {number}: {quote(line[:60])} must have one place for the name, such as "
                f"'a photo of a {PLACE}.'"
            )
        prompts.append(line.strip())
    if not 0 < len(prompts) <= _MOST_PROMPTS:
        raise InputError(
            f"{path}: has {counted(len(prompts), 'prompt')}; expected 1 to {_MOST_PROMPTS}, one per line, "
            f"such as 'a photo of a {PLACE}.'"
        )
    return tuple(prompts)


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


def read_name_evidence(config: ModelConfig, classes: Sequence[str]) -> NameEvidence:
    """Embed the names of classes: for each the mean of the embeddings of all prompts, each of length 1.

    Args:
        config: Settings, of which `names`, `names_file` and `prompts` are used.
        classes: Names of the classes.

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
    log.info(
        f"names: {len(named)} of {len(classes)} classes are read by the text tower of {config.names}, in "
        f"{len(prompts)} prompt{'s' if len(prompts) > 1 else ''} such as "
        f"{prompts[0].replace(PLACE, example)!r}"
    )
    for remark in remarks:
        log.info(f"names: {remark}")
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
