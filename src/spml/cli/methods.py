"""The command `spml methods`."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..config import AUTO


def add_methods_command(commands: Any) -> None:
    """Add `methods` to the commands of `spml`."""
    parser = ArgumentParser(description="List the registered methods, or show the card of one.")
    parser.add_argument("name", nargs="?", default="", help="name of a method")
    commands.add_subcommand("methods", parser, help="list methods")


def run_methods(arguments: Namespace) -> None:
    """Print the list of methods, or the card of one.

    Raises:
        InputError: There is no such method.
    """
    if arguments.name == AUTO:
        _print_auto()
    elif arguments.name:
        _print_card(arguments.name)
    else:
        _print_list()


def _print_card(name: str) -> None:
    from ..methods.cards import NOTATION, readable
    from ..methods.registry import find, hyper_parameters

    cls = find(name, [AUTO])
    card = cls.card
    print(f"{name}: {card.title}\n{card.paper}\n{card.equations}\n")
    for line in card.formula.splitlines():
        print(f"    {line}")
    print("\n" + ";\n".join(NOTATION) + "\n")
    print(f"state: {card.state}\nhead: {card.head}\nscores: {card.scores}\nhead bias: {card.head_bias}")
    for hp, default in hyper_parameters(cls).items():
        print(f"  --hp.{hp}  (default {readable(default)})")
    for benchmark, values in card.defaults.items():
        print(f"{benchmark}: " + ", ".join(f"{k} = {readable(v)}" for k, v in values.items()))
    for deviation in card.deviations:
        print(f"note: {deviation}")
    print(f"\n{(cls.__doc__ or '').strip()}")


def _print_auto() -> None:
    from ..models.solved import auto

    print(f"{AUTO}: ensemble of heads in closed form\n")
    print(auto.__doc__)
    print(inspect.cleandoc(auto.fit_auto.__doc__ or "").partition("\n\nArgs:")[0].partition("\n\n")[2])
    print(
        "\nFor features of a file or of a frozen backbone, where it is the default. With --model.frozen no,\n"
        "the network is then fine-tuned from its best linear member, and kept if it scores clearly higher."
    )


def _print_list() -> None:
    from rich.console import Console
    from rich.table import Table

    from ..methods.registry import methods
    from ..models.solved import CLOSED_FORM

    table = Table(box=None, pad_edge=False)
    for column in ("name", "method", "year", "state", "paper"):
        table.add_column(column, no_wrap=column in ("name", "year"))
    for name, cls in methods().items():
        table.add_row(name, cls.card.title, str(cls.card.year), cls.card.state, cls.card.paper)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    heads = ", ".join(f"--model.head {head}" for head in CLOSED_FORM)
    print(f"\n--method {AUTO}, the default on fixed features, averages heads in closed form.")
    print(f"Heads that need no method: {heads}. `spml methods NAME` shows a card.")
