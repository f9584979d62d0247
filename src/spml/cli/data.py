"""The commands `spml data inspect`, `prepare` and `convert`. Heavy modules are imported when one runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.files import make_folder
from ..common.messages import log
from ..common.phrases import counted, first_few
from .arguments import DataSettings
from .shared import data_config, new_table, print_table

if TYPE_CHECKING:
    from ..data.inspection import Inspection


# -- inspect ---------------------------------------------------------------------------------------------


def data_inspect(
    path: str,
    *,
    data: DataSettings,
    output: Path | None = None,
) -> None:
    """Report what a data set contains and what is odd about it.

    Args:
        path: Data, as for `spml train`.
        data: Settings of the data.
        output: Folder for inspect.json, inspect.png and complete tables.
    """
    from ..data import inspect

    config = data_config(data, path)
    if output:
        make_folder(output)
    inspection = inspect(config)
    print_inspection(inspection)
    if output:
        from ..plots import inspection_sheet

        inspection.write(output)
        inspection_sheet(output / "inspect.png", inspection)
        names_of_files = "inspect.json, inspect.png, classes.csv, duplicates.csv, unreadable.csv, skipped.csv"
        print(f"{output}: {names_of_files} written")


_EXTENT = {
    "full": "every label is known",
    "partial": "some labels are known",
    "single-positive": "one positive label per sample is known, all others are unknown",
}
_FIRST_ROWS, _LAST_ROWS = 30, 10  # classes that are shown, the most and the least frequent
_LIMIT = 5  # findings of each kind that are shown


def print_inspection(inspection: Inspection) -> None:
    """Print counts, oddities and what training would say."""
    sizes = ", ".join(f"{name} {count:,}" for name, count in inspection.splits.items())
    split = sizes if "all" not in inspection.splits else "no split"
    noun = {"feature": "feature vector"}.get(inspection.kind, inspection.kind)
    groups = f"; {counted(inspection.groups, 'group')}" if inspection.groups else ""
    print(f"{inspection.name}: {counted(inspection.samples, noun)}; {split}{groups}")
    for note in inspection.notes:
        print(f"  {note}")
    counts = list(inspection.labels_per_sample)
    print(
        f"labels: {_EXTENT[inspection.extent]}; {inspection.mean_labels:.2f} known positives per sample "
        f"({min(counts)} to {max(counts)}); {counted(inspection.nothing_known, 'sample')} without any known "
        "label"
    )
    if inspection.label_means:  # where training is possible
        columns = {
            "positives": "positives",
            "negatives": "negatives",
            "observed_positives": "observed positives",
            "observed_negatives": "observed negatives",
            "hidden_positives": "hidden positives",
        }
        if any(means.wrong_positives for means in inspection.label_means.values()):
            columns["wrong_positives"] = "wrong positives"
        table = new_table(("mean per sample", "samples", *columns.values()))
        for split, means in inspection.label_means.items():
            values = (getattr(means, name) for name in columns)
            cells = ("unknown" if value is None else f"{value:.2f}" for value in values)
            table.add_row(split, f"{means.samples:,}", *cells)
        print()
        print_table(table)
        print()
    for name, unit in (("width", "pixels"), ("height", "pixels"), ("words", "per text")):
        if numbers := getattr(inspection, name):
            print(f"{name}: {numbers[0]:,} to {numbers[2]:,} {unit}, median {numbers[1]:,.0f}")
    if features := inspection.features:
        parts = f" (mean of {features.parts:,} parts)" if features.parts else ""
        print(
            f"features: {features.width:,} per sample{parts}, {features.density:.1%} of the values are not "
            f"0; {features.smallest:.4g} to {features.largest:.4g}"
        )
        if features.constant:
            count = counted(len(features.constant), "feature is", "features are")
            print(f"  {count} constant: columns {_first(features.constant)}")
    _print_classes(inspection)
    if rare := inspection.rare:
        print(
            f"rare: {counted(len(rare), 'class', 'classes')} with 1 to 9 positives: {_first(map(repr, rare))}"
        )
    for split, names in inspection.without_positive.items():
        if names:
            where = "" if split == "all" else f" in {split}"
            total = counted(len(inspection.classes), "class", "classes")
            print(f"no positive{where}: {len(names):,} of {total}: {_first(map(repr, names))}")
    if duplicates := inspection.duplicates:
        surplus = sum(len(group.ids) - 1 for group in duplicates)
        across = [group for group in duplicates if group.across]
        differ = sum(group.labels_differ for group in duplicates)
        print(
            f"duplicates: {counted(len(duplicates), 'group')} of equal samples ({surplus:,} more samples "
            f"than contents); {counted(len(across), 'group')} in several splits; {differ:,} with different "
            "labels"
        )
        for group in (across or duplicates)[:_LIMIT]:
            members = (f"{name} ({split})" for name, split in zip(group.ids, group.splits, strict=True))
            print(f"  {_printable(_first(members))}")
    else:
        print("duplicates: none")
    if inspection.unreadable:
        unreadable, images = len(inspection.unreadable), counted(inspection.samples, "image")
        print(f"unreadable: {unreadable:,} of {images}")
        for name, reason in inspection.unreadable[:_LIMIT]:
            print(f"  {_printable(name)}: {reason}")
    for note in inspection.training:
        print(f"training: {note}")
    if inspection.refused:
        print(f"training is refused: {inspection.refused}")


def _print_classes(inspection: Inspection) -> None:
    from rich.text import Text

    splits = [name for name in inspection.splits if name != "all"]
    # The column would repeat that of the train split where no label is hidden and no sample held out.
    differs = any(c.training != c.by_split.get("train") for c in inspection.classes)
    with_training = not inspection.refused and differs
    training = ["training"] if with_training else []
    table = new_table(("class", "positive", "negative", "unknown", *splits, *training))
    table.columns[0].max_width = 40
    ranked = sorted(inspection.classes, key=lambda c: -c.positive)
    left_out = max(0, len(ranked) - _FIRST_ROWS - _LAST_ROWS)
    for row, c in enumerate(ranked):
        if left_out and row == _FIRST_ROWS:
            table.add_row("...")
        if left_out and _FIRST_ROWS <= row < len(ranked) - _LAST_ROWS:
            continue
        counts = [c.positive, c.negative, c.unknown, *(c.by_split[name] for name in splits)]
        if with_training:
            counts.append(c.training or 0)
        # Text, since a name in brackets would be treated as markup.
        table.add_row(Text(_printable(c.name)), *(f"{count:,}" for count in counts))
    print()
    print_table(table)
    if left_out:
        more = counted(left_out, "more class", "more classes")
        print(f"({more}; with --output, all are in classes.csv)")
    print()


def _printable(text: str) -> str:
    """Text from a file without the characters that steer a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _first(values: Iterable[object]) -> str:
    return first_few(list(map(str, values)), _LIMIT)


