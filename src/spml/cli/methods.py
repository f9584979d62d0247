"""The command `spml methods`."""

from __future__ import annotations

import inspect

from ..config import AUTO
from .shared import new_table, print_table


def methods(name: str = "", *, bibtex: bool = False) -> None:
    """List the registered methods, or show the card of one.

    Args:
        name: Name of a method.
        bibtex: Print what to cite for the method, or for all of them, as entries of BibTeX.
    """
    from ..methods.cards import NOTATION, bibtex_of, readable
    from ..methods.registry import find, hyper_parameters, load_own
    from ..methods.registry import methods as registered
    from ..models import CLOSED_FORM
    from ..models.solved import auto

    if bibtex:
        names = [name] if name else registered()
        print("\n\n".join(bibtex_of(each, find(load_own(each)).card) for each in names))
    elif name == AUTO:
        print(f"{AUTO}: ensemble of heads in closed form\n")
        print(auto.__doc__)
        print(inspect.cleandoc(auto.fit_auto.__doc__ or "").partition("\n\nArgs:")[0].partition("\n\n")[2])
        print(
            "\nFor features of a file or of a frozen backbone, where it is the default. With --model.frozen "
            "no,\nthe network is then fine-tuned from its best linear member, and kept if it scores clearly "
            "higher."
        )
    elif name:
        cls = find(load_own(name), [AUTO])
        card = cls.card
        print(f"{name}: {card.title}\n{card.paper}\n{card.equations}\n")
        for line in card.formula.splitlines():
            print(f"    {line}")
        print("\n" + ";\n".join(NOTATION) + "\n")
        print(f"state: {card.state}\nhead: {card.head}\nscores: {card.scores}\nhead bias: {card.head_bias}")
        for hp, default in hyper_parameters(cls).items():
            print(f"  --hp.{hp}  (default {readable(default)})")
        if card.defaults:
            print(f"published ({card.source}):")
        printed = {"the paper prints, where the default is that of the released code": card.printed}
        for place, values in (*card.defaults.items(), *(printed.items() if card.printed else ())):
            print(f"{place}: " + ", ".join(f"{k} = {readable(v)}" for k, v in values.items()))
        print(f"\n{(cls.__doc__ or '').strip()}")
    else:
        table = new_table(("name", "method", "year", "state", "paper"), left=5, wrapped=(1, 3, 4))
        for each, cls in registered().items():
            table.add_row(each, cls.card.title, str(cls.card.year), cls.card.state, cls.card.paper)
        print_table(table)
        heads = ", ".join(f"--model.head {head}" for head in CLOSED_FORM)
        print(f"\n--method {AUTO}, the default on fixed features, averages heads in closed form.")
        print(f"Heads that need no method: {heads}. `spml methods NAME` shows a card.")
