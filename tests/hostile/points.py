"""Kill a command, or fill the disk, at any operation on files, then go on as a user would.

    python -m tests.hostile.points FOLDER [COMMAND ...] [--every N | --random N [--seed S]]

Each command runs once undisturbed in FOLDER, which counts its operations on files there: writing, flushing to
the disk, renaming, removing, cutting. Then, for every Nth of them, it runs again in a folder of its own and
is killed before the operation, killed after it, or told there that the disk is full; with --random, it is
killed at N random times instead. Afterwards it is started again, and must end with the same files as the
undisturbed run: none missing, none different, none left over.

Every run is a fork of this process, which has imported everything already, so that a case takes a second.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import mmap
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from spml.bench import workers
from spml.bench.state import read_state
from spml.bench.store import Store
from spml.cli.main import main as spml
from spml.common.files import write_with
from spml.models.solved import auto
from spml.plots import style
from spml.review.progress import Selection
from spml.review.session import Review
from tests.data.benchmarks.layouts import voc2012
from tests.helpers.photos import make_photos
from tests.hostile.disk import FULL, HOW, TIMED, Disk, Stop
from tests.hostile.tally import Tally

TIMES = ("cost", "seconds", "date", "sha256")
"""Words in the names of values that no two runs share."""


class Job(NamedTuple):
    """A command whose operations are disturbed.

    Attributes:
        words: Words of the command; files are named relative to the folder that it runs in.
        again: Words added for each attempt to go on, in this order, until one is accepted.
        prepare: Words of commands that are run before it, undisturbed, and what people do in the folder.
    """

    words: str
    again: tuple[str, ...] = ("",)
    prepare: tuple[str | Callable[[Path], None], ...] = ()


TRAIN = "train {data} --output out --mean_labels 1.5 --data.workers 0 "
CONTINUED = ("--resume", "--overwrite")
RESERVE = 16 << 20  # bytes of address space
SPEC = """
data:
  rows: {path: rows.npz, mean_labels: 1.5, test_share: 0.3, unlisted: negative}
  photos:
    path: photos
    mean_labels: 1.5
    test_share: 0.3
    unlisted: negative
    size: 32
    train: {model.backbone: test_efficientnet, model.weights: random}
hiding:
  none: {observe: none}
