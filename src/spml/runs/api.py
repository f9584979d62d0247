"""Train from Python; the command line does the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import Any

from ..common.errors import InputError
from ..common.messages import log, shown
from ..config import Config, from_dict
from ..config.read import from_arguments, text_columns
from ..methods.registry import load_own
from ..models import OwnNetwork, at_hand
from .folder.layout import holds_run
from .inputs import labelled
from .predict.cluster import check_engine
from .run import Run, load
from .settle.resolve import run_folder
from .train import run_training

_ARGUMENTS = (
    "y", "classes", "groups", "text", "transform", "resume", "overwrite", "quiet", "pictures", "engine",
    "address", "logger",
)  # fmt: skip


def import_own_method(settings: Mapping[str, Any]) -> None:
    """Import the method that arguments in Python name as `file.py:Class`, if they do."""
    if isinstance(settings.get("method"), str):
        load_own(settings["method"])


def train(
    source: Any,
    /,
    y: Any = None,
    *,
    classes: Sequence[str] | None = None,
    split: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    text: str | Sequence[str] | bool = False,
    transform: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    pictures: bool = True,
    engine: str = "local",
    address: str = "",
    logger: str = "none",
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
            - a pandas DataFrame with a column of image files and a column of labels, as in a CSV
              file, without `y`;
            - a list of texts, with `text=True`, or a DataFrame some columns of which hold texts, with
              `text="title,abstract"`;
            - a torch Dataset of (image or features, label), without `y`. Its images are loaded several times
              and must not change; where it has `classes`, they name its indices.

        y: Labels of samples in memory; for a DataFrame of features also the name of its column of labels:

            - class names, or text with several, read as the cells of a CSV file are; or class indices from 0;
            - for each sample a list of names;
            - a matrix (N, C), as an array, tensor, SciPy matrix or DataFrame: {0, 1}, where 0 means what
              `data={"unlisted": ...}` says, by default unknown; {-1, 0, 1} with 0 for unknown; or {0, 1, NaN}
              with NaN for unknown.

        classes: Class names, in the order of the indices or columns of `y`; None = the names that occur,
            sorted, the columns of a DataFrame, or else 0, 1, 2 ...
        split: `train`, `val` or `test` for each sample in memory; for a DataFrame of features,
            `data={"split_column": NAME}` names its column. None = as `data={"val_share": ...}` says.
        groups: Group of each sample in memory, as text or numbers, such as its patient or recording, which
            splits and folds keep together; of a DataFrame, `data={"group": NAME}` names its column.
        text: Columns that hold the text of a sample, as a list or after commas; True = the samples are texts.
            Otherwise strings are paths of images. It is the setting `data.text`.
        transform: How images are prepared for a network of your own (`backbone=module`): a dictionary with
            `size`, `mean`, `std` and `interpolation`, a transform of torchvision or timm for evaluation, or
            an image processor of transformers. Images are resized to a square, never cropped; a line says
            where the transform does something else. None = as the network states, or ImageNet's.
        resume: Continue the run in `output`. Data in memory must be the same, which is checked.
        overwrite: Replace the run in `output`.
        quiet: Print nothing.
        pictures: Draw curves.png, thresholds.png and, of images, examples.png, and write report.html, which
            takes seconds.
        engine: Where the features of a frozen backbone are computed: `local`, in this process, or `ray`, on
            the machines of a Ray cluster, which gives the same numbers.
        address: Address of the Ray cluster (`HOST:PORT`); empty = start Ray on this machine.
        logger: Where settings and metrics are logged, too, while the model is trained: `tensorboard` (in the
            folder of the run), `wandb` or `mlflow`.
        settings: Fields of `Config`, nested as in config.yaml, or by the short names of the command line:
            `method="em", epochs=10, head="mlp", lr=1e-3, data={"val_share": 0.1}, output="runs/em"`. Without
            `output`, the folder is named after data and method, with a number if it holds a run already.
            `backbone` may also be a network of your own, an `nn.Module` from normalised images, float32 (B,
            3, size, size), to features (B, D) or maps (B, D, h, w). It is copied, so training does not change
            it.

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
    cluster, records, network = check_engine(engine, address), None, None
    if isinstance(source, Config):
        if settings or text or any(argument is not None for argument in (y, classes, split, groups)):
            raise InputError("give either a Config or settings by name, not both")
        config = source
        if not isinstance(config.model.backbone, str):
            raise InputError("a Config holds names: pass a network as spml.train(data, backbone=module)")
    else:
        settings, network = _with_own_network(from_arguments(settings, _ARGUMENTS), transform)
        import_own_method(settings)
        data = settings.get("data", {})
        if not isinstance(data, dict):
            raise InputError(f"data must be settings by name (data={{'val_share': 0.1}}), got {data!r}")
        if text and "text" in data:
            raise InputError("data.text is set by the argument text, too: leave out one of the two.")
        settings["data"] = data = data | ({"text": text_columns(text)} if text else {})
        config = from_dict(settings)  # refuses wrong settings before samples are looked at
        config.data, records = labelled(source, y, data, classes=classes, split=split, groups=groups)
    with nullcontext() if quiet else shown(), at_hand(network):
        folder = run_training(
            config if config.output or resume or overwrite else replace(config, output=_free_folder(config)),
            resume=resume,
            overwrite=overwrite,
            data=records,
            pictures=pictures,
            cluster=cluster,
            logger=logger,
        )
        return load(folder)


def _free_folder(config: Config) -> str:
    """Folder of a run for which none is stated, so that the cell of a notebook can be run again."""
    folder = chosen = run_folder(config)
    for number in count(2):
        if not holds_run(chosen):
            break
        chosen = folder.with_name(f"{folder.name}-{number}")
    if chosen != folder:
        log.info(f"{folder} holds a run already, so this one is written to {chosen} (or pass output=FOLDER)")
    return str(chosen)


def _with_own_network(settings: dict[str, Any], transform: Any) -> tuple[dict[str, Any], OwnNetwork | None]:
    """Replace a network that was passed as `backbone` by its name.

    Raises:
        InputError: `backbone` is neither a name nor a network, or `transform` does not suit.
    """
    model = settings.get("model", {})
    backbone = model.get("backbone") if isinstance(model, dict) else None
    if backbone is None or isinstance(backbone, str):
        if transform is not None:
            raise InputError(
                "transform belongs to a network of your own (backbone=module): leave it out. Images are "
                "prepared as the named backbone needs them; data={'size': ...} changes their size."
            )
        return settings, None
    network = OwnNetwork(backbone, transform)
    return {**settings, "model": {**model, "backbone": network.name}}, network
