"""Training with a network that torch compiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from ..common.errors import SpmlError


@contextmanager
def compiled(network: nn.Module) -> Iterator[None]:
    """Compile a network when it is called for the first time. Its parameters and their names stay.

    Args:
        network: Module whose `forward` is called. Copies of it are not compiled.

    Raises:
        SpmlError: The network can't be compiled, or there is no compiler.
    """
    from torch._dynamo.exc import TorchDynamoException  # takes seconds to import

    network.compile()
    try:
        yield
    except TorchDynamoException as error:
        said = " ".join(str(error).partition("Set TORCHDYNAMO_VERBOSE")[0].split())
        raise SpmlError(
            f"torch can't compile the network ({said}): leave out --compile yes, or mend what it says. On "
            "CPU it needs a C++ compiler, such as g++."
        ) from error
