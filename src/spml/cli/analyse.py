"""The command `spml analyse`. The figures, and with them PyTorch, are imported when it is called."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import InputError
from .arguments import Parser
from .shared import Network, data_config, new_table, print_table


def analyse(*, list: bool = False) -> None:
    """Draw a figure from runs or from the store of a comparison, with its numbers as CSV.
    `spml analyse FIGURE --help` lists the options of a figure.

    Args:
        list: List the figures and what each needs.
    """
    from ..analysis.registry import figures

    if not list:
        raise InputError("name a figure; `spml analyse --list` lists them")
    table = new_table(("figure", "draws", "needs"), left=3, wrapped=(1, 2))
    for figure in figures().values():
        table.add_row(figure.name, figure.title, figure.needs)
    print_table(table)


@dataclass
class Files:
    """Options of every figure.

    Attributes:
        output: Folder of the files.
        name: Name of the files, without suffix; default: that of the figure.
        overwrite: Replace files of this name.
        format: Formats of the figure, of png, svg and pdf, separated by commas.
        title: Title above the figure, instead of its own.
    """

    network: Network
    output: str = "analysis"
    name: str = ""
    overwrite: bool = False
    format: str = "png,svg"
    title: str = ""


class FigureParser(Parser):
    """Parser of `spml analyse FIGURE`: the parameters of the function that draws it are its options."""

    def __init__(self, name: str) -> None:
        from ..analysis.registry import figures

        self.figure = figures()[name]
        about = f"{self.figure.title}. Needs {self.figure.needs}."
        super().__init__(f"analyse {name}", self.figure.draw, description=about, flags=False)
        self.add(Files)
        first = next(action for action in self.actions.values() if not action.option_strings)
        first.help = self.figure.needs

    def run(self, parsed: Namespace) -> None:
        """Draw the figure and write its files."""
        from ..analysis.registry import check_free

        files = Files(**self.values(Files, parsed))
        folder, name = Path(files.output), files.name or self.figure.name
        formats = files.format.split(",")
        check_free(folder, name, formats, overwrite=files.overwrite)
        (_, sources), *options = self.values(self.figure.draw, parsed).items()
        given = {option: value for option, value in options if not isinstance(value, dict)}
        if "data" in parsed.settings:
            given["data"] = data_config(parsed.settings["data"])
        result = self.figure.draw(sources, **given)
        for note in result.notes:
            print(f"note: {note}")
        paths = result.write(folder, name, overwrite=files.overwrite, formats=formats, title=files.title)
        print(f"{paths[0].parent}: {', '.join(path.name for path in paths)} written")
