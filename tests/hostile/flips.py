"""Flip a random bit in a random file of a run folder, and use the run; or cut or swap every file.

    python -m tests.hostile.flips FOLDER [--fault flip|cut|swap] [--number 500] [--seed 0] [RUN ...]

A file is cut in its middle, or swapped with that of a run with other settings. Damage must be found, with a
message, or have no influence on any result: predictions, metrics, thresholds, a list of missing labels, and a
training that goes on. Every command is a fork of this process, as in `points`.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.hostile.disk import AFTER, Stop
from tests.hostile.points import content, import_all, lay_out, run
from tests.hostile.tally import Tally

USES = (
    "predict run rows.npz --output out/scores.csv",
    "evaluate run rows.npz --split test --output out/metrics.json",
    "thresholds run --target recall=0.7",
    "audit run rows.npz --output out/audit",
)
"""Commands that use a finished run, in the order in which they run."""


class Damaged(NamedTuple):
    """A run folder that is damaged, and the commands that use it.

    Attributes:
        words: Command that makes the run, in the folder `run`.
        uses: Commands that use it.
        written: Folder whose files are their results.
        stop: Where the command that makes the run is killed; None = it ends.
    """

    words: str
    uses: tuple[str, ...] = USES
    written: str = "out"
    stop: Stop | None = None


TRAIN = "train rows.npz --output run --mean_labels 1.5 --data.workers 0 "
IMAGES = (
    "train photos --output run --mean_labels 1.5 --data.workers 0 --method gr --epochs 2 --data.size 32 "
    "--model.backbone test_efficientnet --model.weights random --model.frozen yes"
)
USES_OF_IMAGES = (
    "predict run photos --output out/scores.csv --workers 0",
    "evaluate run photos --output out/metrics.json --workers 0",
)
STEPS = TRAIN + "--method gr --epochs 4 --batch_size 16 --checkpoint_steps 1"
RUNS = {
    "ridge": Damaged(TRAIN + "--head ridge"),
    "auto": Damaged(TRAIN),
    "network": Damaged(TRAIN + "--method gr --epochs 2"),
    "frozen": Damaged(IMAGES, USES_OF_IMAGES),
    "unfinished": Damaged(
        STEPS, (STEPS + " --resume",), "run", Stop(6, AFTER, "replace run/checkpoint.new.safetensors")
    ),
}


def results(folder: Path, damaged: Damaged) -> tuple[list[str], Any]:
    """Use a run. Returns what each command said if it was refused, and the files that were written."""
    refusals = []
    for words in damaged.uses:
        ended = run(words, folder)
        import_all(ended.modules)
        if ended.code not in (0, 1, 2) or "Traceback" in ended.printed:
            return [f"{words}: ended with {ended.code}: {ended.printed[-1500:]}"], None
        refusals.append(ended.printed.strip() if ended.code else "")
    return refusals, content(folder / damaged.written)


def flip(path: Path, draw: random.Random) -> tuple[int, int]:
    """Flip a bit of a file. Returns its byte and its place in the byte."""
    data = bytearray(path.read_bytes())
    byte, bit = draw.randrange(len(data)), draw.randrange(8)
    data[byte] ^= 1 << bit
    path.write_bytes(data)
    return byte, bit


def differences(found: dict[str, Any], expected: dict[str, Any], refused: bool) -> list[str]:
    """Names of files with another content, or that are missing although no command was refused."""
    names = found.keys() if refused else found.keys() | expected.keys()
    return sorted(name for name in names if not same(found.get(name), expected.get(name)))


def same(found: Any, expected: Any) -> bool:
    """Whether two results are the same but for rounding: what is computed again may be in other batches."""
    if not isinstance(found, bytes) or not isinstance(expected, bytes):
        return bool(found == expected)
    words, others = found.split(b","), expected.split(b",")
    return len(words) == len(others) and all(map(_same_word, words, others))


def _same_word(word: bytes, other: bytes) -> bool:
    with contextlib.suppress(ValueError):
        return abs(float(word) - float(other)) <= 1e-5
    return word == other


OTHER = " --seed 7 --mean_labels 1.2 --data.split_seed 1"
"""Settings of the run whose files are swapped in."""


def damage(name: str, root: Path, fault: str, number: int, seed: int) -> dict[str, int]:
    """Damage files of a run. Returns how often, how often this was found, and how often it did harm."""
    chosen, start, draw = RUNS[name], root / f"{name}-start", random.Random(seed)
    lay_out(start)
    made = run(chosen.words, start, chosen.stop)
    assert made.code == (-signal.SIGKILL if chosen.stop else 0), made.printed
    folder = root / f"{name}-case"  # the same for all, since some files hold its name
    shutil.copytree(start, folder)
    refusals, expected = results(folder, chosen)
    assert not any(refusals), refusals
    files = [path for path in sorted((start / "run").rglob("*")) if path.is_file()]
    files = [path.relative_to(start) for path in files if path.suffix != ".png"]  # which no command reads
    other = root / f"{name}-other"
    if fault == "swap":
        lay_out(other)
        assert run(chosen.words + OTHER, other, chosen.stop).code == made.code
        # Features lie in files of random names.
        files = [file for file in files if (other / file).is_file()]
    cases = files if fault != "flip" else draw.choices(files, k=number)
    counts = {"cases": len(cases), "found": 0, "wrong": 0}
    for file in cases:
        shutil.rmtree(folder)
        shutil.copytree(start, folder)
        what = fault
        if fault == "flip":
            what = "byte {}, bit {}".format(*flip(folder / file, draw))
        elif fault == "cut":
            data = (folder / file).read_bytes()
            (folder / file).write_bytes(data[: len(data) // 2])
        else:
            shutil.copy(other / file, folder / file)
        refusals, found = results(folder, chosen)
        refused = any(refusals)
        differing = [] if found is None else differences(found, expected, refused)
        if found is None or (differing and (chosen.written == "out" or not refused)):
            print(f"{name}: {file}, {what}: {', '.join(differing) or refusals[0]}", flush=True)
            counts["wrong"] += 1
        else:
            counts["found"] += refused
            if fault != "flip":
                print(f"{name}: {file}, {what}: {'noticed' if refused else 'harmless'}", flush=True)
    return counts


def main() -> None:
    """Flip bits and say what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", nargs="*", default=list(RUNS), metavar="RUN")
    parser.add_argument("--fault", choices=("flip", "cut", "swap"), default="flip")
    parser.add_argument("--number", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.folder.absolute()
    tally = Tally(folder / f"{arguments.fault}s.json")
    for name in arguments.runs:
        tally.add(name, damage(name, folder, arguments.fault, arguments.number, arguments.seed))
    sys.exit(tally.finish())


if __name__ == "__main__":
    main()