candidates: [an]
baseline: an
modes: [observed]
seeds: 1
draws: 20
search: {sampler: random, trials: 1, space: {optim.lr: [1e-2]}}
train: {epochs: 2}
"""
SMALL = "train rows.npz --output run --mean_labels 1.5 --head ridge"
MANY = (
    "train many.npz --output run --mean_labels 1.5 --head ridge --data.val_share 0.5 "
    "--data.unlisted negative --data.observe single"
)
DRAW = "audit sample run --rows 20 --output out/sample.csv"
LOOP = (
    "loop many.npz --output out --head ridge --data.val_share 0.5 --data.unlisted negative "
    "--data.observe single --rows 20 --top 20"
)


def label_in_full(folder: Path) -> None:
    """Fill in the sample of a loop."""
    truth = np.load(folder / "many.npz")["Y"]
    sheet = folder / "out" / "sample.csv"
    header, *rows = sheet.read_text().splitlines()
    classes = np.array(["blue", "green", "red"])
    of_rows = [(row.split(",")[0], truth[int(row.split(",")[0])] == 1) for row in rows]
    lines = [f"{name},{'|'.join(classes[labels])},yes" for name, labels in of_rows]
    sheet.write_text("\n".join([header, *lines]) + "\n")


def answer_all(folder: Path, audit: str = "out/round-1/audit") -> None:
    """Answer the list of an audit, by default the first one of a loop."""
    review = Review(folder / audit, "person")
    for row, column in zip(*(part.tolist() for part in review.lists["missing"].entries[:2]), strict=True):
        review.decide(row, column, "no", Selection())
    review.store.close()


JOBS = {
    "loop": Job(LOOP),
    "loop-audit": Job(LOOP, prepare=(LOOP, label_in_full)),
    "loop-again": Job(LOOP, prepare=(LOOP, label_in_full, LOOP, answer_all)),
    "network": Job(
        TRAIN.format(data="photos")
        + "--method gr --epochs 2 --batch_size 8 --checkpoint_steps 1 --record scores --data.size 32 "
        "--model.backbone test_efficientnet --model.weights random --model.frozen no",
        CONTINUED,
    ),
    "frozen": Job(
        TRAIN.format(data="photos")
        + "--method gr --epochs 2 --data.size 32 --model.backbone test_efficientnet --model.weights random "
        "--model.frozen yes",
        CONTINUED,
    ),
    "ridge": Job(TRAIN.format(data="rows.npz") + "--head ridge", CONTINUED),
    "lbfgs": Job(TRAIN.format(data="rows.npz") + "--method softmax --optim.name lbfgs", CONTINUED),
    "auto": Job(TRAIN.format(data="rows.npz"), CONTINUED),
    "predict": Job(
        "predict run rows.npz --output out/scores.csv --batch_size 8", ("", "--overwrite"), (SMALL,)
    ),
    "use": Job("audit use out/sample.csv run", prepare=(MANY, DRAW, label_in_full)),
    "sample": Job(DRAW, ("", "--overwrite"), (MANY,)),
    "export": Job("export run --output out/model.onnx", ("", "--overwrite"), (SMALL,)),
    "evaluate": Job("evaluate run rows.npz --output out/metrics.json", prepare=(SMALL,)),
    "thresholds": Job("thresholds run --target precision=0.5", prepare=(SMALL,)),
    "audit": Job("audit run rows.npz --output out/audit", ("", "--overwrite"), (SMALL,)),
    "bench": Job("bench run spec.yaml --output out --workers 1"),
    "prepare": Job("data prepare voc2012 --root ."),
    "convert": Job("data convert photos out/labels.csv --format csv", ("", "--overwrite")),
    "coco": Job("data convert photos out/labels.json --format coco", ("", "--overwrite")),
}


class Ended(NamedTuple):
    """End of a command: exit code (negative: signal), what it printed, its operations and its imports."""

    code: int
    printed: str
    log: list[str]
    modules: list[str]


def run(
    words: str | Sequence[str],
    folder: Path,
    stop: Stop | None = None,
    *,
    memory: int | None = None,
    seconds: int | None = None,
) -> Ended:
    """Run a command in a fork of this process, disturbed at `stop`.

    Args:
        words: The command; a sequence where a word holds a space.
        folder: Folder that it runs in.
        stop: Where it is disturbed; None = nowhere.
        memory: Bytes of address space that it may take beyond what this process has; None = no limit.
        seconds: CPU time after which it is killed; None = never.
    """
    printed, log = folder.parent / f"{folder.name}.txt", folder.parent / f"{folder.name}.log"
    words = words.split() if isinstance(words, str) else list(words)
    child = os.fork()
    if not child:
        gc.freeze()  # a collection would copy all memory of this process
        reserve = mmap.mmap(-1, RESERVE)  # for the log of a command that has used up its memory
        _limit(memory, seconds)
        os._exit(_child(words, folder, stop, printed, log, reserve))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines, modules = json.loads(log.read_text()) if code >= 0 else ([], [])
    return Ended(code, printed.read_text(), lines, modules)


def _limit(memory: int | None, seconds: int | None) -> None:
    if memory is not None:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.alarm(10 * seconds)  # for a command that waits for ever


def _child(
    words: list[str], folder: Path, stop: Stop | None, printed: Path, log: Path, reserve: mmap.mmap
) -> int:
    with open(printed, "w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    os.chdir(folder)
    disk = Disk(folder, stop)
    if stop and stop.how == TIMED:
        signal.setitimer(
            signal.ITIMER_REAL, stop.number
        )  # nobody handles its signal, which then ends the process
    code = 0
    try:
        disk.install()
        if words[0] == "bench":
            workers.run_all = _run_all_here
        spml(words)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    reserve.close()
    log.write_text(json.dumps([disk.log, list(sys.modules)]))
    return code


def _run_all_here(job: workers.Job, number: int) -> Any:
    """Make the runs of a comparison in this process instead of others, so that their operations count."""
    problems = workers.work(job)
    return read_state(job.spec(), Store(job.url), Path(job.root)), problems


_TRIED: set[str] = set()  # names of modules that were imported, or can't be by their names


def import_all(modules: Sequence[str]) -> None:
    """Import what a fork has imported, so that later ones need not."""
    for module in modules:
        if module not in sys.modules and module not in _TRIED:
            _TRIED.add(module)
            with contextlib.suppress(Exception):
                importlib.import_module(module)


def spare_time() -> None:
    """Write figures blank and grow few trees, since both take most of the time of a short training."""
    auto.TREES = auto.MORE_TREES = 20
    style.write_with = lambda path, _: write_with(path, lambda stream: stream.write(b"blank"))


def content(folder: Path) -> dict[str, Any]:
    """All files below a folder, without the times that some of them hold."""
    # Files of kept features have random names, and a second pair of them after a kill.
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "features" not in path.parts)
    return {str(path.relative_to(folder)): _comparable(path) for path in files}


def _comparable(path: Path) -> Any:
    with contextlib.suppress(ValueError, sqlite3.Error):  # a file that is damaged
        return _readable(path)
    return path.read_bytes()


def _readable(path: Path) -> Any:
    if path.name.startswith("checkpoint"):
        return None  # it holds times
    if path.name == "cost.csv":
        return None
    if path.suffix == ".sqlite":
        with contextlib.closing(sqlite3.connect(path)) as store:
            rows = "file, label, answer FROM decisions" if "review" in path.name else "key, status FROM runs"
            return sorted(store.execute(f"SELECT {rows}"))
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
    return path.read_bytes()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if not any(word in key for word in TIMES)}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def lay_out(folder: Path) -> None:
    """Write the data of all commands: feature rows, and photos in a folder per class."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    (folder / "out").mkdir()
    y = generator.integers(0, 3, 60)
    x = generator.normal(size=(60, 6)) + 2 * np.eye(3, 6)[y]
    np.savez(folder / "rows.npz", X=x.astype(np.float32), Y=y, classes=["blue", "green", "red"])
    many = np.eye(3, dtype=np.int8)[y] | np.eye(3, dtype=np.int8)[(y + generator.integers(0, 2, 60)) % 3]
    np.savez(folder / "many.npz", X=x.astype(np.float32), Y=many, classes=["blue", "green", "red"])
    (folder / "spec.yaml").write_text(SPEC)
    voc2012(folder)
    make_photos(folder / "photos", per_class=8)


