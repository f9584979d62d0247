"""The commands `spml data inspect`, `prepare` and `convert`. Heavy modules are imported when one runs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import InputError
from ..common.files import check_new, check_output, make_folder
from ..common.messages import log
from ..common.phrases import counted, first_few
from ..config import DataConfig
from .arguments import DataSettings
from .shared import Network, Tables, data_config, new_table, print_table

if TYPE_CHECKING:
    from ..data.class_names import Proposal
    from ..data.inspection import Inspection
    from ..data.records import Records
    from ..data.writers import Inferred


# -- inspect ---------------------------------------------------------------------------------------------


def data_inspect(
    path: str,
    *,
    data: DataSettings,
    tables: Tables,
    output: Path | None = None,
    propose_names: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Report what a data set contains and what is odd about it.

    Args:
        path: Data, as for `spml train`.
        data: Settings of the data.
        tables: How names are written.
        output: Folder for inspect.json, inspect.png and complete tables.
        propose_names: CSV file to write: wanted names for class names that are probably mistakes, for
            --data.rename.
        overwrite: Replace the file of names if it exists.
    """
    from ..data import inspect

    config = data_config(data, path)
    if propose_names and tables.spreadsheet_safe:
        raise InputError(
            "--propose_names writes names for --data.rename as they are: leave --spreadsheet_safe out."
        )
    if propose_names:
        _check_names(propose_names, config, overwrite=overwrite)
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
    if propose_names:
        print(_write_names(propose_names, inspection, config))


def _check_names(path: Path, config: DataConfig, *, overwrite: bool) -> None:
    """Refuse, before the data is read, a file of names that can't be written."""
    if path.suffix.lower() != ".csv":
        raise InputError(f"--propose_names {path}: is written as CSV. Name a file that ends in .csv.")
    check_new(path, overwrite=overwrite, other="another file (--propose_names)")
    check_output(path, [Path(config.path)] if Path(config.path).is_file() else [])


def _write_names(path: Path, inspection: Inspection, config: DataConfig) -> str:
    """Write proposed names, next to those that were applied. Returns a line that says so and how to go on."""
    from ..data import wanted_names, write_names

    proposals = inspection.names
    if not proposals:
        return f"{path}: not written, since no class name looks like a mistake"
    wanted = {each.given: each.wanted for each in proposals}
    applied = {given: wanted.get(name, name) for given, name in wanted_names(config).items()}
    write_names(path, {**wanted, **applied})
    kinds = Counter(each.why for each in proposals)
    return (
        f"{path}: {counted(len(proposals), 'proposal')} written "
        f"({', '.join(f'{kind}: {count:,}' for kind, count in kinds.items())}). Check them, then: "
        f"spml train {shlex.quote(config.path)} --data.rename {shlex.quote(str(path))}"
    )


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
    _print_label_means(inspection)
    _print_content(inspection)
    _print_classes(inspection)
    _print_rare_classes(inspection)
    _print_names(inspection.names)
    _print_duplicates(inspection)
    if inspection.unreadable:
        unreadable, images = len(inspection.unreadable), counted(inspection.samples, "image")
        print(f"unreadable: {unreadable:,} of {images}")
        for name, reason in inspection.unreadable[:_LIMIT]:
            print(f"  {_printable(name)}: {reason}")
    for note in inspection.training:
        print(f"training: {note}")
    if inspection.refused:
        print(f"training is refused: {inspection.refused}")


def _print_label_means(inspection: Inspection) -> None:
    """Print how many labels are true, observed and hidden in each split, where training is possible."""
    if not inspection.label_means:
        return
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


def _print_content(inspection: Inspection) -> None:
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


def _print_rare_classes(inspection: Inspection) -> None:
    if rare := inspection.rare:
        print(
            f"rare: {counted(len(rare), 'class', 'classes')} with 1 to 9 positives: {_first(map(repr, rare))}"
        )
    for split, names in inspection.without_positive.items():
        if names:
            where = "" if split == "all" else f" in {split}"
            total = counted(len(inspection.classes), "class", "classes")
            print(f"no positive{where}: {len(names):,} of {total}: {_first(map(repr, names))}")


def _print_names(proposals: Sequence[Proposal]) -> None:
    if proposals:
        names = [f"{each.given!r} -> {each.wanted!r} ({each.why})" for each in proposals]
        print(f"class names, {counted(len(names), 'probable mistake')}: {_first(names)}")
        print("  --propose_names FILE writes them for --data.rename")


def _print_duplicates(inspection: Inspection) -> None:
    groups = inspection.duplicates
    if not groups:
        print("duplicates: none")
        return
    surplus = sum(len(group.ids) - 1 for group in groups)
    across = [group for group in groups if group.across]
    differ = sum(group.labels_differ for group in groups)
    print(
        f"duplicates: {counted(len(groups), 'group')} of equal samples ({surplus:,} more samples than "
        f"contents); {counted(len(across), 'group')} in several splits; {differ:,} with different labels"
    )
    for group in (across or groups)[:_LIMIT]:
        members = (f"{name} ({split})" for name, split in zip(group.ids, group.splits, strict=True))
        print(f"  {_printable(_first(members))}")


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
    network: Network,
    tables: Tables,
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
        network: Network of the user's own.
        tables: How names are written.
        format: csv (a column per class), coco (COCO JSON), labelstudio (Label Studio JSON), nan (.npz
            file with 1, 0 and NaN = unknown), or a format that another package registers.
        predictions: Inferred labels: output of `spml predict`, pseudo-labels (.npz), or the folder of a run.
        root: Folder that the names of image files are relative to; default: the folder of the output if all
            images lie below it, otherwise the folder of the data.
        overwrite: Replace files that exist.
    """
    from ..data.hiding import check_observe, hide
    from ..data.join import merge_unread
    from ..data.readers import read
    from ..data.writers import check_place, find_writer, named_from, write

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
        inferred, notes = _infer(predictions, records)
        for note in notes:
            log.info(note)
    notes = write(records, output, format, inferred, overwrite=overwrite)
    classes = counted(len(records.classes), "class", "classes")
    print(f"{output}: {counted(len(records.ids), 'sample')}, {classes}")
    for note in notes:
        print(note)


def _infer(source: Path, records: Records) -> tuple[Inferred, tuple[str, ...]]:
    """Inferred labels from a file, or predicted by the run in a folder; and notes."""
    from ..data.writers.samples import image_files
    from ..runs.decide.inferred_labels import match, predicted, read_inferred

    if not source.is_dir():
        return read_inferred(source, records)
    from ..runs.run import load

    files = image_files(records)
    if files is not None:
        paths = [str(file) for file in files]
    elif records.source.lower().endswith(".npz"):
        paths = [records.source]
    else:
        raise InputError(
            f"{source}: a run predicts image files and .npz files, but {records.source} holds neither. "
            "Predict first (spml predict), and pass the file as --predictions."
        )
    model = load(source)
    predictions = model.predict(paths)
    values: Any = predictions.scores
    expected: tuple[str, ...] = ()
    if model.calibration is not None:
        from ..runs.decide.inferred_labels import make_suggestions

        suggestions = make_suggestions(predictions, records, model.calibration, model.scale)
        values = suggestions.probabilities
        expected = (suggestions.describe(),) if suggestions.number else ()
    scores = [dict(zip(predictions.classes, row, strict=True)) for row in values.tolist()]
    guesses = map(predicted, predictions.ids, predictions.labels, scores)
    inferred, notes = match(guesses, records, str(source))
    return inferred, (*predictions.notes, *notes, *expected)
