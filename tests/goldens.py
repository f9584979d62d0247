"""Compare our losses with reference values: `python -m tests.goldens FOLDER`.

A folder holds `inputs.npz`, and `exact.json` + `exact.npz` (published formulas evaluated with 60 digits) or
`released.json` + `released.npz` (what the authors' released code computes), or both. `GOLDENS` in the files
of `tests/reference` assigns records to losses.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

TOLERANCE = {"exact": 1e-9, "released": 1e-6}


def ternary(matrix: torch.Tensor, unlisted: int = 0) -> torch.Tensor:
    """A {-1, 0, +1} target from a {0, 1} or {-1, 0, +1} matrix; 0 becomes `unlisted`."""
    return torch.where(matrix == 0, unlisted, matrix).to(torch.int8)


@dataclass(frozen=True)
class Case:
    """A record with its inputs.

    Attributes:
        kind: `exact` or `released`.
        record: Entry of the JSON file.
        inputs: Arrays of the input that the record names, by name.
        gradient: Reference gradient.
        outputs: Further results that the record names, by name.
    """

    kind: str
    record: dict[str, Any]
    inputs: dict[str, np.ndarray]
    gradient: np.ndarray
    outputs: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        """Name of the loss with its variant, which the patterns in `GOLDENS` match."""
        return str(self.record["grad_key"]).split("|")[0]

    def tensor(self, name: str) -> torch.Tensor:
        """An input as a tensor: label matrices as int8, everything else as float64."""
        value = torch.from_numpy(self.inputs[name])
        return value.to(torch.int8) if name in ("obs", "true", "pseudo", "neg_obs") else value.double()

    def eps(self, released: float) -> float:
        """The epsilon of the released code, or 0 for an exact record."""
        return released if self.kind == "released" else 0.0

    @property
    def mean_labels(self) -> float:
        """Mean labels per sample K: as the record states it, otherwise 1.5.

        The code released with EPR and ROLE has 1.5 built in for all data sets except COCO.
        """
        return float(self.record["hp"].get("k", 1.5))


Ours: TypeAlias = Callable[[Case], Callable[[torch.Tensor], torch.Tensor]]
"""Maps a case to our loss, as a function of the tensor that the gradient is taken with respect to."""

Corrected: TypeAlias = Callable[[Case], "tuple[float, np.ndarray] | None"]
"""Loss and gradient to compare with in place of those of the record, or None where the record is right. The
docstring of such a function states what is wrong with the record."""


@dataclass(frozen=True)
class Result:
    """Relative errors of our loss on a case; `corrected` states what is wrong with its record, if it is."""

    case: Case
    loss_error: float
    gradient_error: float
    corrected: str = ""

    @property
    def passed(self) -> bool:
        """Whether both errors are within the tolerance of the kind."""
        return max(self.loss_error, self.gradient_error) <= TOLERANCE[self.case.kind]


def on_observed(loss: Callable[..., torch.Tensor], released: float = 0.0, **names: str) -> Ours:
    """A loss of logits and observed labels.

    Args:
        loss: Our loss.
        released: Epsilon of the released code; 0 = it has none, or our loss has no such argument.
        names: Names of hyper-parameters in the record, by their names in our loss.
    """

    def of_case(case: Case) -> Callable[[torch.Tensor], torch.Tensor]:
        settings = {ours: case.record["hp"][theirs] for ours, theirs in names.items()}
        if released:
            settings["eps"] = case.eps(released)
        return lambda logits: loss(logits, case.tensor("obs"), **settings)

    return of_case


def cases(folder: Path, kind: str) -> Iterator[Case]:
    """The float64 records of `exact` or `released` in a folder."""
    records = json.loads((folder / f"{kind}.json").read_text())
    with (
        np.load(folder / f"{kind}.npz", allow_pickle=False) as gradients,
        np.load(folder / "inputs.npz", allow_pickle=False) as stored,
    ):
        inputs: dict[str, dict[str, np.ndarray]] = {}
        for key in stored.files:
            name, part = key.split("/")
            inputs.setdefault(name, {})[part] = stored[key]
        for record in records.values():
            if record["dtype"] == "f64":
                outputs = {name: gradients[key] for name, key in record.get("outputs", {}).items()}
                yield Case(kind, record, inputs[record["input"]], gradients[record["grad_key"]], outputs)


def ours() -> list[tuple[re.Pattern[str], Ours, Corrected | None]]:
    """All entries of `GOLDENS` in `tests/reference`: pattern, our loss, correction of the record."""
    package = importlib.import_module("tests.reference")
    entries = []
    for module in pkgutil.iter_modules(package.__path__):
        goldens = importlib.import_module(f"tests.reference.{module.name}").GOLDENS
        entries += [
            (re.compile(claim[0]), claim[1], claim[2] if len(claim) > 2 else None) for claim in goldens
        ]
    return entries


def compare(case: Case, function: Ours, corrected: Corrected | None = None) -> Result:
    """Loss: |difference| / |reference|. Gradient: max |difference| / max |reference| over the array."""
    instead = corrected(case) if corrected else None
    reference = instead or (case.record["loss"], case.gradient)
    variable = case.tensor(case.record["wrt"]).requires_grad_()
    loss = function(case)(variable)
    (gradient,) = torch.autograd.grad(loss, variable)
    loss_error = abs(loss.item() - reference[0]) / max(abs(reference[0]), 1e-300)
    scale = max(float(np.abs(reference[1]).max()), 1e-300)
    gradient_error = float(np.abs(gradient.numpy() - reference[1]).max()) / scale
    why = (corrected.__doc__ or "").strip() if corrected and instead else ""
    return Result(case, loss_error, gradient_error, why)


def run(folder: Path) -> tuple[list[Result], list[Case]]:
    """Compare all records of a folder; returns the results, and the cases that no pattern matches."""
    results, unclaimed, entries = [], [], ours()
    for kind in TOLERANCE:
        if not (folder / f"{kind}.json").exists():
            continue
        for case in cases(folder, kind):
            claim = next((entry[1:] for entry in entries if entry[0].fullmatch(case.name)), None)
            if claim is None:
                unclaimed.append(case)
            else:
                results.append(compare(case, *claim))
    return results, unclaimed


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m tests.goldens FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    results, unclaimed = run(folder)
    if not results and not unclaimed:
        print(f"{folder}: no records; expected exact.json or released.json", file=sys.stderr)
        return 2
    for result in results:
        verdict = "MISS" if not result.passed else "corrected" if result.corrected else "ok"
        print(
            f"{verdict:9} {result.case.kind:9} {result.case.record['grad_key']:44} "
            f"loss {result.loss_error:.1e}  gradient {result.gradient_error:.1e}"
        )
    for case in unclaimed:
        print(f"MISS      {case.kind:9} {case.record['grad_key']:44} no loss is assigned to it")
    missed = sum(not result.passed for result in results) + len(unclaimed)
    by_kind = {kind: sum(r.case.kind == kind and not r.corrected for r in results) for kind in TOLERANCE}
    corrected = [result for result in results if result.corrected]
    counts = ", ".join(f"{count} {kind}" for kind, count in by_kind.items())
    print(f"{counts}, {len(corrected)} corrected, {missed} missed")
    for name, why in sorted({(r.case.record["grad_key"], r.corrected) for r in corrected}):
        print(f"corrected: {name}: {' '.join(why.split())}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
