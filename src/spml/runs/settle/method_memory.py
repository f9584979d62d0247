"""Methods and recordings that hold a number per sample and class: refused where the machine can't."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from torch import nn

from ...common.errors import InputError
from ...common.phrases import counted
from ...data import Dataset
from ...engine.process_memory import total_memory
from ...methods.base import Facts, Objective
from ...methods.registry import methods
from ...scores import fits

_PROBED = 3
"""Number of samples on which a method is started to see what it keeps of each."""

_FEATURE = 32
"""Bytes per feature of a training sample while neighbours are searched: in float64, with temporary copies."""

_RECORDED = 10
"""Bytes per recorded score: logits as they are predicted, clipped, and in half precision."""


def check_method_memory(objective: Objective, method: str, facts: Facts) -> None:
    """Check, before a method is started, that what it keeps of each sample fits into memory.

    The size is measured: a copy of the method is started on a few samples.

    Args:
        objective: Method that was not started yet.
        method: Its name.
        facts: Properties of the training set.

    Raises:
        InputError: It does not fit.
    """
    samples, classes = len(facts.observed), len(facts.classes)
    held = _FEATURE * samples * (facts.width or 0)
    if held > total_memory():
        raise InputError(
            f"method {method!r} compares the features of all training samples, which takes "
            f"{_gigabytes(held)} for {counted(samples, 'sample')} x {facts.width} features, and this process "
            f"may take {_gigabytes(total_memory())}. Train on fewer samples, or choose another method or "
            f"another form of it (spml methods {method})."
        )
    if fits(samples, classes):
        return
    needed = bytes_per_score(objective, facts) * samples * classes
    if needed > total_memory():
        others = ", ".join(name for name, cls in methods().items() if cls.card.state == "none")
        raise InputError(
            f"method {method!r} keeps {_gigabytes(needed)} for {counted(samples, 'sample')} x {classes} "
            f"classes, and this process may take {_gigabytes(total_memory())}. Choose a method that keeps "
            f"nothing of each sample (`method`): {others}; or train on fewer samples or classes."
        )


def bytes_per_score(objective: Objective, facts: Facts) -> float:
    """Bytes that a method keeps for each training sample and class, with the copy of its best epoch.

    A parameter also has a gradient and two moments of the optimiser; predictions for the whole training set
    are logits in float32.
    """
    few = min(_PROBED, len(facts.ids))
    probe = deepcopy(objective)
    observed = facts.observed.take(range(few))
    try:
        probe.on_fit_start(replace(facts, observed=observed, ids=facts.ids[:few]))
    except InputError:  # for the whole data set, it is raised again
        return 0.0
    size = 4.0 if objective.needs.train_pass else 0.0
    for tensor in (*probe.buffers(), *probe.parameters()):
        if tensor.shape[:2] == (few, len(facts.classes)):
            copies = 5 if isinstance(tensor, nn.Parameter) else 2
            size += copies * tensor.element_size() * tensor.numel() / (few * len(facts.classes))
    return size


def check_recording(data: Dataset, rows: Mapping[str, Any]) -> None:
    """Check that the scores of the samples to record fit into memory.

    Args:
        data: Data set of the run.
        rows: Rows of each split to record; None = all of them.

    Raises:
        InputError: They do not.
    """
    samples = sum(len(data.splits[name] if part is None else part) for name, part in rows.items())
    classes = len(data.classes)
    needed = _RECORDED * samples * classes
    if needed > total_memory():
        raise InputError(
            f"recording the scores of {counted(samples, 'sample')} x {classes} classes takes "
            f"{_gigabytes(needed)} of memory, and this process may take {_gigabytes(total_memory())}. Record "
            "fewer samples: record_samples=FILE, with the name of one sample per line."
        )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
