"""The folder of a loop. What lies in it says how far the loop has come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from ..common.documents import parse_json
from ..common.errors import InputError
from ..common.files import check_json_sha256, json_sha256, sha256_file, write_checked_json, write_json
from ..common.safe import read_bytes
from ..config import flat
from ..runs.folder import layout as run_files

BEGUN, SHEET = "loop.json", "sample.csv"
FORMAT = 1


class Begun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a loop was begun: the content of loop.json.

    Attributes:
        settings: Settings of the first training as they were stated, nested as in config.yaml.
        rows: Number of samples to label in full.
        top: Most labels that an audit lists; 0 = all.
        folds: As in `run_audit`.
        format: Version of this structure.
    """

    settings: dict[str, Any]
    rows: Annotated[int, msgspec.Meta(ge=1)] = 100
    top: Annotated[int, msgspec.Meta(ge=0)] = 1000
    folds: int | None = None
    format: int = FORMAT

    @property
    def digest(self) -> str:
        """Eight digits by which the files of the rounds name the loop."""
        return json_sha256(msgspec.to_builtins(self))[:8]


class Round(NamedTuple):
    """A round: a training, an audit with its review, and what was measured.

    Attributes:
        folder: Its folder.
    """

    folder: Path

    @property
    def run(self) -> Path:
        """Folder of the run."""
        return self.folder / "run"

    @property
    def audit(self) -> Path:
        """Folder of the audit, in which the review lies, too."""
        return self.folder / "audit"

    @property
    def data(self) -> Path:
        """File that names the loop, and from the second round on the data that is trained on. With it such a
        round begins."""
        return self.folder / "data.json"

    @property
    def compared(self) -> Path:
        """File with the comparison of this round with the first one."""
        return self.folder / "compared.json"

    def labels(self, features: bool) -> Path:
        """File of the data that is trained on, from the second round on."""
        return self.folder / ("labels.npz" if features else "labels.csv")

    @property
    def trained(self) -> bool:
        """Whether the training has finished, and written its report, which comes last."""
        return all((self.run / name).is_file() for name in (run_files.SUMMARY, run_files.REPORT))


def write_data(here: Round, begun: Begun, settings: Mapping[str, Any]) -> None:
    """Write what a round trains on: nothing in the first one, where loop.json says it."""
    labels = {"labels_sha256": sha256_file(Path(settings["path"]))} if settings else {}
    write_checked_json(here.data, {"loop": begun.digest, "settings": dict(settings), **labels})


def read_data(here: Round, begun: Begun) -> dict[str, Any]:
    """Settings of the data of a round; none where it names no data.

    Raises:
        InputError: A file is missing, damaged or of another loop.
    """
    if not here.data.is_file():  # of the first round before it, or of an earlier version
        return {}
    try:
        content: dict[str, Any] = parse_json(read_bytes(here.data))
        check_json_sha256(content)
        settings: dict[str, Any] = content.get("settings", content)
        if "loop" in content and content["loop"] != begun.digest:
            raise ValueError(f"it is of the loop {content['loop']}, but {BEGUN} is of {begun.digest}")
        digest = content.get("labels_sha256")
        if digest and sha256_file(here.folder / Path(settings["path"]).name) != digest:
            raise ValueError(f"{settings['path']} is not the file that it was written for")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{here.data}: can't be used ({error}). Restore the files of this loop.") from error
    return settings


def round_of(work: Path, number: int) -> Round:
    """A round of a loop by its number, from 1 on."""
    return Round(work / f"round-{number}")


def last_round(work: Path) -> int:
    """Number of the round that a loop has come to, at least 1."""
    number = 1
    while round_of(work, number + 1).data.is_file():
        number += 1
    return number


def begin(work: Path, stated: Begun) -> Begun:
    """Begin a loop in a folder, or read how it was begun there.

    Args:
        work: Folder of the loop, which exists.
        stated: What the command line states. Of a loop that has trained, nothing but what it was begun with.

    Raises:
        InputError: No data is named for a new loop, other settings are stated than it was begun with, or its
            file is damaged.
        SpmlError: The file could not be written.
    """
    path, given = work / BEGUN, flat(stated.settings)
    corrected = "data.path" in given and not run_files.holds_run(round_of(work, 1).run)
    if corrected or not path.is_file():
        if not given.get("data.path"):
            raise InputError(
                f"{work}: holds no loop to go on with. Name data: spml loop DATA --output {work}."
            )
        write_json(path, msgspec.to_builtins(stated))
        return stated
    try:
        begun = msgspec.convert(parse_json(read_bytes(path)), Begun)
        if begun.format != FORMAT:
            raise ValueError(f"format {begun.format} instead of {FORMAT}")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: can't be read ({error}). Restore it, or begin in another folder."
        ) from error
    before = flat(begun.settings)
    other = sorted(name for name, value in given.items() if before.get(name) != value)
    for name in ("rows", "top", "folds"):
        if getattr(stated, name) not in (getattr(Begun({}), name), getattr(begun, name)):
            other.append(name)
    if other:
        raise InputError(
            f"{work}: this loop was begun with another {', another '.join(other)}. Leave it out to go on, or "
            "begin in another folder (`output`)."
        )
    return begun
