"""The commands `spml data inspect`, `prepare` and `convert`. Heavy modules are imported when one runs."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import InputError
from ..common.files import check_output, make_folder
from ..config import DataConfig
from .arguments import DataSettings
from .shared import Network, Tables, data_config

if TYPE_CHECKING:
    from ..data.inspection.report import Inspection
    from ..data.records import Records
    from ..data.writers import Inferred
    from ..runs.console import Console


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
    from ..runs.console import Console
    from .inspection import print_inspection

    console = Console()
    config = data_config(data, path)
    if propose_names and tables.spreadsheet_safe:
        raise InputError(
            "--propose_names writes names for --data.rename as they are: leave --spreadsheet_safe out."
        )
    if propose_names:
        _check_names(propose_names, config, overwrite=overwrite)
    if output:
        make_folder(output)
    inspection = inspect(config, report=console.line, progress=console.progress)
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
    if path.exists() and not overwrite:
        raise InputError(f"{path}: exists. Replace it (--overwrite), or name another file (--propose_names).")
    check_output(path, [Path(config.path)] if Path(config.path).is_file() else [])


def _write_names(path: Path, inspection: Inspection, config: DataConfig) -> str:
    """Write proposed names, next to those that were applied. Returns a line that says so and how to go on."""
    from ..common.phrases import counted
    from ..data import wanted_names, write_names
    from ..data.inspection.class_names import propose_names

    proposals = propose_names({each.name: each.positive for each in inspection.classes})
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


# -- prepare ---------------------------------------------------------------------------------------------


def data_prepare(name: str, *, root: str) -> None:
    """Check the official files of a benchmark and write its manifest.

    Args:
        name: voc2012, coco2014, nuswide, nuswide-merged or cub200.
        root: Folder that holds the official folders.
    """
    from ..data.benchmarks import prepare

    manifest = prepare(name, root, report=print)
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
    from ..common.phrases import counted
    from ..data.hiding import check_observe, hide
    from ..data.join import merge_unread
    from ..data.readers import read
    from ..data.writers import check_place, find_writer, named_from, write
    from ..runs.console import Console

    writer = find_writer(format)
    check_place(output, writer)
    config = data_config(data, path)
    check_observe(config)
    console = Console()
    records = merge_unread(read(config), config)
    if root:
        records = named_from(records, root)
    if config.observe != "none":
        labels, note = hide(records, config)
        records = replace(records, labels=labels)
        console.line(note)
    if records.skipped:
        name, reason = records.skipped[0]
        console.line(f"{counted(len(records.skipped), 'sample')} left out, such as {name} ({reason}).")
    inferred = None
    if predictions:
        inferred, notes = _infer(predictions, records, console)
        for note in notes:
            console.line(note)
    notes = write(records, output, format, inferred, overwrite=overwrite, report=console.line)
    classes = counted(len(records.classes), "class", "classes")
    print(f"{output}: {counted(len(records.ids), 'sample')}, {classes}")
    for note in notes:
        print(note)


def _infer(source: Path, records: Records, console: Console) -> tuple[Inferred, tuple[str, ...]]:
    """Inferred labels from a file, or predicted by the run in a folder; and notes."""
    from ..data.writers.samples import image_files
    from ..runs.decide.inferred_labels import match, predicted, read_inferred

    if not source.is_dir():
        return read_inferred(source, records)
    from ..runs.api import load

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
    predictions = model.predict(paths, console=console)
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
