"""Small CLIP and SigLIP models with weights by hand, in the format of the Hugging Face hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from spml.models.names import PROMPTS

SIZE = 16
_LAYERS = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
COLOURS = {"blue": (0.2, 0.2, 0.6), "green": (0.2, 0.6, 0.2), "red": (0.6, 0.2, 0.2)}
WORDS = ("a", "photo", "of", "picture", "the", *COLOURS, "cat", "traffic", "light", "dog", ".")


def write_tokenizer(folder: Path, words: tuple[str, ...] = WORDS, *, end: bool = True) -> int:
    """Write a tokenizer of words. Returns the number of tokens: padding, beginning, unknown, words, end."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokens = ["<pad>", "<s>", "<unk>", *words, "</s>"]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(tokens)}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if end else "<s> $A", special_tokens=[("<s>", 1), ("</s>", len(tokens) - 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return len(tokens)


def make_clip(folder: Path, kind: str = "clip", *, temperature: float = 20.0) -> Any:
    """Write a CLIP or SigLIP model of random weights, whose text tower of CLIP is fitted to the colours."""
    import transformers

    folder.mkdir(parents=True)
    tokens = write_tokenizer(folder)
    text = {
        **_LAYERS, "hidden_size": 32, "vocab_size": tokens, "max_position_embeddings": 12,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": tokens - 1,
    }  # fmt: skip
    vision = {**_LAYERS, "image_size": SIZE, "patch_size": 8}
    torch.manual_seed(0)
    if kind == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
        model = transformers.CLIPModel(config).eval()
        _teach(model, folder)
    else:
        config = transformers.SiglipConfig(text_config={**text, "projection_size": 16}, vision_config=vision)
        model = transformers.SiglipModel(config).eval()
    with torch.no_grad():
        model.logit_scale.fill_(torch.tensor(temperature).log())
    model.save_pretrained(folder, safe_serialization=True)
    sides = {"height": SIZE, "width": SIZE}
    processor = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2, "size": sides}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return model


def colour_images(count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (N, 16, 16, 3) of one or two colours side by side under noise, and their labels (N, 3)."""
    images, labels = np.zeros((count, SIZE, SIZE, 3)), np.zeros((count, len(COLOURS)), np.bool_)
    for image, own in zip(images, labels, strict=True):
        some = generator.permutation(len(COLOURS))[: generator.integers(1, 3)]
        own[some] = True
        for part, column in zip(np.array_split(np.arange(SIZE), len(some)), some, strict=True):
            image[:, part] = [*COLOURS.values()][column]
    noisy = 255 * images + generator.normal(0, 60, images.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), labels


@torch.no_grad()
def _teach(model: Any, folder: Path) -> None:
    """Map the text of each colour to the direction in which images that have it lie."""
    images, labels = colour_images(600, np.random.default_rng(5))
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2) / 255 * 2 - 1
    embedded = model.get_image_features(pixels)
    embedded = functional.normalize(getattr(embedded, "pooler_output", embedded), dim=1)
    centred = torch.from_numpy(labels).float() - labels.mean(0).astype("float32")
    directions = torch.linalg.lstsq(embedded - embedded.mean(0), centred).solution.T
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=0)
    texts = [prompt.replace("{}", colour) for prompt in PROMPTS for colour in COLOURS]
    ids = torch.tensor([each.ids for each in tokenizer.encode_batch(texts)])
    pooled = model.text_model(ids).pooler_output
    wanted = functional.normalize(directions, dim=1).repeat(len(PROMPTS), 1)
    model.text_projection.weight.copy_(torch.linalg.lstsq(pooled, wanted).solution.T)
