"""The one way into data: `open_dataset` for training and evaluation, `list_inputs` for prediction.

Images are resized to what the backbone takes, and the backbone is chosen by the kind of samples. So opening
has two halves that can be called apart: `start_opening` reads the labels and lists the images,
`Opening.finish` checks the images and makes the data set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..common.errors import InputError
from ..common.messages import log, progress
from ..common.phrases import counted
from ..config import DataConfig
from .assemble import Purpose, check_share_skipped, name_skipped, remarks, to_dataset
from .dataset import Dataset, Inputs, Kind, sample_width
from .files import list_images
from .hiding import check_observe
from .images.image_files import SUFFIXES, ImageFiles, ImageSource, check_images
from .join import Checked, merge_same_content, merge_unread
from .matrix import check_finite
from .memory import has_files, read_samples
from .names import FilesBelow, PackedNames
from .readers import Source, existing, features, read, shards
from .readers.shards import is_shards
from .records import MEMORY, Records, select
from .tables.formats import SUFFIXES as TABLES
from .tables.formats import open_table
from .tables.rows import read_file_list, read_texts
from .texts import Texts


def open_dataset(
    config: DataConfig,
    *,
    size: int = 224,
    interpolation: str = "bilinear",
    purpose: Purpose = "train",
) -> Dataset:
    """Read a data set, check every image, hide labels and split as `config` says.

    Args:
        config: Settings of the data.
        size: Side in pixels to which image files are resized where `config.size` states none.
        interpolation: `nearest`, `bilinear`, `bicubic` or `lanczos`.
        purpose: `train`, or `evaluate` to take the data as it is: without a split every sample is in `test`,
            none is held out, and no training sample is required.

    Raises:
        InputError: The data has a mistake, which the message names with file and row; or a setting of
            `observe` is out of its domain or has no effect.
    """
    opening = start_opening(config, purpose=purpose)
    return opening.finish(size=size, interpolation=interpolation)


def start_opening(
    config: DataConfig,
    *,
    purpose: Purpose = "train",
    records: Records | None = None,
) -> Opening:
    """Read labels and list images, without decoding any.

    Args:
        config, purpose: As in `open_dataset`.
        records: Data in memory, as `read_memory` returns it; None = what `config.path` names.

    Example:
        >>> opening = start_opening(DataConfig(path="digits"))
        >>> opening.kind, opening.width
        ('image', 1)
        >>> list(opening.finish(size=40).splits)
        ['train', 'val', 'test']

    Raises:
        InputError: The labels have a mistake, or a setting of `observe` is out of its domain or has no
            effect.
    """
    check_observe(config)
    records = read(config) if records is None else select(records, config)
    return Opening(records, config, purpose)


@dataclass(frozen=True)
class Opening:
    """A data set whose labels have been read and whose images have not been decoded yet.

    A backbone can be chosen by what is known already; it then says the size for `finish`.

    Attributes:
        records: Content of the file or folder.
        config: Settings of the data.
        purpose: `train` or `evaluate`.
    """

    records: Records
    config: DataConfig
    purpose: Purpose

    @property
    def name(self) -> str:
        """Name of the file or folder that holds the data."""
        return self.records.name

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, in the order of the columns of every label matrix."""
        return self.records.classes

    @property
    def kind(self) -> Kind:
        """Whether samples are images, feature vectors or texts."""
        inputs = self.records.inputs
        return "image" if isinstance(inputs, Sequence) else inputs.kind

    @property
    def decoded(self) -> bool:
        """Whether loading a sample decodes a file, so that worker processes speed it up."""
        return isinstance(self.records.inputs, Sequence)

    @property
    def width(self) -> int:
        """Channels of an image, features of a vector, or bytes of the first text."""
        inputs = self.records.inputs
        return 3 if isinstance(inputs, Sequence) else sample_width(inputs)

    def finish(self, *, size: int = 224, interpolation: str = "bilinear") -> Dataset:
        """Check images, hide labels and split. Another call with another size does not check images again.

        Args:
            size, interpolation: As in `open_dataset`.

        Raises:
            InputError: Too many images can't be used, or the data does not suit its purpose.
        """
        records, digests, skipped = self._checked
        inputs = records.inputs
        if isinstance(inputs, Sequence):
            check_share_skipped(records, skipped, self.config)
            inputs = _image_files(inputs, digests, self.config, self.config.side or size, interpolation)
        data = to_dataset(records, self.config, inputs, skipped, self.purpose)
        further = remarks(data, records.labels, has_split=records.split is not None)
        return replace(data, notes=(*data.notes, *further))

    def finish_unread(self) -> Dataset:
        """Hide labels and split, for statistics of labels: no image is read, none left out as unreadable."""
        records = merge_unread(self.records, self.config)
        inputs = records.inputs
        if isinstance(inputs, Sequence):
            inputs = _image_files(inputs, None, self.config, 1, "nearest")
        return to_dataset(records, self.config, inputs, {}, self.purpose)

    @cached_property
    def _checked(self) -> Checked:
        records, config = self.records, self.config
        if not isinstance(records.inputs, Sequence):
            return Checked(records, [], {})
        log.info(f"{records.source}: checking {counted(len(records.ids), 'image')}")
        with progress(len(records.ids), "checking images") as advance:
            checked = check_images(
                records.inputs, max_pixels=config.max_pixels, workers=config.workers, advance=advance
            )
        return merge_same_content(Checked(records, *checked), config)