class Undisturbed(NamedTuple):
    """A command that has run without being disturbed.

    Attributes:
        job: The command.
        start: Folder before it.
        folder: Folder in which it ran, as the disturbed ones will, since some files hold its name.
        log: Its operations.
        seconds: How long it took.
        files: Content of the folder after it.
    """

    job: Job
    start: Path
    folder: Path
    log: list[str]
    seconds: float
    files: dict[str, Any]


def run_undisturbed(name: str, root: Path) -> Undisturbed:
    """Run a command, and import what it imports."""
    job, start, folder = JOBS[name], root / f"{name}-start", root / f"{name}-case"
    lay_out(start)
    for words in job.prepare:
        if callable(words):
            words(start)
            continue
        ended = run(words, start)
        assert ended.code == 0, ended.printed
    for _ in range(2):  # the second time is that of a process that has everything imported
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(start, folder)
        begun = time.perf_counter()
        ended = run(job.words, folder)
        seconds = time.perf_counter() - begun
        assert ended.code == 0, ended.printed
        import_all(ended.modules)
    return Undisturbed(job, start, folder, ended.log, seconds, content(folder))


def problem_of(whole: Undisturbed, stop: Stop) -> str:
    """Disturb a command and go on; what is wrong afterwards, or nothing."""
    job, folder = whole.job, whole.folder
    shutil.rmtree(folder)
    shutil.copytree(whole.start, folder)
    ended = run(job.words, folder, stop)
    if ended.code not in {FULL: (0, 1), TIMED: (0, -signal.SIGALRM)}.get(stop.how, (-signal.SIGKILL,)):
        return f"ended with {ended.code}: {ended.printed[-2000:]}"
    told = ended.printed
    for words in () if ended.code == 0 else job.again:
        ended = run(f"{job.words} {words}", folder)
        if ended.code == 0:
            break
    if ended.code != 0:
        return f"can't be continued ({ended.code}): {told[-1000:]}\n{ended.printed[-2000:]}"
    found = content(folder)
    missing, left = sorted(whole.files.keys() - found.keys()), sorted(found.keys() - whole.files.keys())
    different = sorted(name for name in whole.files.keys() & found.keys() if whole.files[name] != found[name])
    wrong = {"missing": missing, "left over": left, "different": different}
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in wrong.items() if names)


def disturb(name: str, root: Path, every: int, times: int, draw: random.Random) -> tuple[int, int]:
    """Disturb a command, at every Nth of its operations or at some random times. Returns how often, and how
    often something was wrong afterwards."""
    whole = run_undisturbed(name, root)
    stops = [Stop(draw.uniform(0, whole.seconds), TIMED) for _ in range(times)] or [
        Stop(number, how) for number in range(1, len(whole.log) + 1, every) for how in HOW
    ]
    wrong = 0
    for stop in stops:
        if problem := problem_of(whole, stop):
            where = "" if stop.how == TIMED else f" ({whole.log[int(stop.number) - 1]})"
            print(f"{name}, {stop.how} {stop.number:.4g}{where}: {problem}", flush=True)
            wrong += 1
    return len(stops), wrong


def main(words: Sequence[str] | None = None) -> None:
    """Disturb commands and say what was found; `words` are those of the command line if there are none."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("commands", nargs="*", default=list(JOBS), metavar="COMMAND")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--random", type=int, default=0, metavar="N", help="kills, shared by the commands")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    spare_time()
    draw, names = random.Random(arguments.seed), arguments.commands
    folder, chosen = arguments.folder.absolute(), Counter(draw.choices(names, k=arguments.random))
    tally = Tally(folder / ("random.json" if arguments.random else "points.json"))
    for name in chosen if arguments.random else names:
        cases, wrong = disturb(name, folder, arguments.every, chosen[name], draw)
        tally.add(name, {"cases": cases, "wrong": wrong})
    sys.exit(tally.finish())


if __name__ == "__main__":
    main()
