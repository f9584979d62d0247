"""Scores of names of classes as a network: how well an image and the text of each name agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .linear import LDA, Solver
from .moments import Columns, MomentSum, batch_rows

NAMES: Final = "names"
NAMES_SOFTMAX: Final = "names_softmax"
NAMES_LDA: Final = "names_lda"
NAME_FORMS = (NAMES, NAMES_SOFTMAX, NAMES_LDA)

MOST_WINDOWS = 100_000
"""Largest number of windows that `fit_names` is given: 400 MB of 1,000 features."""

LEAST_PER_NAME = 20
"""Windows per class from which on names are fitted to them: with fewer, LDA has less than five of each class
(benchmarks/results/names.md)."""

_SUREST = 0.25  # share of all windows that are used, the same number of each class
_FEWEST = 2  # windows of a class
_PENALTY = 5.0  # in units of the mean variance: large, since a class may have five windows
_SHORTEST = 1e-12
_SMALLEST_SPREAD = 1e-6  # of cosines


class NameScores(nn.Module):
    """Scores of the names of classes for images, from the cosines of an image with all names.

    The cosine of an image with any text depends on the image more than on the text. With mean m and standard
    deviation s over the named classes: `names` = (cosine - m) / s; `names_softmax` = the logarithm of the
    softmax of temperature * cosine over the named classes. Of `names_lda`, the cosines are outputs of LDA, of
    which the logarithm of the softmax is taken.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        form: `names`, `names_softmax` or `names_lda`.

    Attributes:
        texts: Embedding of each name, of length 1, float32 (C, D); 0 for a class without one. Of `names_lda`,
            weights of LDA in place of the embeddings.
        bias: Bias of LDA, float32 (C,); None of the other forms.
        temperature: Factor of the cosines, float32 scalar.

    Source:
        Standardisation over prompts: Miller et al. SPARC: Score Prompting and Adaptive Fusion for Zero-Shot
        Multi-Label Recognition in Vision-Language Models. CVPR 2025. There it follows a standardisation over
        images, which the sum of all members does here.
    """

    texts: Tensor
    bias: Tensor | None
    temperature: Tensor

    def __init__(self, num_features: int, num_classes: int, form: str) -> None:
        super().__init__()
        self.form = form
        self.register_buffer("texts", torch.zeros(num_classes, num_features))
        self.register_buffer("bias", torch.zeros(num_classes) if form == NAMES_LDA else None)
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
        """Return the scores (B, C) of images with these features (B, D); 0 for classes without a name."""
        cosines, named = _of_length_1(features) @ self.texts.T, self.named
        if self.bias is not None:
            cosines = cosines + self.bias
        if self.form != NAMES:
            scores = functional.log_softmax((self.temperature * cosines).masked_fill(~named, -torch.inf), 1)
        else:
            count = named.sum()
            mean = (cosines * named).sum(1, keepdim=True) / count
            centred = cosines - mean
            variance = (centred.square() * named).sum(1, keepdim=True) / count
            scores = centred / variance.sqrt().clamp_min(_SMALLEST_SPREAD)
        return scores.masked_fill(~named, 0.0)


def _of_length_1(features: Tensor) -> Tensor:
    return functional.normalize(features, dim=1, eps=_SHORTEST)


@torch.no_grad()
def fit_names(names: NameScores, windows: Tensor) -> NameScores:
    """Fit the names to images: LDA on the windows of which each name is surest. No label is used.

    Images and texts of a class lie apart in the space of the model. So a window of the class tells more about
    its other windows than its name does. Of n = N / (4 C) windows for each of C named classes, those whose
    softmax over the names has the least entropy among those where the name of the class is the most
    probable; a name that is hardly ever the most probable one takes the two windows where it is most so. On
    these, LDA with one covariance for all classes is solved as in `ClosedForm`, with penalty 5.

    Args:
        names: Scores of the names, in the form `names_softmax`.
        windows: Features (N, D) of images, or of windows of images, float32.

    Source:
        Wang et al. [CLS] is Not Enough: Multi-Label Recognition via Patch-Level Inference and Adaptive
        Aggregation. ICML 2026, its second step (visual classifier). There the windows are patches of the last
        layer; share and penalty are ours.
    """
    log_p = torch.cat([names(part) for part in torch.split(windows, batch_rows(windows.shape[1]))])
    log_p.masked_fill_(~names.named, -torch.inf)
    terms = log_p.exp() * log_p
    uncertainty, surest = -terms.nan_to_num_(0.0).sum(1), log_p.argmax(1)
    named = torch.nonzero(names.named)[:, 0].tolist()
    most = max(_FEWEST, int(_SUREST * len(windows) / len(named)))
    rows, columns = [], []
    for column in named:
        own = torch.nonzero(surest == column)[:, 0]
        own = own[uncertainty[own].argsort(stable=True)[:most]]
        if len(own) < _FEWEST:
            own = log_p[:, column].argsort(descending=True, stable=True)[:_FEWEST]
        rows.append(own)
        columns += [column] * len(own)
    used, positions = np.unique(torch.cat(rows).numpy(), return_inverse=True)
    total = MomentSum(windows.shape[1], Columns(len(names.texts)), len(used))
    total.add(_of_length_1(windows[torch.from_numpy(used)]), (positions, np.asarray(columns)))
    layer = nn.Linear(windows.shape[1], len(names.texts))
    Solver(total.moments()).fill(layer, LDA, _PENALTY)
    fitted = NameScores.of_texts(layer.weight * names.named[:, None], 1.0, NAMES_LDA)
    assert fitted.bias is not None
    fitted.bias.copy_(layer.bias)
    return fitted
