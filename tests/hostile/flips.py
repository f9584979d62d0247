"""Damage every file of a run, an audit, a sample, a loop and a comparison, and use the folder.

    python -m tests.hostile.flips FOLDER [KIND ...] [--fault flip cut swap older] [--places 50] [--seed 0]

A file has a random bit flipped, at some places in turn; is cut in its middle; is swapped with that of a
folder made with other settings; or is as it was after an earlier step. Damage must be found, with a message,
or have no influence on any result. Every command is a fork of this process, as in `points`.

Writes FOLDER/damages.json: by kind, file and fault how many cases there were, how many were found, and wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.hostile.disk import AFTER, Stop
from tests.hostile.points import (
    DRAW,
    LOOP,
    MANY,
    answer_all,
    content,
    import_all,
    label_in_full,
    lay_out,
    run,
    spare_time,
)
from tests.hostile.tally import Tally

FAULTS = ("flip", "cut", "swap", "older")

SWAPPED = {
    "--seed 0": "--seed 7",
    "split_seed 0": "split_seed 1",
    "--mean_labels 1.5": "--mean_labels 1.2",
    "spec.yaml": "other.yaml",
}
"""What the settings of the other folder have instead."""

PEOPLES = ("thresholds.json", "sample.csv", "review.sqlite")
"""Files that people fill in or decide again: an intact one of the same model or data is used, and what is
printed says which."""

NEVER_READ = (".png", ".svg", ".html")
"""Endings of files that no command reads."""

Step = str | Callable[[Path], None] | tuple[str, Stop]
"""A command, what a person does in the folder, or a command that is killed."""


class Damaged(NamedTuple):
    """A folder that is damaged, and the commands that use it.

    Attributes:
        steps: What makes the folder.
        uses: Commands that use it, in the order in which they run.
        folder: The folder.
        written: Folder whose files are the results of `uses`.
    """

    steps: tuple[Step, ...]
    uses: tuple[str, ...]
    folder: str = "run"
    written: str = "out"


USES = (
    "predict run rows.npz --output out/scores.csv",
    "evaluate run rows.npz --split test --output out/metrics.json",
    "thresholds run --target recall=0.7",
    "audit run rows.npz --output out/audit",
)
TRAIN = "train rows.npz --output run --mean_labels 1.5 --seed 0 --data.split_seed 0 --data.workers 0"
IMAGES = (
    "train photos --output run --mean_labels 1.5 --seed 0 --data.split_seed 0 --data.workers 0 --method gr "
    "--epochs 2 --data.size 32 --model.backbone test_efficientnet --model.weights random --model.frozen yes"
)
SCORES = (
    f"{TRAIN} --method gr --epochs 2 --record scores --data.unlisted negative --data.observe single"
).replace("rows", "many")
STEPS = f"{TRAIN} --method gr --epochs 4 --batch_size 16 --checkpoint_steps 1"
WRITTEN = "replace run/checkpoint.new.safetensors"
BENCH = "bench run spec.yaml --output out --workers 1"
REPORT = "bench report spec.yaml --output out"
SEEDS = " --seed 0 --data.split_seed 0"
RECALL = "thresholds run --target recall=0.5"


def more_specifications(folder: Path) -> None:
    """Give the comparison a second candidate, and write a comparison of another seed."""
    text = (folder / "spec.yaml").read_text().replace("[an]", "[an, gr]")
    (folder / "spec.yaml").write_text(text)
    (folder / "other.yaml").write_text(text.replace("seeds: 1", "seeds: [1]"))


def answer_listed(folder: Path) -> None:
    """Answer the list of an audit."""
    answer_all(folder, "audit")


KINDS = {
    "ridge": Damaged((f"{TRAIN} --head ridge", RECALL), USES),
    "auto": Damaged((TRAIN, RECALL), USES),
    "network": Damaged((f"{TRAIN} --method gr --epochs 2", RECALL), USES),
    "frozen": Damaged(
        (IMAGES,),
        (
            "predict run photos --output out/scores.csv --workers 0",
            "evaluate run photos --output out/metrics.json --workers 0",
        ),
    ),
    "scores": Damaged(
        (SCORES,),
        ("analyse observed-only run --output out/observed", "analyse separation run --output out/separation"),
    ),
    "unfinished": Damaged(
        ((STEPS, Stop(3, AFTER, WRITTEN)), (f"{STEPS} --resume", Stop(3, AFTER, WRITTEN))),
        (f"{STEPS} --resume",),
        written="run",
    ),
    "audited": Damaged((MANY + SEEDS, DRAW, label_in_full, "audit use out/sample.csv run"), USES[:3]),
    "sample": Damaged(
        (MANY + SEEDS, f"{DRAW} --seed 0", label_in_full),
        ("audit use out/sample.csv run",),
        folder="out",
        written="run",
    ),
    "review": Damaged(
        (f"{TRAIN} --head ridge", "audit run rows.npz --output audit", answer_listed),
        ("review export audit out/labels.npz --format nan",),
        folder="audit",
    ),
    "loop": Damaged(
        (LOOP + SEEDS, label_in_full, LOOP + SEEDS, answer_all),
        (LOOP + SEEDS,),
        folder="out",
    ),
    "bench": Damaged((more_specifications, f"{BENCH} --candidates an", BENCH), (BENCH, REPORT), folder="out"),
}


def make(kind: Damaged, folder: Path, *, swapped: bool = False) -> None:
    """Make a folder, and copies of it as it was after each step: FOLDER-1, FOLDER-2, ..."""
    lay_out(folder)
    for number, step in enumerate(kind.steps, 1):
        words, stop = step if isinstance(step, tuple) else (step, None)
        if callable(words):
            words(folder)
        else:
            for old, new in SWAPPED.items() if swapped else ():
                words = words.replace(old, new)
            ended = run(words, folder, stop)
            assert ended.code == (-signal.SIGKILL if stop else 0), ended.printed
            import_all(ended.modules)
        shutil.copytree(folder, folder.with_name(f"{folder.name}-{number}"))


class Used(NamedTuple):
    """A folder that was used: what the commands printed, whether one was refused, and the files written."""

    printed: list[str]
    refused: bool
    files: dict[str, Any] | None


def use(folder: Path, kind: Damaged) -> Used:
    """Use a folder. `files` is None if a command ended with a traceback."""
    printed, refused = [], False
    for words in kind.uses:
        ended = run(words, folder)
        import_all(ended.modules)
        printed.append(ended.printed)
        if ended.code not in (0, 1, 2) or "Traceback" in ended.printed:
            return Used([f"{words}: ended with {ended.code}: {ended.printed[-1500:]}"], True, None)
        refused = refused or bool(ended.code)
    return Used(printed, refused, content(folder / kind.written))


def differences(found: dict[str, Any], expected: dict[str, Any], before: dict[str, Any] | None) -> list[str]:
    """Names of files with another content than expected, or than before a command that was refused."""
    if before is None:
        names = found.keys() | expected.keys()
        return sorted(name for name in names if not same(found.get(name), expected.get(name)))
    known = [{**before, **expected}, before]
    return sorted(name for name in found if not any(same(found[name], each.get(name)) for each in known))


def same(found: Any, expected: Any) -> bool:
    """Whether two results are the same but for rounding: what is computed again may be in other batches.

    A store may hold runs of other comparisons, too.
    """
    if isinstance(found, list) and isinstance(expected, list) and found and isinstance(found[0], tuple):
        return set(expected) <= set(found)
    if not isinstance(found, bytes) or not isinstance(expected, bytes):
        return bool(found == expected)
    words, others = (re.split(rb"[,\n]", each) for each in (found, expected))  # the last cell of a line, too
    return len(words) == len(others) and all(map(_same_word, words, others))


def _same_word(word: bytes, other: bytes) -> bool:
    with contextlib.suppress(ValueError):
        return abs(float(word) - float(other)) <= 1e-5
    return word == other


def flipped(data: bytes, draw: random.Random, part: float) -> bytes:
    """A copy of data with a bit flipped, in the part of it that begins at this share and is a place long."""
    byte, bit = min(int(part * len(data)), len(data) - 1), draw.randrange(8)
    return data[:byte] + bytes([data[byte] ^ 1 << bit]) + data[byte + 1 :]


def damages(kind: Damaged, root: Path, file: Path, fault: str, places: int, seed: int) -> Iterator[bytes]:
    """The contents that a file has after a fault."""
    data = (root / "start" / file).read_bytes()
    if fault == "flip":
        draw = random.Random(f"{seed} {file}")
        for place in range(places if data else 0):
            yield flipped(data, draw, (place + draw.random()) / places)
    elif fault == "cut":
        yield data[: len(data) // 2]
    else:
        before = [f"start-{number}" for number in range(1, len(kind.steps))]
        others = [root / name / file for name in (before if fault == "older" else ["other"])]
        # Features lie in files of random names.
        yield from {path.read_bytes(): None for path in others if path.is_file()}.keys() - {data}


def damage(name: str, root: Path, faults: list[str], places: int, seed: int, tally: Tally) -> None:
    """Damage all files of a folder, and count the cases by file and fault, those found and those wrong."""
    kind = KINDS[name]
    make(kind, root / "start")
    if "swap" in faults:
        make(kind, root / "other", swapped=True)
    folder = root / "case"  # the same for all, since some files hold its name
    shutil.copytree(root / "start", folder)
    undisturbed = use(folder, kind)
    assert undisturbed.files is not None, undisturbed.printed
    assert not undisturbed.refused, undisturbed.printed
    before = content(root / "start" / kind.written)
    for path in sorted((root / "start" / kind.folder).rglob("*")):
        if not path.is_file() or path.suffix in NEVER_READ or path.name.startswith("."):
            continue
        file = path.relative_to(root / "start")
        for fault in faults:
            counts = {"cases": 0, "found": 0, "wrong": 0}
            for data in damages(kind, root, file, fault, places, seed):
                shutil.rmtree(folder)
                shutil.copytree(root / "start", folder)
                (folder / file).write_bytes(data)
                used = use(folder, kind)
                noticed = used.refused or (
                    fault in ("swap", "older")
                    and path.name in PEOPLES
                    and used.printed != undisturbed.printed
                )
                differing = []
                if used.files is not None:
                    state = before if used.refused else None
                    differing = differences(used.files, undisturbed.files, state)
                if (folder / file).is_file() and (folder / file).read_bytes() == data:  # nothing wrote it
                    differing = [each for each in differing if folder / kind.written / each != folder / file]
                wrong = used.files is None or bool(differing and not (noticed and not used.refused))
                if wrong:
                    what = ", ".join(differing) or used.printed[0]
                    print(f"{name}: {file}, {fault} {counts['cases']}: {what}", flush=True)
                counts["cases"] += 1
                counts["found"] += noticed and not wrong
                counts["wrong"] += wrong
            if counts["cases"]:
                tally.add(f"{name}: {file.relative_to(kind.folder)}, {fault}", counts)


def main(words: Sequence[str] | None = None) -> None:
    """Damage files and say what came of it; `words` are those of the command line if there are none."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND")
    parser.add_argument("--fault", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--places", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    spare_time()
    folder = arguments.folder.absolute()
    tally = Tally(folder / "damages.json")
    for name in arguments.kinds:
        damage(name, folder / name, arguments.fault, arguments.places, arguments.seed, tally)
    sys.exit(tally.finish())


if __name__ == "__main__":
    main()
