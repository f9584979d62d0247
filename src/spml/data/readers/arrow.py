"""What readers of Arrow data share: pyarrow where it is needed, and cells as Python values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError


def require_pyarrow(path: Path) -> Any:
    """The module `pyarrow`.

    Raises:
        InputError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{path}: reading this needs the package pyarrow. Install it: pip install pyarrow."
        ) from error
    return pyarrow


def is_list(kind: Any) -> bool:
    """Whether a column holds a list in each cell."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_flat(kind: Any) -> bool:
    """Whether a column holds text, a number, a truth value or nothing in each cell."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    return bool(types.is_null(kind)) or any(test(kind) for test in tests)


def cells(array: Any) -> list[Any]:
    """The cells of a flat column, or lists of those; a value of a dictionary is one object, however often it
    occurs, so that a small file does not become large.

    Raises:
        pyarrow.ArrowInvalid, IndexError: offsets or indices that lead outside.
        UnicodeDecodeError: text that is not UTF-8.
    """
    from pyarrow import array as to_array
    from pyarrow import types

    if types.is_dictionary(array.type):
        # The dictionary may be far larger than a batch, so only what occurs in it is looked at.
        used, places = np.unique(array.indices.fill_null(-1).to_numpy(), return_inverse=True)
        values = array.dictionary.take(to_array(used[used >= 0])).to_pylist()
        values = [None, *values] if -1 in used else values
        return [values[place] for place in places.tolist()]
    array.validate(full=True)
    if is_list(array.type):
        inner = iter(cells(array.flatten()))  # which leaves out what lies under a missing list
        lengths = array.value_lengths().to_pylist()
        return [None if length is None else [next(inner) for _ in range(length)] for length in lengths]
    return list(array.to_pylist())
