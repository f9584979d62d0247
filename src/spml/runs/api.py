"""Train and load from Python; the command line does the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..config import Config, from_dict
from ..errors import InputError
from ..short_names import from_arguments
from .console import Console
from .contents import load_model
from .inputs import labelled
from .resolve import open_for_backbone
from .run import Run
from .train import run_training

_ARGUMENTS = ("y", "classes", "resume", "overwrite", "quiet", "pictures")


def train(
    source: Any,
    /,
    y: Any = None,
    *,
    classes: Sequence[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    pictures: bool = True,
    **settings: Any,
) -> Run:
    """Train a model on data in files or in memory, and write its run folder.

    Args:
        source: Folder with one sub-folder per class, a CSV file, a .npz feature file, `digits`, or a complete
            `Config`. Or samples in memory:

            - features (N, D): a NumPy array, torch tensor, SciPy matrix, or DataFrame of numbers;
            - images: a list of paths (relative to `data={"images": FOLDER}`), of PIL images, of uint8 NumPy
              arrays (H, W, 3) or of uint8 torch tensors (3, H, W); or an array (N, H, W, 3) or tensor (N, 3,
              H, W);
            - a pandas or polars DataFrame with a column of image files and a column of labels, as in a CSV
              file, without `y`;
            - a torch Dataset of (image or features, label), without `y`. Its images are loaded several times
              and must not change; where it has `classes`, they name its indices.

        y: Labels of samples in memory; for a DataFrame of features also the name of its column of labels:

            - class names, or class indices from 0;
            - for each sample a list of names or of indices;
            - a matrix (N, C), as an array, tensor, SciPy matrix or DataFrame: {0, 1}, where 0 means what
              `data={"unlisted": ...}` says, by default unknown; {-1, 0, 1} with 0 for unknown; or {0, 1, NaN}
              with NaN for unknown.

        classes: Class names, in the order of the indices or columns of `y`; None = the names that occur,
            sorted, the columns of a DataFrame, or else 0, 1, 2 ...
        resume: Continue the run in `output`. Data in memory must be the same, which is checked.
        overwrite: Replace the run in `output`.
        quiet: Print nothing.
        pictures: Draw curves.png, thresholds.png and, of images, examples.png, which takes about a second.
        settings: Fields of `Config`, nested as in config.yaml, or by the short names of the command line:
            `method="em", epochs=10, head="mlp", lr=1e-3, data={"val_share": 0.1}, output="runs/em"`.

    Returns:
        The finished run, loaded. Samples in memory are named by their paths, by the index of a DataFrame of
        pandas, or by their row numbers.

    Raises:
        InputError: A setting, the data or the folder does not suit; nothing was written.
        SpmlError: Training failed; the last checkpoint is in the folder.

    Example:
        run = spml.train("photos/", epochs=10, output="runs/photos")
        run = spml.train(X, y, head="ridge", output="runs/features")
        run.predict(["new.jpg"]).labels
    """
    console = Console(silent=quiet)
    open_data = None
    if isinstance(source, Config):
        if settings or y is not None or classes is not None:
            raise InputError("give either a Config or settings by name, not both")
        config = source
    else:
        settings = from_arguments(settings, _ARGUMENTS)
        data = settings.get("data", {})
        if not isinstance(data, dict):
            raise InputError(f"data must be settings by name (data={{'val_share': 0.1}}), got {data!r}")
        config = from_dict(settings)  # refuses wrong settings before samples are looked at
        config.data, records = labelled(source, y, data, classes=classes)
        if records is not None:
            open_data = partial(open_for_backbone, report=console.line, records=records)
    folder = run_training(
        config,
        resume=resume,
        overwrite=overwrite,
        console=console,
        open_data=open_data,
        pictures=pictures,
    )
    return load(folder)


def load(folder: str | Path) -> Run:
    """Load a trained run from its folder.

    Raises:
        InputError: The folder holds no finished run, or its files are damaged.
    """
    classifier, card = load_model(Path(folder))
    return Run(Path(folder), classifier, card)
