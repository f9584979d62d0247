"""Make every attack, within limits of memory and time.

    python -m tests.hostile.attacks FOLDER [NAME ...]

An attack must end with the expected exit code and message, without a traceback, a warning of Python or a
control character. It must neither run code, nor show or change a file outside its folder; what is refused
writes nothing at all.
Each command is a fork of this process, which may take 600 MB of address space beyond what it has, and 30
seconds of CPU time. Prints the answer to each attack.
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from spml.bench.plan import CODE_VERSION
from spml.bench.store import store_url
from spml.bench.workers import Job, work
from tests.hostile.attacks import ATTACKS
from tests.hostile.attacks.attack import SECRET, Attack
from tests.hostile.disk import AFTER, Stop
from tests.hostile.points import import_all, lay_out, run

MEMORY, SECONDS = 600 << 20, 30
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LONGEST = 2000
"""Characters of the longest answer that a person reads."""

SPEC = """
data: {rows: {path: rows.npz, mean_labels: 1.5, unlisted: negative, test_share: 0.2}}
hiding: {single: {observe: single}}
candidates: [an]
modes: [observed]
seeds: 1
draws: 2
search: {trials: 1}
train: {epochs: 1}
"""
TRAIN = "train rows.npz --mean_labels 1.5 --data.workers 0 "
PREPARED = (
    TRAIN + "--output run --head ridge",
    "train photos --output seen --method an --epochs 1 --backbone small_cnn --data.size 32 --data.workers 0",
    "audit run --output audit",
    "audit-sample run --rows 20 --output sample.csv",
)
"""Commands that make what is tampered with, with a comparison (`SPEC`)."""

UNFINISHED = TRAIN + "--output stopped --method gr --epochs 4 --batch_size 16 --checkpoint_steps 1"


def prepare(template: Path) -> None:
    """Make the folder in which attacks begin: data, runs, an audit, a comparison, a run that was killed."""
    lay_out(template)
    shutil.rmtree(template / "out")
    (template / "spec.yaml").write_text(SPEC)
    classes = np.arange(120) % 3
    features = np.random.default_rng(0).normal(size=(120, 6)) + 2 * np.eye(3, 6)[classes]
    named = {"Y": classes, "classes": ["blue", "green", "red"]}
    np.savez(template / "rows.npz", X=features.astype(np.float32), **named)
    for words in PREPARED:
        made = run(words, template)
        assert made.code == 0, made.printed
        import_all(made.modules)
    bench = template / "bench"
    bench.mkdir()
    folders = str(template), str(bench)
    job = Job(str(template / "spec.yaml"), SPEC, *folders, store_url(bench), CODE_VERSION)
    assert work(job) == []
    stopped = run(UNFINISHED, template, Stop(6, AFTER, "replace stopped/checkpoint.new.safetensors"))
    assert stopped.code == -signal.SIGKILL, stopped.printed


def problem_of(attack: Attack, template: Path, folder: Path) -> tuple[str, str]:
    """Make an attack. Returns what is wrong with the answer, or nothing; and the answer."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    secret = folder.parent / "secret.txt"
    secret.write_text(SECRET)
    attack.make(folder)
    before = set(folder.rglob("*"))
    ended = run(attack.words, folder, memory=MEMORY, seconds=SECONDS)
    import_all(ended.modules)
    new = sorted(str(path.relative_to(folder)) for path in set(folder.rglob("*")) - before)
    answer = next((line for line in ended.printed.splitlines() if attack.line in line), "")
    if (folder / "executed").exists():
        return "code was run", answer
    if SECRET in ended.printed or secret.read_text() != SECRET:
        return "a file outside the folder was read or changed", answer
    if ended.code != attack.code:
        return f"ended with {ended.code}, not {attack.code}", ended.printed[-1500:]
    if re.search("Traceback|Warning: ", ended.printed) or CONTROL.search(ended.printed):
        return "a traceback, a warning of Python, or a control character", repr(ended.printed[-1500:])
    if not answer:
        return f"did not say {attack.line!r}", ended.printed[-1500:]
    if len(answer) > LONGEST:
        return f"said {len(answer):,} characters", answer[:LONGEST]
    if attack.code == 2 and new:
        return f"wrote {', '.join(new)}", answer
    return "", answer


def main(words: Sequence[str] | None = None) -> None:
    """Make attacks and say what they met; `words` are those of the command line if there are none."""
    folder, *names = words or sys.argv[1:]
    root = Path(folder).absolute()
    torch.set_num_threads(1)
    prepare(root / "template")
    chosen = [attack for attack in ATTACKS if not names or attack.name in names]
    wrong = 0
    for attack in chosen:
        problem, answer = problem_of(attack, root / "template", root / "attacked")
        wrong += bool(problem)
        print(f"{attack.name}: {'WRONG: ' + problem + ': ' if problem else ''}{answer}", flush=True)
    print(f"{len(chosen)} attacks, {wrong} not met as expected")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
