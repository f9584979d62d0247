"""Samples that scikit-learn can check, and those that it can't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.utils.validation import validate_data

from ..common.errors import InputError
from ..data.memory.frames import is_series
from ..data.memory.samples import as_numpy, is_dataset

_IMAGES = (str, Path, Image.Image)
_UNCHECKED = "images or a torch Dataset"


def validated(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Check samples: features as scikit-learn does, images as `spml.train` does when it reads them.

    Args:
        estimator: Estimator, whose `n_features_in_` and `feature_names_in_` are set or compared.
        X: Samples as the user passed them.
        reset: Whether the estimator is being fitted.

    Returns:
        Features as a NumPy array or SciPy matrix in CSR; images as they are.

    Raises:
        ValueError: Features are not finite numbers of the shape (N, D), or not those of the training, in the
            words of scikit-learn.
        TypeError: Features are of a type that can't be converted, likewise.
        InputError: The estimator was fitted to features, and these are images, or the other way round; or X
            is a single path.
    """
    if isinstance(X, (str, Path)):
        raise InputError(
            f"X is the path {str(X)!r}: pass samples, such as a list of image files, or use spml.train."
        )
    images = holds_images(X)
    if reset:
        for name in ("n_features_in_", "feature_names_in_"):
            vars(estimator).pop(name, None)
    elif images == hasattr(estimator, "n_features_in_"):
        kinds = ("features", _UNCHECKED) if images else (_UNCHECKED, "features")
        raise InputError(f"the classifier was fitted to {kinds[0]}, but X holds {kinds[1]}.")
    if images:
        return X
    if isinstance(X, torch.Tensor):
        X = as_numpy(X)
    return validate_data(estimator, X, reset=reset, accept_sparse="csr")


def holds_images(X: Any) -> bool:
    """Whether samples are images, paths of images, or a data set of PyTorch."""
    if isinstance(X, torch.Tensor):
        return X.ndim == 4
    if isinstance(X, np.ndarray):
        return X.ndim == 4 or (X.ndim == 1 and X.dtype.kind in "UO" and len(X) > 0 and _is_image(X[0]))
    if is_series(X):
        X = list(X)
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and _is_image(X[0])
    return is_dataset(X)


def _is_image(sample: Any) -> bool:
    return isinstance(sample, _IMAGES) or getattr(sample, "ndim", 0) == 3
