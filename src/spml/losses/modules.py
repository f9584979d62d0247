"""Losses as `torch.nn.Module`, for loops that expect one. Hyper-parameters are attributes.

criterion = GRLoss(q2=0.5)
loss = criterion(model(images), positive_class)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

__all__ = ["LossModule"]


class LossModule(nn.Module):
    """A loss as a module. Its tensors are arguments of the call, and its hyper-parameters are attributes.

    A hyper-parameter may be set between two calls, for example by a schedule. One that is an `nn.Parameter`
    is learned with the model, where the loss has a derivative with respect to it; another tensor is a buffer.

    Args:
        hyper: Keyword arguments of the function, with the same defaults.

    Attributes:
        function: The loss function, whose documentation holds for the module.

    Raises:
        TypeError: A hyper-parameter is unknown, or one without a default is missing. Values are checked when
            the loss is computed.
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, **hyper: Any) -> None:
        super().__init__()
        given = inspect.signature(type(self)).bind(**hyper)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        self._names = tuple(given.arguments)

    def forward(self, logits: Tensor, *tensors: Tensor | None) -> Tensor:
        """Compute the loss.

        Args:
            logits: Logits, float of shape (B, C).
            tensors: The other positional arguments of the function; the first of them is the target.

        Returns:
            What the function returns.
        """
        return self.function(logits, *tensors, **{name: getattr(self, name) for name in self._names})

    def extra_repr(self) -> str:
        """Hyper-parameters that differ from their defaults."""
        default = {name: each.default for name, each in inspect.signature(type(self)).parameters.items()}
        values = {name: getattr(self, name) for name in self._names}
        return ", ".join(
            f"{name}={value!r}"
            for name, value in values.items()
            if isinstance(value, Tensor) or value != default[name]
        )


def as_module(name: str, function: Callable[..., Tensor]) -> type[LossModule]:
    """The class of a loss, with the signature of its constructor."""
    parameters = inspect.signature(function).parameters.values()
    hyper = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    about = f"`{function.__name__}` as a module: its keyword arguments are those of the constructor."
    content = {"function": staticmethod(function), "__doc__": about, "__module__": "spml.losses"}
    made = type(name, (LossModule,), content)
    made.__signature__ = inspect.Signature(hyper)  # type: ignore[attr-defined]
    return made
