"""Networks of the user's own on the command line: the one place that imports code which a user names."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..common.errors import InputError, quoted, unexpected


@contextmanager
def own_network(stated: Mapping[str, Any]) -> Iterator[None]:
    """Import the network that a command line names, if it does, and use it while the command runs.

    Only the words of the command line count: no configuration file can make anything be imported.

    Args:
        stated: What the command line itself states.
    """
    if ".py:" in (method := str(stated.get("method", ""))):
        from ..methods.registry import load_own

        for each in method.split(","):
            load_own(each)
    name = str(stated.get("backbone") or stated.get("model.backbone") or "")
    is_training = "model.backbone" in stated
    if not name or (is_training and ":" not in name):
        yield
        return
    from torch import nn

    from ..common.torch_draws import borrowed_generators
    from ..models import OwnNetwork, at_hand
    from ..models.spec import OWN, origin_of

    if origin_of(name) != OWN:
        if is_training:  # `hf/...` with a colon, or a name that is refused as unknown
            yield
            return
        raise InputError(
            f"--backbone names the code of a network of your own (module:callable), got {name!r}: a run "
            "knows its backbone itself if that has a name."
        )
    folder = os.getcwd()
    added = folder not in sys.path
    if added:
        # Last, so that no file there can take the place of an installed package.
        sys.path.append(folder)
    try:
        # The callable returns a network, or a network and its transform; a network in its place is used as it
        # is.
        module, _, attribute = name.partition(":")
        importlib.invalidate_caches()  # the module may have been written a moment ago
        try:
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
            if not isinstance(found, nn.Module):
                with borrowed_generators(stated.get("seed", 0)):
                    found = found()
        except Exception as error:  # code of the user
            raise InputError(f"--backbone {name}: {unexpected(error)}.") from error
        transform = None
        if isinstance(found, tuple) and len(found) == 2:
            found, transform = found
        if not isinstance(found, nn.Module):
            raise InputError(
                f"--backbone {name}: must return an nn.Module, or a pair of it and its transform, got "
                f"{quoted(found)}"
            )
        with at_hand(OwnNetwork(found, transform, name=name)):
            yield
    finally:
        if added:
            sys.path.remove(folder)
