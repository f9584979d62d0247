"""Counts of what a search for faults tried and found, kept while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spml.common.files import write_json


class Tally:
    """Counts by subject, in a JSON file that is written again whenever one is added.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.counts = path, dict[str, dict[str, int]]()

    def add(self, subject: str, counts: dict[str, int]) -> None:
        """Add the counts of a subject, such as a command: its cases, and those that went wrong."""
        self.counts[subject] = counts
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, self.counts)
        self._say(subject, counts)

    def finish(self) -> Any:
        """Print the sum of all counts. Returns the exit code: 1 if anything was wrong."""
        total = {
            name: sum(counts.get(name, 0) for counts in self.counts.values())
            for name in ("cases", "found", "wrong")
        }
        self._say("in all", {name: count for name, count in total.items() if count or name != "found"})
        return 1 if total["wrong"] else 0

    @staticmethod
    def _say(subject: str, counts: dict[str, int]) -> None:
        print(f"{subject}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()), flush=True)
