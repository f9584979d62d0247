"""Class-aware selective loss: one focusing factor each for positives, negatives and unknown labels."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ._core.domains import check_below, check_choice, check_non_negative
from ._core.elementwise import Reduction, check_target, elementwise
from ._core.evaluate import computing_dtype
from ._core.terms import Term, lookup, no_loss, scaled, weighted
from .focal import focal_negative, focal_positive
from .modules import as_module

__all__ = ["CSLLoss", "csl_loss"]

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
    """Class-aware selective loss (CSL): asymmetric loss with three groups of labels.

    Known positives: alpha_pos (1 - p)^gamma_pos l+. Known negatives and unknown labels: alpha p_m^gamma
    (-log(1 - p_m)) with p_m = max(p - clip, 0) and their own alpha and gamma. The focusing factors are
    constant in the derivative. Unknown labels that are probably positive are left out.

    Args:
        logits: Logits of shape (B, C), any floating dtype.
        target: Class indices, int64 of shape (B,), or labels in {-1, 0, +1}, integer of shape (B, C). Known
            negatives have a focusing factor of their own, as published, rather than -log(1 - p).
        mode: Treatment of unknown labels. `selective`: the topk * B labels with the highest p in the whole
            batch are left out (ties in the order of the sort), and those of `ignored_classes`. `ignore`: all
            are left out. `ignore_normalize_classes`: all are left out, and known labels have the weight
            1 + 1 / (1 + known labels of the sample). `negative`: none is left out.
        topk: Number of labels left out per sample of the batch in mode `selective`, >= 0.
        ignored_classes: Classes that are too frequent to treat unknown labels as negatives in mode
            `selective`, bool of shape (C,).
        gamma_pos, gamma_neg, gamma_unknown: Focusing exponents, >= 0.
        alpha_pos, alpha_neg, alpha_unknown: Weights of the three groups, >= 0.
        clip: Shift of p, in [0, 1).
        eps: Lower bound of the arguments of the logarithms; 1e-8 reproduces the released code.
        reduction: Reduction of the losses: `mean` over B * C, `sum` (released code), or `none`.

    Returns:
        Scalar, or shape (B, C) for `none`; float32, or float64 for float64 logits.

    Raises:
        ValueError, TypeError: An argument lies outside its domain, or logits or target have a wrong shape,
            dtype or range.

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
    check_choice("mode", mode, MODES)
    check_below(1, clip=clip)
    positive = scaled(alpha_pos, focal_positive(gamma_pos, True, eps))
    negative = scaled(alpha_neg, focal_negative(gamma_neg, True, eps, clip))
    unknown: Term = scaled(alpha_unknown, focal_negative(gamma_unknown, True, eps, clip))
    weight: Tensor | None = None
    if mode == "selective":
        weight = _included(logits, target, topk, ignored_classes)
        unknown = weighted(lookup("weight"), unknown)
    elif mode != "negative":
        unknown = no_loss
    if mode == "ignore_normalize_classes":
        known = torch.ones_like(target) if target.ndim == 1 else target.ne(0).sum(1)
        weight = (1 + 1 / (1 + known.to(computing_dtype(logits.dtype))))[:, None].expand(logits.shape)
        positive, negative = weighted(lookup("weight"), positive), weighted(lookup("weight"), negative)
    return elementwise(
        logits,
        target,
        positive=positive,
        unknown=unknown,
        negative=negative,
        reduction=reduction,
        constants=None if weight is None else {"weight": weight},
    )


def _included(logits: Tensor, target: Tensor, topk: int, ignored_classes: Tensor | None) -> Tensor:
    """Mask (B, C) that is False for unknown labels that are left out; arbitrary for known labels."""
    left_out = topk * len(target)
    included = None
    # Elsewhere, asking whether the result is unique would wait for the device, and would break up the graph
    # of compiled code. `.data` and not `.detach()`: a selection has no derivative to stop.
    if logits.device.type == "cpu" and not torch.compiler.is_compiling():
        included = _below_highest(logits.data, target, left_out)
    if included is None:
        positions = _unknown_positions(target, logits.shape[1])
        # Only unknown labels are sorted, and not stably, so that among equal logits the same ones are left
        # out as in the released code.
        order = logits.data.reshape(-1)[positions].argsort(descending=True)
        included = torch.ones(logits.shape, dtype=torch.bool, device=logits.device)
        included.view(-1)[positions[order[:left_out]]] = False
    return included if ignored_classes is None else included & ~ignored_classes


def _below_highest(z: Tensor, target: Tensor, number: int) -> Tensor | None:
    """Mask (B, C) that is False for the unknown labels with the `number` highest logits.

    Returns:
        None where equal logits leave open which labels these are, or where there are too few.
    """
    if target.ndim == 1:
        unknown = z.scatter(1, target[:, None], -torch.inf)
    else:
        unknown = z.masked_fill(target != 0, -torch.inf)
    size = unknown.numel()
    if not 0 < number <= size:
        return None
    # The highest logits of `number` parts are a lower bound that few others exceed. So two passes and a
    # search among those few take the place of a sort. NaN, the highest of all in a sort, is among them.
    flat, width = unknown.view(-1), size // number
    bound = flat[: number * width].view(number, width).amax(1).min()
    least = torch.topk(flat[~(flat < bound)], number, sorted=False).values.min()
    included = unknown < least
    return included if size - int(included.sum()) == number else None


def _unknown_positions(target: Tensor, classes: int) -> Tensor:
    """Positions of unknown labels in the flattened matrix, ascending.

    For a matrix target on an accelerator this waits for the device, because their number is not known.
    """
    if target.ndim == 2:
        return (target == 0).flatten().nonzero()[:, 0]
    other = torch.arange(max(classes - 1, 0), device=target.device).expand(len(target), -1)
    row = torch.arange(len(target), device=target.device)[:, None] * classes
    return (row + other + (other >= target[:, None])).flatten()


CSLLoss = as_module("CSLLoss", csl_loss)
