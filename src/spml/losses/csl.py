"""Class-aware selective loss: known positives, known negatives and unknown labels have a focus each."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ._core.domains import check_non_negative
from ._core.elementwise import Reduction, check_target, elementwise, upcast
from ._core.terms import Term, beside, no_loss, scaled, weighted
from .focal import focal_negative, focal_positive

Unlabelled: TypeAlias = Literal["selective", "ignore", "ignore_normalize_classes", "negative"]
MODES = ("selective", "ignore", "ignore_normalize_classes", "negative")


def csl_loss(
    logits: Tensor,
    target: Tensor,
    *,
    mode: Unlabelled = "selective",
    topk: int = 1,
    ignored_classes: Tensor | None = None,
    gamma_pos: float = 0.0,
    gamma_neg: float = 1.0,
    gamma_unknown: float = 2.0,
    alpha_pos: float = 1.0,
    alpha_neg: float = 1.0,
    alpha_unknown: float = 1.0,
    clip: float = 0.0,
    eps: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Class-aware selective loss (CSL): an asymmetric loss with three groups of labels.

    Known positives: alpha_pos (1 - p)^gamma_pos l+. Known negatives and unknown labels: alpha p_m^gamma
    (-log(1 - p_m)) with p_m = max(p - clip, 0) and their own alpha and gamma. The focusing factors are
    constant in the derivative. Unknown labels that are probably positive are left out.

    Args:
        logits: (B, C).
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}; known negatives have a focus of
            their own here, as published, and not plain -log(1 - p).
        mode: what happens to unknown labels. `selective`: left out are the topk * B with the highest p in
            the whole batch (of equals, whichever the sort puts first), and those of `ignored_classes`;
            `ignore`: all are left out; `ignore_normalize_classes`: all are left out, and known labels weigh
            1 + 1 / (1 + known labels of the sample); `negative`: none is left out.
        topk: of `selective`, per sample of the batch, >= 0.
        ignored_classes: of `selective`: bool (C,), classes too frequent for unknown labels to be negatives.
        gamma_pos, gamma_neg, gamma_unknown: focusing exponents, >= 0.
        alpha_pos, alpha_neg, alpha_unknown: weights, >= 0.
        clip: by how much p is shifted, in [0, 1).
        eps: the arguments of the logarithms are clamped to at least this; 1e-8 reproduces the released code.
        reduction: `mean` over B * C, `sum` (released code), or `none`.

    Returns:
        A scalar, or (B, C) for `none`.

    Raises:
        ValueError, TypeError: an argument outside its domain; see also `elementwise`.

    Example:
        >>> import torch
        >>> z = torch.tensor([[0.0, 3.0, 0.0]])
        >>> round(csl_loss(z, torch.tensor([0]), reduction="sum").item(), 4)
        0.8664

    Source: Ben-Baruch et al., "Multi-label Classification with Partial Annotations using Class-aware
    Selective Loss", CVPR 2022.
    """
    check_target(logits, target)
    check_non_negative(gamma_pos=gamma_pos, gamma_neg=gamma_neg, gamma_unknown=gamma_unknown)
    check_non_negative(
        alpha_pos=alpha_pos, alpha_neg=alpha_neg, alpha_unknown=alpha_unknown, eps=eps, topk=topk
    )
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    if not 0 <= clip < 1:
        raise ValueError(f"clip must lie in [0, 1), got {clip}")
    positive = scaled(alpha_pos, focal_positive(gamma_pos, True, eps))
    negative = scaled(alpha_neg, focal_negative(gamma_neg, True, eps, clip))
    unknown: Term = scaled(alpha_unknown, focal_negative(gamma_unknown, True, eps, clip))
    weight: Tensor | None = None
    if mode == "selective":
        weight = _kept(logits, target, topk, ignored_classes)
        unknown = weighted(beside("weight"), unknown)
    elif mode != "negative":
        unknown = no_loss
    if mode == "ignore_normalize_classes":
        known = torch.ones_like(target) if target.ndim == 1 else target.ne(0).sum(1)
        weight = (1 + 1 / (1 + known.to(upcast(logits).dtype)))[:, None].expand(logits.shape)
        positive, negative = weighted(beside("weight"), positive), weighted(beside("weight"), negative)
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=unknown,
        negative=negative,
        reduction=reduction,
        beside=None if weight is None else {"weight": weight},
    )


def _kept(logits: Tensor, target: Tensor, topk: int, ignored_classes: Tensor | None) -> Tensor:
    """(B, C): False for unknown labels that are left out; what it says of known labels has no meaning."""
    places = _unknown_places(target, logits.shape[1])
    # `.data` and not `.detach()`: a choice has no derivative, so there is none to stop. Only unknown labels
    # are sorted, and not stably, so that of equal ones those go which the released code leaves out.
    order = logits.data.reshape(-1)[places].argsort(descending=True)
    kept = torch.ones(logits.shape, dtype=torch.bool, device=logits.device)
    kept.view(-1)[places[order[: topk * len(logits)]]] = False
    return kept if ignored_classes is None else kept & ~ignored_classes


def _unknown_places(target: Tensor, classes: int) -> Tensor:
    """Where unknown labels stand in the flattened matrix, ascending. For a matrix target on an accelerator
    this waits for the device, because their number is not known."""
    if target.ndim == 2:
        return (target == 0).flatten().nonzero()[:, 0]
    other = torch.arange(max(classes - 1, 0), device=target.device).expand(len(target), -1)
    row = torch.arange(len(target), device=target.device)[:, None] * classes
    return (row + other + (other >= target[:, None])).flatten()
