"""Functions of `spml.losses` and the names of their parameters."""

from __future__ import annotations

import inspect

from spml import losses


def parameters_of(name):
    return [*inspect.signature(getattr(losses, name)).parameters.values()]


FUNCTIONS = [
    name
    for name in losses.__all__
    if name.endswith("_loss") and [each.name for each in parameters_of(name)[:2]] == ["logits", "target"]
]
