"""The command `spml analyse`. The figures, and with them PyTorch, are imported when it is called."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from ..config import from_dict
from .own_network import add_backbone_argument

_OUTPUT = "analysis"


def add_analyse_command(commands: Any, *, with_figures: bool) -> None:
    """Add `analyse` to the commands of `spml`.

    Args:
        commands: Sub-commands of the parser.
        with_figures: Add a sub-command per figure, for which the figures are imported.
    """
    parser = ArgumentParser(
        description="Draw a figure from runs or from the store of a comparison, as PNG and SVG, with its "
        "numbers as CSV. `spml analyse FIGURE --help` lists the options of a figure."
    )
    parser.add_argument("--list", action="store_true", help="list the figures and what each needs")
    commands.add_subcommand("analyse", parser, help="draw the figures of the papers from runs")
    if with_figures:
        from ..analysis.registry import figures

        each = parser.add_subcommands(required=False)
        for figure in figures().values():
            each.add_subcommand(figure.name, _figure_parser(figure), help=figure.title)


def _figure_parser(figure: Any) -> ArgumentParser:
    parser = ArgumentParser(description=f"{figure.title}. Needs {figure.needs}.")
    first = _first_parameter(figure)
    parser.add_argument(first, nargs="+", type=str, help=figure.needs)
    parser.add_function_arguments(figure.draw, skip={first}, as_group=False)
    parser.add_argument("--output", default=_OUTPUT, help="folder of the files")
    parser.add_argument("--name", default=figure.name, help="name of the files, without suffix")
    parser.add_argument("--overwrite", action="store_true", help="replace files of this name")
    add_backbone_argument(parser)
    return parser


def _first_parameter(figure: Any) -> str:
    return next(iter(inspect.signature(figure.draw).parameters))


def run_analyse(arguments: Namespace) -> None:
    """Draw a figure, or list the figures.

    Raises:
        InputError: No figure is named, or its sources or options do not suit, or a file exists.
        SpmlError: A file could not be written.
    """
    from ..analysis.registry import figures

    name = arguments.get("subcommand")
    if arguments.list:
        _print_list()
        return
    if not name:
        raise InputError("name a figure; `spml analyse --list` lists them")
    options = arguments[name].as_dict()
    options.pop("backbone")  # is at hand already
    _draw(figures()[name], options)


def _draw(figure: Any, options: dict[str, Any]) -> None:
    from ..analysis.result import check_free

    folder, name, overwrite = Path(options.pop("output")), options.pop("name"), options.pop("overwrite")
    check_free(folder, name, overwrite=overwrite)
    sources = options.pop(_first_parameter(figure))
    if isinstance(options.get("data"), dict):  # the `--data.*` settings of a figure that opens data
        options["data"] = from_dict({"data": options["data"]}).data
    result = figure.draw(sources, **options)
    for note in result.notes:
        print(f"note: {note}")
    files = result.write(folder, name, overwrite=overwrite)
    print(f"{files[0].parent}: {', '.join(file.name for file in files)} written")


def _print_list() -> None:
    from rich.console import Console
    from rich.table import Table

    from ..analysis.registry import figures

    table = Table(box=None, pad_edge=False)
    for column in ("figure", "draws", "needs"):
        table.add_column(column, no_wrap=column == "figure")
    for figure in figures().values():
        table.add_row(figure.name, figure.title, figure.needs)
    Console().print(table)
