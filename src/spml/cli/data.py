"""The commands `spml data inspect`, `prepare` and `convert`. Heavy modules are imported when one runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ..config import DataConfig, from_dict
from ..errors import InputError
from ..files import make_folder

if TYPE_CHECKING:
    from ..data.inspection.class_names import Finding
    from ..data.inspection.report import Inspection
    from ..data.records import Records
    from ..data.writers import Inferred
    from ..runs.console import Console

_EXTENT = {
    "full": "every label is known",
    "partial": "some labels are known",
    "single-positive": "one positive label per sample is known, nothing else",
}
_ROWS = 40  # classes shown on the screen
_LINES = 5  # of each kind of finding shown on the screen


def add_data_commands(parent: Any) -> None:
    """Add `data` and what belongs to it to the commands of `spml`."""
    parser = ArgumentParser(description="Look at data, prepare a benchmark, convert formats.")
    parent.add_subcommand("data", parser, help="look at data, prepare a benchmark, convert formats")
    commands = parser.add_subcommands(required=True)

    inspect = ArgumentParser(description="Say what data holds, and what is odd about it.")
    inspect.add_argument("path", help="data, as for `spml train`")
    inspect.add_class_arguments(DataConfig, "data")
    inspect.add_argument(
        "--output", default="", help="folder for inspect.json, inspect.png and complete tables"
    )
    commands.add_subcommand("inspect", inspect, help="say what data holds")

    prepare = ArgumentParser(description="Check the official files of a benchmark and write its manifest.")
    prepare.add_argument("name", help="voc2012, coco2014, nuswide or cub200")
    prepare.add_argument("--root", required=True, help="folder that holds the official folders")
    prepare.add_argument("--download", action="store_true", help="get what is missing, where that is allowed")
    commands.add_subcommand("prepare", prepare, help="check a benchmark's files")

    convert = ArgumentParser(
        description="Write the labels of data in another format; inferred labels stay apart from given ones."
    )
    convert.add_argument("path", help="data, as for `spml train`")
    convert.add_argument("output", help="file to write; a folder for COCO JSON of data with a split")
    convert.add_argument(
        "--format",
        type=Literal["csv", "coco", "labelstudio", "nan"],
        required=True,
        help="a column per class; COCO JSON; Label Studio JSON; an .npz file with 1, 0 and NaN = unknown",
    )
    convert.add_argument(
        "--predictions",
        default="",
        help="inferred labels: what `spml predict` wrote, pseudo-labels (.npz), or the folder of a run",
    )
    convert.add_argument("--overwrite", action="store_true", help="replace what is at the output")
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
    return from_dict({"data": {**settings, "path": arguments.path}}).data


# -- inspect ---------------------------------------------------------------------------------------------


def _inspect(arguments: Namespace) -> None:
    from ..data import inspect
    from ..runs.console import Console

    console = Console()
    folder = Path(arguments.output) if arguments.output else None
    if folder:
        make_folder(folder)
    found = inspect(_config(arguments), report=console.line, progress=console.progress)
    _print_inspection(found)
    if folder:
        from ..plots.data import inspection_sheet

        found.write(folder)
        inspection_sheet(folder / "inspect.png", found)
        print(f"{folder}: inspect.json, inspect.png, classes.csv, duplicates.csv, unreadable.csv written")


def _print_inspection(found: Inspection) -> None:
    sizes = ", ".join(f"{name} {count:,}" for name, count in found.splits.items())
    kind = "images" if found.kind == "image" else "feature vectors"
    print(f"{found.name}: {found.samples:,} {kind}; {sizes if 'all' not in found.splits else 'no split'}")
    for note in found.notes:
        print(f"  {note}")
    counts = list(found.labels_per_sample)
    print(
        f"labels: {_EXTENT[found.extent]}; {found.mean_labels:.2f} known positives per sample "
        f"({min(counts)} to {max(counts)}); {found.nothing_known:,} samples of which nothing is known"
    )
    _print_content(found)
    _print_classes(found)
    _print_counts(found)
    _print_names(found.names)
    _print_duplicates(found)
    if found.unreadable:
        print(f"unreadable: {len(found.unreadable):,} of {found.samples:,} images")
        for name, reason in found.unreadable[:_LINES]:
            print(f"  {_printable(name)}: {reason}")
    for note in found.training:
        print(f"training: {note}")
    if found.refused:
        print(f"training is refused: {found.refused}")


def _print_content(found: Inspection) -> None:
    if found.images:
        for side in ("width", "height"):
            least, median, most = getattr(found.images, side)
            print(f"{side}: {least:,} to {most:,} pixels, median {median:,.0f}")
        tallest, widest = found.images.tallest, found.images.widest
        if tallest[1] < widest[1]:
            print(f"width / height: {tallest[1]:.2f} ({tallest[0]}) to {widest[1]:.2f} ({widest[0]})")
    if found.features:
        f = found.features
        print(
            f"features: {f.width:,} per sample, {f.density:.1%} of the values are not 0; "
            f"{f.smallest:.4g} to {f.largest:.4g}; ranges of columns {f.scales[0]:.3g} to {f.scales[1]:.3g}"
        )
        if f.constant:
            print(f"  {len(f.constant):,} features are constant: columns {_some(f.constant)}")
        if f.non_finite:
            print(f"  {f.non_finite:,} values are NaN or infinite: rows {_some(f.rows_non_finite)}")


def _print_classes(found: Inspection) -> None:
    from rich.console import Console as RichConsole
    from rich.table import Table
    from rich.text import Text

    splits = [name for name in found.splits if name != "all"]
    hidden = not found.refused and any(c.training != c.by_split.get("train") for c in found.classes)
    table = Table(box=None, pad_edge=False)
    table.add_column("class", no_wrap=True, max_width=40)
    for column in ("positive", "negative", "unknown", *splits, *(["training"] if hidden else [])):
        table.add_column(column, justify="right", no_wrap=True)
    ranked = sorted(found.classes, key=lambda c: -c.positive)
    left = len(ranked) - _ROWS
    if left > 0:
        ranked = ranked[: _ROWS * 3 // 4] + ranked[-(_ROWS // 4) :]
    for place, c in enumerate(ranked):
        if left > 0 and place == _ROWS * 3 // 4:
            table.add_row("...")
        counts = [c.positive, c.negative, c.unknown, *(c.by_split[name] for name in splits)]
        if hidden:
            counts.append(c.training or 0)
        # Text, since a name in brackets would be taken for markup.
        table.add_row(Text(_printable(c.name)), *(f"{count:,}" for count in counts))
    print()
    RichConsole(width=None if sys.stdout.isatty() else 160).print(table)
    if left > 0:
        print(f"({left:,} more classes; with --output all are in classes.csv)")
    print()


def _print_counts(found: Inspection) -> None:
    imbalance = found.imbalance
    if imbalance:
        (most, many), (least, few), rare = imbalance["most"], imbalance["least"], imbalance["rare"]
        print(f"imbalance: {most!r} has {many:,} positives, {least!r} {few:,}: {many / few:,.0f} to 1")
        if rare:
            print(f"  {len(rare):,} classes with 1 to 9 positives: {_some(map(repr, rare))}")
    for split, names in found.without_positive.items():
        if names:
            where = "" if split == "all" else f" in {split}"
            total = len(found.classes)
            print(f"no positive{where}: {len(names):,} of {total:,} classes: {_some(map(repr, names))}")


def _print_names(findings: Sequence[Finding]) -> None:
    by_problem: dict[str, list[str]] = {}
    for finding in findings:
        by_problem.setdefault(finding.problem, []).append(_some(map(repr, finding.names)))
    for problem, groups in by_problem.items():
        more = f" (and {len(groups) - _LINES:,} more)" if len(groups) > _LINES else ""
        print(f"class names, {problem}: {'; '.join(groups[:_LINES])}{more}")


def _print_duplicates(found: Inspection) -> None:
    groups = found.duplicates
    if not groups:
        print("duplicates: none")
        return
    extra = sum(len(group.ids) - 1 for group in groups)
    across = [group for group in groups if group.across]
    differ = sum(group.labels_differ for group in groups)
    print(
        f"duplicates: {len(groups):,} groups of equal samples ({extra:,} more samples than contents); "
        f"{len(across):,} groups in several splits; {differ:,} with different labels"
    )
    for group in (across or groups)[:_LINES]:
        members = (f"{name} ({split})" for name, split in zip(group.ids, group.splits, strict=True))
        print(f"  {_printable(_some(members))}")


def _printable(text: str) -> str:
    """Text from a file without what would steer the terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _some(names: Iterable[object]) -> str:
    """The first five, as a phrase."""
    listed = list(map(str, names))
    return ", ".join(listed[:_LINES]) + (", ..." if len(listed) > _LINES else "")


