"""A run of the script: targets take turns, failures are made small and written, and everything is counted."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.hostile.fuzz.judge import Failure, Target, judge, make_input, run_batch
from tests.hostile.fuzz.shrink import shrink_file
from tests.hostile.tally import Tally

BATCH = 2000
"""Inputs of a target of weight 1 before the next target has its turn."""


class Campaign:
    """Tries inputs on targets.

    Args:
        folder: Folder for failures and counts.
        targets: The targets.
        seed: Seed of the inputs.

    Attributes:
        tally: Counts of each target, in fuzz.json of the folder.
        failures: Kind of each distinct failure with its target, in the order in which they were found.

    Raises:
        AssertionError: A target does not accept one of its seeds, so that changes of it would prove little.
    """

    def __init__(self, folder: Path, targets: Sequence[Target], seed: int) -> None:
        self.folder, self.targets, self.seed = folder, targets, seed
        self.failures: list[tuple[str, str]] = []
        self.tried: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.tally = Tally(folder / "fuzz.json")
        (folder / "failures").mkdir(parents=True, exist_ok=True)
        (folder / "work").mkdir(exist_ok=True)
        for target in targets:
            for number, data in enumerate(target.seeds):
                refusal, failure = judge(target, data)
                assert not refusal, f"{target.name}: seed {number} is refused: {refusal}"
                assert failure is None, f"{target.name}: seed {number} fails: {failure.text}"

    def run(self, number: int) -> None:
        """Try a number of inputs, shared among the targets by their weights."""
        weights = sum(target.weight for target in self.targets)
        wanted = {target.name: max(1, round(number * target.weight / weights)) for target in self.targets}
        while any(self.tried[name] < count for name, count in wanted.items()):
            for target in self.targets:
                start = self.tried[target.name]
                turn = max(1, round(BATCH * target.weight))
                self._turn(target, range(start, min(start + turn, wanted[target.name])))

    def _turn(self, target: Target, numbers: range) -> None:
        if not numbers:
            return
        start = time.monotonic()
        work = self.folder / "work"
        result = run_batch(target, lambda number: make_input(target, self.seed, number), numbers, work)
        self.seconds[target.name] += time.monotonic() - start
        self.tried[target.name] += result.tried
        self.refused[target.name] += result.refused
        for number, failure in result.failures:
            if (target.name, failure.kind) not in self.failures:
                self.failures.append((target.name, failure.kind))
                self._keep(target, number, failure)
        counts = {
            "cases": self.tried[target.name],
            "refused": self.refused[target.name],
            "wrong": sum(name == target.name for name, _ in self.failures),
            "seconds": round(self.seconds[target.name]),
        }
        self.tally.add(target.name, counts)

    def _keep(self, target: Target, number: int, failure: Failure) -> None:
        """Make a failing input small, and write it."""
        name = re.sub(r"[^\w-]", "", f"{target.name}-{failure.kind}")
        path = self.folder / "failures" / (name + target.suffix)
        print(f"{target.name}: input {number} fails: {failure.kind} ({path})", flush=True)
        path.write_bytes(make_input(target, self.seed, number))
        text = shrink_file(path, target, failure.kind, self.folder / "work")
        text = text or f"It does not fail again alone, so it was not made small.\n{failure.text}"
        about = f"{target.name}, seed {self.seed}, input {number}: {failure.kind}\n{text}\n"
        path.with_name(f"{path.name}.txt").write_text(about, errors="backslashreplace")