def open_inputs(
    paths: Sequence[str], *, size: int = 224, interpolation: str = "bilinear"
) -> tuple[Sequence[str], Inputs, tuple[str, ...]]:
    """Open unlabelled samples as `list_inputs` does, and check every image.

    Args:
        paths, size, interpolation: As in `list_inputs`.

    Returns:
        Names of the samples, the samples, and notes on images that were left out.

    Raises:
        InputError: As `list_inputs`, or no image can be used.
    """
    left_out: list[str] = []
    ids, inputs = list_inputs(paths, size=size, interpolation=interpolation, report=left_out.append)
    if not isinstance(inputs, ImageFiles):
        return ids, inputs, ()
    digests, skipped = check_images(inputs.paths, max_pixels=inputs.max_pixels)
    notes = (*left_out, *note_unreadable(ids, skipped))
    usable = np.setdiff1d(np.arange(len(ids)), list(skipped))
    checked = replace(inputs, digests=digests)
    return tuple(ids[row] for row in usable), checked.take(usable), notes


def list_inputs(
    paths: Sequence[str],
    config: DataConfig | None = None,
    *,
    size: int = 224,
    interpolation: str = "bilinear",
    report: Callable[[str], None] = lambda line: None,
) -> tuple[Sequence[str], Inputs]:
    """Find unlabelled samples for prediction without reading any image.

    Args:
        paths: Images, folders with images at any depth, and CSV, TSV or Parquet files with a column of file
            names; or one .npz file or folder of feature shards; or one table of texts. Hidden files in
            folders are ignored, and a file that is named twice is read once.
        config: `images` is the folder that names in tables are relative to; `text` names the columns of
            texts; `max_pixels`, `draft` and `decoder`.
        size: Side in pixels to which image files are resized.
        interpolation: `nearest`, `bilinear`, `bicubic` or `lanczos`.
        report: Receives a line for what is left out of each folder: files that are not read, hidden ones.

    Returns:
        Names of the samples, in tables as they are written there, and the samples.

    Raises:
        InputError: A path is missing, nothing is found, or images and feature files are mixed.
    """
    config = replace(config or DataConfig(), flip=False)
    sources = [existing(path) for path in paths]
    if not sources:
        raise InputError("Nothing to predict: give images, folders of images or a .npz file.")
    for path in sources:
        suffix = path.suffix.lower()
        if suffix in (".arff", ".json", ".xml", ".txt") and path.is_file():  # which list labels
            raise InputError(
                f"{path}: images, folders of images, tables ({', '.join(TABLES)}), feature "
                f"shards or one .npz file can be predicted, not {suffix} files."
            )
        if len(sources) > 1 and (suffix == ".npz" or is_shards(Source(path))):
            what = "a .npz file" if suffix == ".npz" else "a folder of feature shards"
            raise InputError(f"{path}: {what} must be given alone, but there are {len(sources)} paths.")
    if config.text:
        path = sources[0]
        if len(sources) > 1 or path.suffix.lower() not in TABLES:
            found = f"{len(sources)} paths" if len(sources) > 1 else path
            raise InputError(
                f"{found}: the model takes texts: give one table ({', '.join(TABLES)}) with the columns "
                f"{config.text}."
            )
        ids, texts, notes = read_texts(open_table(path), config.text)
        for note in notes:
            report(note)
        return ids, texts
    if is_shards(Source(sources[0])):
        return shards.read_unlabelled(sources[0])
    if sources[0].suffix.lower() == ".npz":
        return features.read_unlabelled(sources[0])
    names, files = _list_files(sources, config.images, report)
    return names, _image_files(files, None, config, size, interpolation)


