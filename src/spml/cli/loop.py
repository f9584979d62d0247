"""The command `spml loop`. Heavy modules are imported when it runs."""

from __future__ import annotations

from pathlib import Path

from ..common.errors import InputError
from .arguments import Settings
from .shared import with_path


def loop(
    path: str = "",
    *,
    settings: Settings,
    rows: int = 100,
    top: int = 1000,
    folds: int | None = None,
) -> None:
    """Train, label a random sample in full, review missing labels, train again with the answers, and so on.
    The command stops where a person must do something, and prints the next commands; called again, it goes on
    from what lies in its folder. From the second training on it shows what has changed on the sample that was
    labelled in full, whose labels are never learned from.

    Args:
        path: Folder with one sub-folder per class, CSV or .npz.
        settings: Settings of the first training, as for spml train; later ones take them over. --output is
            the folder of the loop.
        rows: Number of random samples to label in full; fewer if fewer are held out.
        top: Most labels that are listed for review; 0 = all.
        folds: As for spml audit: parts of the training samples, each scored by a model that is trained
            without it.

    Examples:
      spml loop photos/ --output work                   begins
      spml loop --output work                           goes on
    """
    from ..engine import Interrupted
    from ..loop import Begun, go_on

    if not settings.get("output"):
        raise InputError("name the folder of the loop: --output FOLDER")
    if settings.get("devices", 1) > 1:
        raise InputError("--devices: a loop trains on one device; leave it out.")
    stated = {name: value for name, value in settings.items() if name != "output"}
    data = with_path(stated.pop("data", {}), path)
    begun = Begun({**stated, **({"data": data} if data else {})}, rows, top, folds)
    try:
        stop = go_on(Path(settings["output"]), begun)
    except Interrupted as interrupted:
        raise Interrupted(f"{interrupted}; the same command goes on with what is saved.") from interrupted
    for line in stop.lines:
        print(line)
    for command in stop.commands:
        print(f"next: {command}")
