"""Scores of names of classes as a network: how well an image and the text of each name agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

NAMES: Final = "names"
NAMES_SOFTMAX: Final = "names_softmax"
NAME_FORMS = (NAMES, NAMES_SOFTMAX)

_SHORTEST = 1e-12
_SMALLEST_SPREAD = 1e-6  # of cosines


def score_names(form: str, cosines: Tensor, named: Tensor, temperature: Tensor) -> Tensor:
    """Make the cosines of an image with all names comparable to those of other images.

    The cosine of an image with any text depends on the image more than on the text. With mean m and standard
    deviation s over the named classes: `names` = (cosine - m) / s; `names_softmax` = the logarithm of the
    softmax of temperature * cosine over the named classes.

    Args:
        form: `names` or `names_softmax`.
        cosines: Cosines (B, C) of images and names.
        named: Whether each class has a name, bool (C,), at least one.
        temperature: Factor with which the model was trained, scalar.

    Returns:
        Scores (B, C), 0 for classes without a name.

    Source:
        Standardisation over prompts: Miller et al. SPARC: Score Prompting and Adaptive Fusion for Zero-Shot
        Multi-Label Recognition in Vision-Language Models. CVPR 2025. There it follows a standardisation over
        images, which the sum of all members does here.
    """
    if form == NAMES_SOFTMAX:
        scores = functional.log_softmax((temperature * cosines).masked_fill(~named, -torch.inf), 1)
    else:
        count = named.sum()
        mean = (cosines * named).sum(1, keepdim=True) / count
        centred = cosines - mean
        variance = (centred.square() * named).sum(1, keepdim=True) / count
        scores = centred / variance.sqrt().clamp_min(_SMALLEST_SPREAD)
    return scores.masked_fill(~named, 0.0)


class NameScores(nn.Module):
    """Scores of the names of classes for images, by `score_names`.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        form: `names` or `names_softmax`.

    Attributes:
        texts: Embedding of each name, of length 1, float32 (C, D); 0 for a class without one.
        temperature: Factor of the cosines, float32 scalar.
    """

    texts: Tensor
    temperature: Tensor

    def __init__(self, num_features: int, num_classes: int, form: str) -> None:
        super().__init__()
        self.form = form
        self.register_buffer("texts", torch.zeros(num_classes, num_features))
        self.register_buffer("temperature", torch.ones(()))

    @classmethod
    def of_texts(cls, texts: Tensor, temperature: float, form: str) -> NameScores:
        """Scores of names with these embeddings (C, D)."""
        scores = cls(texts.shape[1], texts.shape[0], form)
        scores.texts.copy_(texts)
        scores.temperature.fill_(temperature)
        return scores

    @torch.no_grad()
    def probabilities(self, batches: Iterable[Tensor]) -> Tensor:
        """Softmax over the names (N, C) of images whose features (B, D) are given in batches, on the CPU; 0
        for classes without a name."""
        scores = torch.cat([self(batch.float()).cpu() for batch in batches])
        return scores.exp() * self.named.cpu()

    @property
    def named(self) -> Tensor:
        """Whether each class has a name, bool (C,)."""
        return self.texts.any(1)

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores (B, C) of images with these features (B, D)."""
        cosines = functional.normalize(features, dim=1, eps=_SHORTEST) @ self.texts.T
        return score_names(self.form, cosines, self.named, self.temperature)
