"""Try random and damaged inputs on everything that reads what others wrote, for as long as wanted.

    python -m tests.hostile.fuzz FOLDER [TARGET ...] [--number 1000000] [--seed 0]

Inputs are valid ones with changes. An input must be accepted, or refused with one clear message, within a few
seconds and a limit of memory. The first input of each other outcome is made small and written to
FOLDER/failures as TARGET-KIND with the suffix of its format, with what happened in a .txt next to it. Counts
are in FOLDER/fuzz.json while it goes on. Another seed makes other inputs. Ctrl-C ends it.
A folder in memory (/dev/shm) is faster, since databases wait for the disk.

A mended failure is kept in tests/hostile/found, which `tests/hostile/test_fuzz.py` tries in every run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # the others reserve memory ahead

from tests.hostile.fuzz.campaign import Campaign
from tests.hostile.fuzz.targets import NAMES, make_targets


def main(arguments: Sequence[str] | None = None) -> int:
    """Try inputs and say what was found. Returns the exit code: 1 if there is a failure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    help_text = f"default: all of {', '.join(NAMES)}"
    parser.add_argument("targets", nargs="*", default=list(NAMES), metavar="TARGET", help=help_text)
    parser.add_argument("--number", type=int, default=1_000_000, help="inputs, over all targets")
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args(arguments)
    if unknown := {*parsed.targets} - {*NAMES}:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    folder = parsed.folder.absolute()
    shutil.rmtree(folder / "work", ignore_errors=True)
    campaign = Campaign(folder, make_targets(folder / "work", parsed.targets), parsed.seed)
    try:
        campaign.run(parsed.number)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    return int(campaign.tally.finish())


if __name__ == "__main__":
    sys.exit(main())
