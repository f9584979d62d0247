"""The commands `spml data inspect`, `prepare` and `convert`. Heavy modules are imported when one runs."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from ..common.files import check_output, make_folder
from ..config import DataConfig, check, from_dict
from .own_network import add_backbone_argument

if TYPE_CHECKING:
    from ..data.inspection.report import Inspection
    from ..data.records import Records
    from ..data.writers import Inferred
    from ..runs.console import Console


def add_data_commands(parent: Any) -> None:
    """Add `data` and its sub-commands to the commands of `spml`."""
    parser = ArgumentParser(description="Look at data, prepare a benchmark, convert formats.")
    parent.add_subcommand("data", parser, help="look at data, prepare a benchmark, convert formats")
    commands = parser.add_subcommands(required=True)

    inspect = ArgumentParser(description="Report what a data set contains and what is odd about it.")
    inspect.add_argument("path", help="data, as for `spml train`")
    inspect.add_class_arguments(DataConfig, "data")
    inspect.add_argument(
        "--output", default="", help="folder for inspect.json, inspect.png and complete tables"
    )
    inspect.add_argument(
        "--propose_names",
        default="",
        metavar="FILE",
        help="CSV file to write: wanted names for class names that are probably mistakes, for --data.rename",
    )
    inspect.add_argument("--overwrite", action="store_true", help="replace the file of names if it exists")
    commands.add_subcommand("inspect", inspect, help="report what a data set contains")

    prepare = ArgumentParser(description="Check the official files of a benchmark and write its manifest.")
    prepare.add_argument("name", help="voc2012, coco2014, nuswide, nuswide-merged or cub200")
    prepare.add_argument("--root", required=True, help="folder that holds the official folders")
    commands.add_subcommand("prepare", prepare, help="check a benchmark's files")

    convert = ArgumentParser(
        description="Write the labels of data in another format; inferred labels stay apart from given ones."
    )
    convert.add_argument("path", help="data, as for `spml train`")
    convert.add_argument(
        "output", help="file to write; a folder for FiftyOne, and for COCO JSON of data with a split"
    )
    # Not a list of choices: the registry of writers imports torch, which --help does without.
    convert.add_argument(
        "--format",
        type=str,
        required=True,
        metavar="NAME",
        help="csv (a column per class), coco (COCO JSON), labelstudio (Label Studio JSON), fiftyone (a "
        "FiftyOne dataset), nan (.npz file with 1, 0 and NaN = unknown), cleanlab (.npz file with labels and "
        "all scores), or a format that another package registers",
    )
    convert.add_argument(
        "--predictions",
        default="",
        help="inferred labels: output of `spml predict`, pseudo-labels (.npz), or the folder of a run",
    )
    convert.add_argument(
        "--root",
        default="",
        help="folder that the names of image files are relative to; default: the folder of the output if all "
        "images lie below it, otherwise the folder of the data",
    )
    convert.add_argument("--overwrite", action="store_true", help="replace files that exist")
    add_backbone_argument(convert)
    convert.add_class_arguments(DataConfig, "data")
    commands.add_subcommand("convert", convert, help="write labels in another format")


def run_data(arguments: Namespace) -> None:
    """Run one of the commands of `spml data`."""
    command = arguments.subcommand
    {"inspect": _inspect, "prepare": _prepare, "convert": _convert}[command](arguments[command])


def _config(arguments: Namespace) -> DataConfig:
    settings: dict[str, Any] = arguments.data.as_dict()
    if settings["path"] not in ("", arguments.path):
        raise InputError(f"the data is named twice: {arguments.path} and --data.path {settings['path']}")
    config = from_dict({"data": {**settings, "path": arguments.path}})
    check(config)
    return config.data


# -- inspect ---------------------------------------------------------------------------------------------


def _inspect(arguments: Namespace) -> None:
    from ..data import inspect
    from ..runs.console import Console
    from .inspection import print_inspection

    console = Console()
    folder = Path(arguments.output) if arguments.output else None
    config = _config(arguments)
    names = Path(arguments.propose_names) if arguments.propose_names else None
    if names:
        _check_names(names, config, overwrite=arguments.overwrite)
    if folder:
        make_folder(folder)
    inspection = inspect(config, report=console.line, progress=console.progress)
    print_inspection(inspection)
    if folder:
        from ..plots import inspection_sheet

        inspection.write(folder)
        inspection_sheet(folder / "inspect.png", inspection)
        names_of_files = "inspect.json, inspect.png, classes.csv, duplicates.csv, unreadable.csv, skipped.csv"
        print(f"{folder}: {names_of_files} written")
    if names:
        print(_write_names(names, inspection, config))


def _check_names(path: Path, config: DataConfig, *, overwrite: bool) -> None:
    """Refuse, before the data is read, a file of names that can't be written.

    Raises:
        InputError: It can't, exists and is not to be replaced, or is no CSV file.
    """
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


def _prepare(arguments: Namespace) -> None:
    from ..data.benchmarks import prepare

    manifest = prepare(arguments.name, arguments.root, report=print)
    print(f"{manifest}: written. Train on it with the labels that the publications observed:")
    print(f"  spml train {shlex.quote(str(manifest))} --data.observe protocol --output runs/{arguments.name}")


# -- convert ---------------------------------------------------------------------------------------------


def _convert(arguments: Namespace) -> None:
    from ..common.phrases import counted
    from ..data.hiding import check_observe, hide
    from ..data.join import merge_unread
    from ..data.readers import read
    from ..data.writers import check_place, find_writer, named_from, write
    from ..runs.console import Console

    writer = find_writer(arguments.format)
    if writer.needs_scores and not arguments.predictions:
        raise InputError(
            f"--format {writer.name} needs the scores of all classes. Pass --predictions with the folder of "
            "a run, or with a file that `spml predict --scores all` wrote."
        )
    output = Path(arguments.output)
    check_place(output, writer)
    config = _config(arguments)
    check_observe(config)
    console = Console()
    records = merge_unread(read(config), config)
    if arguments.root:
        records = named_from(records, Path(arguments.root))
    if config.observe != "none":
        labels, note = hide(records, config)
        records = replace(records, labels=labels)
        console.line(note)
    if records.skipped:
        name, reason = records.skipped[0]
        console.line(f"{counted(len(records.skipped), 'sample')} left out, such as {name} ({reason}).")
    inferred = None
    if arguments.predictions:
        inferred, notes = _infer(Path(arguments.predictions), records, writer.needs_scores, console)
        for note in notes:
            console.line(note)
    notes = write(
        records, output, arguments.format, inferred, overwrite=arguments.overwrite, report=console.line
    )
    classes = counted(len(records.classes), "class", "classes")
    print(f"{output}: {counted(len(records.ids), 'sample')}, {classes}")
    for note in notes:
        print(note)


def _infer(
    source: Path, records: Records, all_scores: bool, console: Console
) -> tuple[Inferred, tuple[str, ...]]:
    """Inferred labels from a file, or predicted by the run in a folder; and notes."""
    from ..data.writers.samples import image_files
    from ..runs.decide.inferred_labels import match, predicted, read_inferred

    if not source.is_dir():
        return read_inferred(source, records, all_scores=all_scores)
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
    predictions = load(source).predict(paths, console=console)
    values: Any = predictions.scores
    expected: tuple[str, ...] = ()
    if predictions.probabilities is not None:
        from ..runs.decide.suggestions import make_suggestions

        suggestions = make_suggestions(predictions, records)
        # A tool that looks for wrong labels wants probabilities that do not know which labels are given.
        values = predictions.probabilities if all_scores else suggestions.probabilities
        expected = (suggestions.describe(),) if suggestions.number else ()
    scores = [dict(zip(predictions.classes, row, strict=True)) for row in values.tolist()]
    guesses = map(predicted, predictions.ids, predictions.labels, scores)
    inferred, notes = match(guesses, records, str(source), all_scores=all_scores)
    return inferred, (*predictions.notes, *notes, *expected)
