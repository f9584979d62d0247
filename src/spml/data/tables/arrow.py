"""Tools of the readers of Arrow data: pyarrow where it is needed, and cells as Python values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError


def require_pyarrow(path: Path) -> Any:
    """The module `pyarrow`, which comes with the extra `tables`.

    Args:
        path: File to read, for the message.

    Raises:
        InputError: pyarrow is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            f"{path}: reading this needs the package pyarrow. Install it: pip install 'spml[tables]'."
        ) from error
    return pyarrow


def is_list(kind: Any) -> bool:
    """Whether the cells of a column of this Arrow type are lists."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_flat(kind: Any) -> bool:
    """Whether the cells of a column of this Arrow type are strings, numbers, booleans or null."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    return bool(types.is_null(kind)) or any(test(kind) for test in tests)


def cells(array: Any) -> list[Any]:
    """Cells of a flat column, or of a column of lists.

    Equal cells of a dictionary-encoded column are one object, so that a small file does not become large.

    Raises:
        pyarrow.ArrowInvalid, IndexError: Offsets or indices lead outside.
        UnicodeDecodeError: Text is not UTF-8.
    """
    from pyarrow import array as to_array
    from pyarrow import types

    if types.is_dictionary(array.type):
        # The dictionary may be far larger than a batch, so only the values that occur are converted.
        used, positions = np.unique(array.indices.fill_null(-1).to_numpy(), return_inverse=True)
        values = array.dictionary.take(to_array(used[used >= 0])).to_pylist()
        values = [None, *values] if -1 in used else values
        return [values[position] for position in positions.tolist()]
    array.validate(full=True)
    if is_list(array.type):
        inner = iter(cells(array.flatten()))  # without the values under a missing list
        lengths = array.value_lengths().to_pylist()
        return [None if length is None else [next(inner) for _ in range(length)] for length in lengths]
    return list(array.to_pylist())