# -- prepare ---------------------------------------------------------------------------------------------


def data_prepare(name: str, *, root: str) -> None:
    """Check the official files of a benchmark and write its manifest.

    Args:
        name: voc2012, coco2014, nuswide, nuswide-merged or cub200.
        root: Folder that holds the official folders.
    """
    from ..data.benchmarks import prepare

    manifest = prepare(name, root)
    print(f"{manifest}: written. Train on it with the labels that the publications observed:")
    print(f"  spml train {shlex.quote(str(manifest))} --data.observe protocol --output runs/{name}")


# -- convert ---------------------------------------------------------------------------------------------


def data_convert(
    path: str,
    output: Path,
    *,
    data: DataSettings,
    format: str,
    predictions: Path | None = None,
    root: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write the labels of data in another format; inferred labels stay apart from given ones.

    Args:
        path: Data, as for `spml train`.
        output: File to write; a folder for COCO JSON of data with a split.
        data: Settings of the data.
        format: csv (a column per class), coco (COCO JSON), labelstudio (Label Studio JSON), nan (.npz
            file with 1, 0 and NaN = unknown), or a format that another package registers.
        predictions: Inferred labels: output of `spml predict` (CSV, TSV or Parquet).
        root: Folder that the names of image files are relative to; default: the folder of the output if all
            images lie below it, otherwise the folder of the data.
        overwrite: Replace files that exist.
    """
    from ..data.hiding import check_observe, hide
    from ..data.join import merge_unread
    from ..data.readers import read
    from ..data.writers import check_place, find_writer, named_from, write
    from ..runs.decide.inferred_labels import read_inferred

    writer = find_writer(format)
    check_place(output, writer)
    config = data_config(data, path)
    check_observe(config)
    records = merge_unread(read(config), config)
    if root:
        records = named_from(records, root)
    if config.observe != "none":
        labels, note = hide(records, config)
        records = replace(records, labels=labels)
        log.info(note)
    if records.skipped:
        name, reason = records.skipped[0]
        log.info(f"{counted(len(records.skipped), 'sample')} left out, such as {name} ({reason}).")
    inferred = None
    if predictions:
        inferred, notes = read_inferred(predictions, records)
        for note in notes:
            log.info(note)
    notes = write(records, output, format, inferred, overwrite=overwrite)
    classes = counted(len(records.classes), "class", "classes")
    print(f"{output}: {counted(len(records.ids), 'sample')}, {classes}")
    for note in notes:
        print(note)
