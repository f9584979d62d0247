"""Settings of the data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from ..common.errors import InputError, quoted
from .domains import Count, Fraction, Positive

_LARGEST, _MOST_SIZES = 8192, 3


@dataclass
class DataConfig:
    """Settings of the data: what to read, what to hide, how to split.

    Attributes:
        path: Folder (of class folders, PASCAL VOC, COCO, YOLO, Hugging Face), table (CSV, TSV,
            Parquet), JSON of COCO or Label Studio, features (.npz, .arff), or `digits`.
        images: Folder of the images that a data file names, if it is neither the folder of the file nor one
            next to it. For an image folder: a further folder that links in it may point to.
        classes: Text file with the name of a class per line, for photos of which no label is known: a folder
            of them at any depth, or a table that names them. `model.names` then scores them by these names.
        keywords: The labels of photos in a folder are their keywords, as photo programs write them: in the
            photo (IPTC, XMP) or in an XMP file next to it. Names of folders are not read.
        unlisted: Meaning of a label that the data does not list: `unknown`; `negative`, all absent, so that
            the data is fully labelled; `negative:cat,dog`, absent for these classes only; or `column:NAME`,
            absent for the classes that this column of a table lists.
        rename: CSV or TSV file with two columns, given and wanted class names, or in Python such a mapping.
            An empty wanted name leaves the class out; names with the same wanted name are merged.
        observe: Hide labels of fully labelled data; hidden labels serve evaluation only. Keep one positive
            per sample, drawn uniformly: `single`; by the frequency of its class: `frequency`; by a random
            salience of its class: `salience`; by the area of its largest box: `size`; by how close a box is
            to the centre of the image: `position`. Or keep some labels of both signs per sample: `counts`; a
            share of all labels: `fraction`; the answers to questions about one class after another, up to
            the first yes: `questions`; the labels that the publication of a benchmark observed, or the array
            `observed` of a .npz file: `protocol`.
        observe_seed: Seed of the draw of `observe`.
        observe_positives: Number of positives that `counts` keeps of each sample, or all if there are fewer.
        observe_negatives: Number of negatives that `counts` keeps of each sample, or all if there are fewer.
        observe_share: Share of all labels, positive and negative, that `fraction` keeps.
        observe_power: Strength of the preference of `frequency`, `size` and `position`: the chance is
            proportional to measure ^ power; 0 is `single`, and below 0 rare, small, outer ones are preferred.
            For `salience` the standard deviation of its logarithm.
        observe_all_negatives: Also keep every true negative where a rule keeps one positive per sample; the
            other positives stay hidden.
        observe_noise: Share of the observed positives that are replaced by a label that is absent, where a
            rule keeps one positive per sample; true labels stay as they are.
        missing: Files that the data names and that do not exist: `stop` with their number and the first
            ones, or `skip` them and list them in skipped.csv.
        unlabelled: Samples about which the data says nothing, such as rows with an empty label: `skip` or
            `stop`, likewise. With `unlisted` negative, an empty list of labels says that none applies.
        same_content: Equal files in class folders: `merge` those of a split, with all labels, or `keep` each.
        split: Use the split that the data has (`given`), or split all samples again by the shares (`ignore`).
        val_share: Share of the training samples held out for validation where the data has no split,
            stratified by class; the last training sample of a class is never held out.
        test_share: Share of all samples set aside for the test where the data has no split, likewise; 0 = no
            test.
        stratify: Draw both splits such that every class has the same share in them, as far as labels are
            observed, and keep the last sample of a class for training. A comparison (`spml bench`) draws them
            whatever the labels, so that ways of hiding and candidates share them.
        split_seed: Seed of both splits.
        sample_rows: Use this many samples only, drawn at random; 0 = all.
        sample_classes: Use this many classes only, drawn at random among those that occur, and the samples
            that have one of them or none at all; 0 = all.
        sample_seed: Seed of both draws.
        label_columns: Attributes of an ARFF file that are labels: N for the first N, -N for the last N; 0 =
            as its .xml file or @relation says.
        text: Columns of a table whose text is the sample, after commas, such as `title,abstract`: each row is
            a text instead of an image.
        file_column: Column of a table that names the images; default: `file`, `image`, `path`, `id` or a
            similar name. For a Hugging Face data set the column that holds them. Of texts, a column that
            names them; default: `id`, otherwise the number of the row.
        label_column: Column of a table that holds the labels; default: `label`, `tag`, `category`, `class`, a
            plural or the like. `CAT,DOG`: columns that stand for one class each, or, if they hold words, that
            hold the labels together.
        split_column: Column of a table that holds the split; default: `split`, or one with names of splits.
        group: Column of a table, or array of a feature file, that says which samples belong together, such as
            those of a patient, a recording, an author or a burst. Splits and folds never separate a group,
            and intervals are those of a bootstrap over groups. A blank cell is a group of its own.
        separator: Separator of labels in one cell of a table; default: that of the rules in `docs/data.md`.
            Empty: every cell is one label.
        marks: Marks at names in cells: `read` that `-dog` and `no dog` are absent and `dog?` is unknown, and
            refuse scores and counts such as `dog:0.82`; `cut` scores and counts off; or `keep` every name as
            it is.
        present_above: A number above this says that a class is present, and another one that it is absent, in
            columns that stand for a class each; default: such columns hold marks, not numbers.
        one_hot: Names of the places of lists such as `[1, 0, 1]` in the column of labels, after commas.
        size: Side in pixels to which images are resized: a number; several after commas, such as `224,320`,
            whose scores the auto head averages; 0, the size that the backbone was trained with; or `auto`:
            for an auto head on a frozen network of timm, the best one or two of that size and up to two
            larger ones that suit the photographs, else 0.
        flip: Mirror training images at random (never done for digits and feature files).
        crop: Train on a random part of each image, another one in each epoch, with at least this share of its
            area; 1 = the whole images. For image files whose backbone is trained.
        max_unreadable: Share of unreadable images above which reading stops.
        max_pixels: An image with more pixels is not opened.
        draft: Decode a JPEG at 1/2, 1/4 or 1/8 of its size if twice `size` is left on both sides. Faster for
            photos of several megapixels; pixels differ by about 1 of 255 from those of plain resizing.
        decoder: What decodes and resizes images: `pillow`; or `torchvision`, which is faster and rounds
            differently when it resizes. `spml predict`, `evaluate` and `serve` load images with the `decoder`
            and `draft` of the run; exported files resize as Pillow does.
        workers: Number of processes that decode images; -1 = one per core, at most 8.
        cache: Folder for computed features; default: `features` in the folder of the run.
    """

    path: str = ""
    images: str | None = None
    classes: str = ""
    keywords: bool = False
    unlisted: str = "unknown"
    rename: str | dict[str, str] = ""
    observe: Literal[
        "none", "single", "counts", "fraction", "frequency", "salience", "size", "position", "questions",
        "protocol",
    ] = "none"  # fmt: skip
    observe_seed: int = 0
    observe_positives: int = 1
    observe_negatives: int = 0
    observe_share: float = 0.1
    observe_power: float = 1.0
    observe_all_negatives: bool = False
    observe_noise: float = 0.0
    missing: Literal["stop", "skip"] = "stop"
    unlabelled: Literal["skip", "stop"] = "skip"
    same_content: Literal["merge", "keep"] = "merge"
    split: Literal["given", "ignore"] = "given"
    val_share: Annotated[float, Meta(gt=0, lt=1, description="between 0 and 1")] = 0.2
    test_share: Fraction = 0.0
    split_seed: int = 0
    stratify: bool = True
    sample_rows: Count = 0
    sample_classes: int = 0
    sample_seed: int = 0
    label_columns: int = 0
    text: str = ""
    file_column: str = ""
    label_column: str = ""
    split_column: str = ""
    group: str = ""
    separator: str | None = None
    marks: Literal["read", "cut", "keep"] = "read"
    present_above: float | None = None
    one_hot: str = ""
    size: str | int = "auto"
    flip: bool = True
    crop: Annotated[float, Meta(ge=0.01, le=1, description="from 0.01 to 1")] = 1.0
    max_unreadable: Annotated[float, Meta(ge=0, le=1, description="in [0, 1]")] = 0.01
    max_pixels: Positive = 100_000_000
    draft: bool = False
    decoder: Literal["pillow", "torchvision"] = "pillow"
    workers: int = -1
    cache: str | None = None

    def __post_init__(self) -> None:
        """Check `unlisted`, a text of which many functions read a part."""
        forms = r"unknown|negative|(negative|column):.*\S.*"
        if not isinstance(self.unlisted, str) or not re.fullmatch(forms, self.unlisted, re.DOTALL):
            raise InputError(
                "data.unlisted must be unknown, negative, negative:CLASS,CLASS or column:NAME, got "
                f"{quoted(self.unlisted)}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of images that are stated, ascending; none for `auto` and 0.

        Raises:
            InputError: `size` is neither `auto` nor numbers from 0 to 8192, or states more than three.
        """
        if self.size == "auto":
            return ()
        texts = str(self.size).replace(" ", "").split(",")
        if not all(re.fullmatch("[0-9]{1,4}", text) and int(text) <= _LARGEST for text in texts):
            raise InputError(
                f"data.size must be auto, or numbers from 0 to {_LARGEST} such as 320 or 224,320, got "
                f"{quoted(self.size)}"
            )
        sizes = {int(text) for text in texts}
        if len(texts) > 1 and (0 in sizes or len(sizes) < len(texts) or len(sizes) > _MOST_SIZES):
            raise InputError(
                f"data.size={self.size}: state one size, or two or three different ones above 0."
            )
        return tuple(sorted(sizes - {0}))

    @property
    def side(self) -> int:
        """Side in pixels with which images are loaded: the largest stated size; 0 if none is stated."""
        return max(self.sizes, default=0)

    @property
    def default_label(self) -> Literal["unknown", "negative"]:
        """Meaning of an unlisted label of a class that `unlisted` does not name, in a row without a rule."""
        return "negative" if self.unlisted == "negative" else "unknown"

    @property
    def checked_column(self) -> str:
        """Column that lists the classes that were looked for, if `unlisted` names one; otherwise empty."""
        return self.unlisted.removeprefix("column:") if self.unlisted.startswith("column:") else ""