def list_samples(
    samples: Any, text: str = "", *, size: int = 224, interpolation: str = "bilinear"
) -> tuple[Sequence[str], Inputs]:
    """Understand unlabelled samples in memory for prediction, without loading any image.

    Args:
        samples: Samples as in `spml.train`.
        text: Columns of a DataFrame that hold texts, as `DataConfig.text`; empty for other samples.
        size, interpolation: As in `list_inputs`.

    Returns:
        Names of the samples, and the samples.

    Raises:
        InputError: The samples are of a type that is not understood, or a feature is not finite.
    """
    config = DataConfig(flip=False, text=text)
    if not text and has_files(samples, config):
        raise InputError(
            "X is a DataFrame of image files: pass the column of their names, such as X['file']."
        )
    ids, inputs = read_samples(samples, config)
    if isinstance(inputs, Sequence):
        return ids, _image_files(inputs, None, config, size, interpolation)
    if isinstance(inputs, Texts):
        return ids, inputs
    check_finite(inputs, MEMORY)
    return ids, inputs


def note_unreadable(ids: Sequence[str], skipped: Mapping[int, str]) -> tuple[str, ...]:
    """Note on the images that were left out, with reasons by row; refuses data of which none can be used."""
    if not skipped:
        return ()
    if len(skipped) == len(ids):
        raise InputError(f"No usable image among {counted(len(ids), 'file')}: {name_skipped(ids, skipped)}.")
    return (f"Skipped {counted(len(skipped), 'image')}: {name_skipped(ids, skipped)}.",)


def _list_files(
    sources: Sequence[Path], images: str | None, report: Callable[[str], None]
) -> tuple[Sequence[str], Sequence[Path]]:
    """Names and paths of the image files in `sources`, in their folders and in their tables, each once."""
    listed: list[tuple[Sequence[str], Sequence[Path]]] = []
    notes: list[str] = []
    for path in sources:
        if path.is_dir():
            listing = list_images(path)
            notes += [f"{path}: {note}" for note in listing.notes()]
            below = PackedNames.of(listing.images)
            beginning = (path / "x").as_posix()[:-1]
            listed.append((PackedNames.of(beginning + name for name in below), FilesBelow(path, below)))
        elif path.suffix.lower() in TABLES:
            listed.append(read_file_list(path, images))
        else:
            listed.append(((path.as_posix(),), (path,)))
    if not any(len(paths) for _, paths in listed):
        raise InputError(" ".join([f"{sources[0]}: holds no image ({', '.join(sorted(SUFFIXES))}).", *notes]))
    for note in notes:
        report(note)
    if len(listed) == 1 and isinstance(listed[0][1], FilesBelow):
        return listed[0]  # which are all different
    files: dict[Path, str] = {}
    for names, paths in listed:
        for name, file in zip(names, paths, strict=True):
            files.setdefault(file, name)
    return tuple(files.values()), tuple(files)


def _image_files(
    files: Sequence[ImageSource],
    digests: Sequence[str] | None,
    config: DataConfig,
    size: int,
    interpolation: str,
) -> ImageFiles:
    """Inputs that decode files, of which `digests` are not known before they are checked."""
    return ImageFiles(
        files,
        [""] * len(files) if digests is None else digests,
        size=size,
        interpolation=interpolation,
        flip=config.flip,
        crop=config.crop,
        max_pixels=config.max_pixels,
        draft=config.draft,
        decoder=config.decoder,
    )
