"""LAC: PLC, then a label-aware contrast of embeddings (Xie et al. 2022)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ..losses import an_loss, lac_loss, plc_loss
from ..losses._core.domains import check_choice, check_positive, check_share, check_whole
from ..losses._core.evaluate import upcast
from ..losses._core.rows import by_label
from .base import Batch, Card, Needs, Objective, Outputs, Progress
from .registry import register

Overwritten = Literal["oldest", "released"]


class PairQueue(nn.Module):
    """The last entries, each a class with its embeddings in two views.

    Args:
        size: Number Q of entries that are kept; more new ones than these push each other out.
        width: Elements E of an embedding.
        overwrites: Which entries new ones replace: the `oldest`, or those from the start again as soon as the
            rest of the queue is too short for them, as in the `released` code.

    Attributes:
        pairs: Embeddings, float32 of shape (Q, 2, E).
        classes: Class of each entry, int64 of shape (Q,); -1 = empty.
        end: Row after the last one that was written, int64 of shape ().
    """

    pairs: Tensor
    classes: Tensor
    end: Tensor

    def __init__(self, size: int, width: int, overwrites: Overwritten) -> None:
        super().__init__()
        self.size, self.restarts = size, overwrites == "released"
        self.register_buffer("pairs", torch.zeros(size, 2, width))
        self.register_buffer("classes", torch.full((size,), -1))
        self.register_buffer("end", torch.zeros((), dtype=torch.long))

    def with_new(self, pairs: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what `pairs`, `classes` and `end` are with new entries; the queue stays as it is.

        Args:
            pairs: Embeddings of the new entries, (n, 2, E); they keep their gradient, old ones have none.
            classes: Their classes, int64 of shape (n,); -1 is no entry.
        """
        entry = classes >= 0
        number = entry.cumsum(0) - 1
        surplus = (entry.sum() - self.size).clamp(min=0)
        count = entry.sum() - surplus
        start = self.end % self.size
        if self.restarts:
            start = torch.where(self.end + count >= self.size, 0, self.end)
        # What is no entry, or pushed out, goes to a further row, so that no shape depends on values.
        row = (start + number - surplus) % self.size
        rows = torch.where(entry & (number >= surplus), row, self.size)

        def put(kept: Tensor, new: Tensor) -> Tensor:
            return torch.cat([kept, kept[:1]]).index_copy(0, rows, new.to(kept.dtype))[:-1]

        return put(self.pairs, pairs), put(self.classes, classes), start + count

    def add(self, pairs: Tensor, classes: Tensor) -> None:
        """Add entries as in `with_new`."""
        for kept, new in zip(
            (self.pairs, self.classes, self.end), self.with_new(pairs, classes), strict=True
        ):
            kept.copy_(new)


@register("lac")
class LabelAwareContrast(Objective):
    """PLC in the first epochs. Then also a contrast of embeddings, one per class of a sample, in both views:
    of known and confidently predicted labels, those of the same class attract each other, all others repel.

    Args:
        weight_plc: Weight of the strong view, > 0.
        weight_lac: Weight of the contrast, > 0.
        first_stage: Share of the epochs in the first stage, without the contrast, in [0, 1].
        tau_first: Threshold in [0.5, 1] of the first stage: an unknown label is treated as positive where
            p >= tau and as negative where p < 1 - tau.
        tau_second: The same in the second stage, also for the contrast.
        temperature: What similarities are divided by, > 0.
        queue: Number of embeddings, in both views, that are contrasted with each other, >= 1.
        overwrites: Which embeddings of the queue new ones replace: the `oldest`, or as in the `released`
            code, whose queue starts from its first row again before it is full.
        width: Elements of an embedding, >= 1.
    """

    card = Card(
        title="Label-aware global consistency (LAC)",
        paper="Xie et al., Label-Aware Global Consistency for Multi-Label Learning with Single Positive "
        "Labels, NeurIPS 2022",
        year=2022,
        equations="both stages of the released code",
        formula="L = mean over B C of [l+ on P, l- on U] + weight_plc (PLC with tau)\n"
        "second stage: + weight_lac (mean over a of log sum_b exp(e_a . e_b / T) - mean_b+ e_a . e_b+ / T)\n"
        "a: embeddings in both views of the last Q = queue labels that are in P, or in U with p >= tau\n"
        "b: all others, b+: others of the same class",
        state="queue of embeddings (float, 2 x queue x width)",
        head_bias="prior",
        head="queries",
    )
    second: bool = False

    def __init__(
        self,
        *,
        weight_plc: float = 1.0,
        weight_lac: float = 1.0,
        first_stage: float = 0.5,
        tau_first: float = 0.6,
        tau_second: float = 0.9,
        temperature: float = 0.5,
        queue: int = 512,
        overwrites: Overwritten = "oldest",
        width: int = 128,
    ) -> None:
        super().__init__()
        check_positive(weight_plc=weight_plc, weight_lac=weight_lac, temperature=temperature)
        check_share(first_stage=first_stage)
        for name, tau in (("tau_first", tau_first), ("tau_second", tau_second)):
            if not 0.5 <= tau <= 1:
                raise ValueError(f"{name} must lie in [0.5, 1], got {tau}")
        check_whole(queue=queue, width=width)
        check_choice("overwrites", overwrites, ("oldest", "released"))
        self.weights = weight_plc, weight_lac
        self.first_stage, self.taus, self.temperature = first_stage, (tau_first, tau_second), temperature
        self.needs = Needs(batch_coupled=True, views=("strong",), embedding=width)
        self.queue = PairQueue(queue, width, overwrites)

    def on_epoch_start(self, progress: Progress) -> None:
        self.second = progress.epoch >= round(self.first_stage * progress.epochs)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        (strong,), (weight_plc, weight_lac) = outputs.views, self.weights
        terms = {
            "an": an_loss(outputs.logits, batch.target),
            "plc": weight_plc * plc_loss(outputs.logits, batch.target, strong, tau=self.taus[self.second]),
        }
        if self.second:
            pairs, classes, _ = self.queue.with_new(*self._entries(outputs, batch))
            first, second = pairs.unbind(1)
            contrast = lac_loss(first, second, classes, temperature=self.temperature)
            return terms | {"lac": weight_lac * contrast}
        # Several processes need a gradient of every parameter in every step.
        return terms | {"lac": 0.0 * torch.stack(outputs.embeddings).sum()}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        if self.second:
            self.queue.add(*self._entries(outputs, batch))

    def _entries(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Embeddings (B C, 2, E) and classes (B C,) of all labels, -1 where neither known nor confident."""
        confident = torch.sigmoid(upcast(outputs.logits)).detach() >= self.taus[1]
        chosen = by_label(batch.target, positive=True, unknown=confident, negative=False)
        classes = torch.arange(chosen.shape[1], device=chosen.device).where(chosen, -1)
        return torch.stack(outputs.embeddings, 2).flatten(0, 1), classes.flatten()