# -- prepare ---------------------------------------------------------------------------------------------


def _prepare(arguments: Namespace) -> None:
    from ..data.benchmarks import prepare

    manifest = prepare(arguments.name, arguments.root, download=arguments.download, report=print)
    print(f"{manifest}: written. Train on it with the labels that the publications observed:")
    print(f"  spml train {shlex.quote(str(manifest))} --data.observe protocol --output runs/{arguments.name}")


# -- convert ---------------------------------------------------------------------------------------------


def _convert(arguments: Namespace) -> None:
    from ..data.hiding import check_observe, hide
    from ..data.readers import read
    from ..data.writers import write
    from ..runs.console import Console

    config = _config(arguments)
    check_observe(config)
    console = Console()
    records = read(config)
    if config.observe != "none":
        labels, note = hide(records, config)
        records = replace(records, labels=labels)
        console.line(note)
    inferred = None
    if arguments.predictions:
        inferred, notes = _read_predictions(Path(arguments.predictions), records, console)
        for note in notes:
            console.line(note)
    output = Path(arguments.output)
    notes = write(records, output, arguments.format, inferred, overwrite=arguments.overwrite)
    print(f"{output}: {len(records.ids):,} samples, {len(records.classes):,} classes")
    for note in notes:
        print(note)


def _read_predictions(path: Path, records: Records, console: Console) -> tuple[Inferred, tuple[str, ...]]:
    from ..data.writers.common import image_files
    from ..data.writers.inferred import match, predicted, read_inferred

    if not path.is_dir():
        return read_inferred(path, records)
    from ..runs.api import load

    files = image_files(records)
    if files is not None:
        paths = [str(file) for file in files]
    elif records.source.lower().endswith(".npz"):
        paths = [records.source]
    else:
        raise InputError(
            f"{path}: a run predicts image files and .npz files, but {records.source} holds neither. Predict "
            "first (spml predict), and give the file as --predictions."
        )
    found = load(path).predict(paths, console=console)
    scores = [dict(zip(found.classes, row, strict=True)) for row in found.scores.tolist()]
    guesses = map(predicted, found.ids, found.labels, scores)
    inferred, notes = match(guesses, records, str(path))
    return inferred, (*found.notes, *notes)
