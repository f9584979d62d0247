"""A trained model as plain data: the content of the files that `spml.load` reads and checks."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import save

from ..common.errors import InputError
from ..decisions import encode_policy
from ..runs.api import load
from ..runs.folder.layout import MODEL, THRESHOLDS
from ..runs.run import Run

_WEIGHTS, _CARD = MODEL
_FILES = (_CARD, _WEIGHTS, THRESHOLDS)


def detach(run: Run) -> Run:
    """Read what a run needs for predictions, so that its folder can be removed."""
    assert run.thresholds is not None
    vars(run)["calibration"] = run.thresholds.calibrated
    vars(run)["config"] = None  # says where features are kept, which a model without a folder does not do
    return run


def pack(run: Run) -> dict[str, bytes]:
    """Content of the files of a detached run, by their names: JSON, and safetensors for the weights."""
    assert run.thresholds is not None
    weights = run.model.classifier.state_dict()
    return {
        _CARD: json.dumps(run.card).encode(),
        _WEIGHTS: save({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}),
        THRESHOLDS: encode_policy(run.thresholds),
    }


def unpack(files: Any) -> Run:
    """Build the run again, with the checks of `spml.load`.

    Raises:
        InputError: The content is damaged.
    """
    with TemporaryDirectory(prefix="spml-") as name:
        folder = Path(name)
        try:
            for file in _FILES:
                (folder / file).write_bytes(files[file])
            return detach(load(folder))
        except (InputError, LookupError, TypeError) as error:
            reason = str(error).replace(f"{folder}/", "")
            raise InputError(f"the pickled model is damaged ({reason}). Fit it again.") from error
