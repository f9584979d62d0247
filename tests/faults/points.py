"""Kill a command, or fill the disk, at any operation on files, then go on as a user would.

    python -m tests.faults.points FOLDER [COMMAND ...] [--every N]

Each command runs once undisturbed in FOLDER, which counts its operations on files there: writing, flushing to
the disk, renaming, removing, cutting. Then, for every Nth of them, it runs again in a folder of its own and
is killed before the operation, killed after it, or told there that the disk is full. Afterwards it is started
again, and must end with the same files as the undisturbed run: none missing, none different, none left over.

Every run is a fork of this process, which has imported everything already, so that a case takes a second.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import errno
import importlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from PIL import Image

from spml.cli.main import main as spml

BEFORE, AFTER, FULL = HOW = ("killed before", "killed after", "disk full at")
TIMES = ("cost", "seconds", "date", "sha256")
"""Words in the names of values that no two runs share."""
WRITES = ("write", "fsync", "rename", "replace")
"""Operations for which a full disk has no room."""


class Job(NamedTuple):
    """A command whose operations are disturbed.

    Attributes:
        words: Words of the command; files are named relative to the folder that it runs in.
        again: Words added for each attempt to go on, in this order, until one is accepted.
        prepare: Words of commands that are run before it, undisturbed.
    """

    words: str
    again: tuple[str, ...] = ("",)
    prepare: tuple[str, ...] = ()


TRAIN = "train {data} --output out --mean_labels 1.5 --data.workers 0 "
CONTINUED = ("--resume", "--overwrite")
SMALL = "train rows.npz --output run --mean_labels 1.5 --head ridge"
JOBS = {
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
    "evaluate": Job("evaluate run rows.npz --output out/metrics.json", prepare=(SMALL,)),
    "thresholds": Job("thresholds run --target precision=0.5", prepare=(SMALL,)),
    "audit": Job("audit run rows.npz --output out/audit", ("", "--overwrite"), (SMALL,)),
    "convert": Job("data convert photos out/labels.csv --format csv", ("", "--overwrite")),
    "coco": Job("data convert photos out/labels.json --format coco", ("", "--overwrite")),
}


class Stop(NamedTuple):
    """Where and how a run is disturbed."""

    number: int
    how: str


class Disk:
    """Counts the operations on files below a folder, and disturbs one of them.

    Args:
        folder: Folder whose files count.
        stop: Operation to disturb; None = only count.
    """

    def __init__(self, folder: Path, stop: Stop | None) -> None:
        self.folder, self.stop = str(folder), stop
        self.log: list[str] = []

    def install(self) -> None:
        """Replace the functions of Python that change files."""
        for name in ("rename", "replace", "unlink", "remove", "rmdir", "truncate"):
            self._wrap(os, name, self._first_path)
        for name in ("fsync", "fdatasync", "ftruncate"):
            self._wrap(os, name, lambda arguments, _: os.readlink(f"/proc/self/fd/{arguments[0]}"))
        opened = io.open

        def open_counted(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            stream = opened(file, mode, *arguments, **named)
            path = os.path.abspath(os.fspath(file)) if not isinstance(file, int) else ""
            if set(mode).isdisjoint("wax+") or not path.startswith(self.folder):
                return stream
            return Stream(stream, path, self)

        builtins.open = io.open = open_counted  # type: ignore[assignment]

    @staticmethod
    def _first_path(arguments: Sequence[Any], named: dict[str, Any]) -> str:
        base = os.readlink(f"/proc/self/fd/{named['dir_fd']}") if named.get("dir_fd") is not None else ""
        return os.path.abspath(os.path.join(base, os.fspath(arguments[0])))

    def _wrap(self, module: Any, name: str, path_of: Callable[[Sequence[Any], dict[str, Any]], str]) -> None:
        function = getattr(module, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            return self.count(name, path_of(arguments, named), lambda: function(*arguments, **named))

        setattr(module, name, counted)

    def count(self, name: str, path: str, operation: Callable[[], Any]) -> Any:
        """Count an operation, and run it unless it is the one that never happens."""
        if not path.startswith(self.folder):
            return operation()
        operation_of = f"{name} {os.path.relpath(path, self.folder)}"
        if self.log[-1:] == [operation_of]:  # a picture is written in dozens of pieces
            return operation()
        self.log.append(operation_of)
        here = self.stop is not None and self.stop.number == len(self.log)
        if here and self.stop.how == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        if here and self.stop.how == FULL and name in WRITES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        try:
            return operation()
        finally:  # a file to remove may not exist
            if here and self.stop.how == AFTER:
                os.kill(os.getpid(), signal.SIGKILL)


class Stream:
    """An open file whose operations are counted; what is written reaches the file at once."""

    def __init__(self, stream: Any, path: str, disk: Disk) -> None:
        self._stream, self._path, self._disk = stream, path, disk

    def write(self, data: Any) -> Any:
        def operation() -> Any:
            written = self._stream.write(data)
            self._stream.flush()
            return written

        return self._disk.count("write", self._path, operation)

    def truncate(self, size: int | None = None) -> Any:
        return self._disk.count("truncate", self._path, lambda: self._stream.truncate(size))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def __iter__(self) -> Any:
        return iter(self._stream)


class Ended(NamedTuple):
    """How a command ended: exit code (negative: signal), what it printed, its operations and its imports."""

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
        _limit(memory, seconds)
        os._exit(_child(words, folder, stop, printed, log))
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


def _child(words: list[str], folder: Path, stop: Stop | None, printed: Path, log: Path) -> int:
    with open(printed, "w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    os.chdir(folder)
    disk = Disk(folder, stop)
    code = 0
    try:
        disk.install()
        spml(words)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    log.write_text(json.dumps([disk.log, list(sys.modules)]))
    return code


def import_all(modules: Sequence[str]) -> None:
    """Import what a fork has imported, so that later ones need not."""
    for module in modules:
        if module not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(module)


def content(folder: Path) -> dict[str, Any]:
    """All files below a folder, without the times that some of them hold."""
    # Files of kept features have random names, and a second pair of them after a kill.
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "features" not in path.parts)
    return {str(path.relative_to(folder)): _comparable(path) for path in files}


def _comparable(path: Path) -> Any:
    if path.name.startswith("checkpoint"):
        return None  # it holds times
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
    for channel, name in enumerate(("blue", "green", "red")):
        (folder / "photos" / name).mkdir(parents=True)
        for place in range(8):
            pixels = generator.integers(0, 160, (32, 32, 3), dtype=np.uint8)
            pixels[..., 2 - channel] += 80
            Image.fromarray(pixels).save(folder / "photos" / name / f"{place:02}.png")


def problem_of(job: Job, folder: Path, stop: Stop, whole: dict[str, Any]) -> str:
    """Disturb a command and go on; what is wrong afterwards, or nothing."""
    ended = run(job.words, folder, stop)
    if stop.how == FULL and ended.code not in (0, 1):
        return f"ended with {ended.code}: {ended.printed[-2000:]}"
    if stop.how != FULL and ended.code != -signal.SIGKILL:
        return f"was not killed, but ended with {ended.code}: {ended.printed[-2000:]}"
    told = ended.printed
    for words in () if ended.code == 0 else job.again:
        ended = run(f"{job.words} {words}", folder)
        if ended.code == 0:
            break
    if ended.code != 0:
        return f"can't be continued ({ended.code}): {told[-1000:]}\n{ended.printed[-2000:]}"
    found = content(folder)
    missing, left = sorted(whole.keys() - found.keys()), sorted(found.keys() - whole.keys())
    different = sorted(name for name in whole.keys() & found.keys() if whole[name] != found[name])
    wrong = {"missing": missing, "left over": left, "different": different}
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in wrong.items() if names)


def disturb(name: str, root: Path, every: int, first: int = 1) -> tuple[int, list[str]]:
    """Disturb a command at every Nth of its operations. Returns the number of cases, and what went wrong."""
    # The disturbed runs have the folder of the undisturbed one, since some files hold its name.
    job, start, folder = JOBS[name], root / f"{name}-start", root / f"{name}-case"
    lay_out(start)
    for words in job.prepare:
        ended = run(words, start)
        assert ended.code == 0, ended.printed
    shutil.copytree(start, folder)
    undisturbed = run(job.words, folder)
    assert undisturbed.code == 0, undisturbed.printed
    import_all(undisturbed.modules)
    expected, problems, cases = content(folder), [], 0
    for number in range(first, len(undisturbed.log) + 1, every):
        for how in HOW:
            shutil.rmtree(folder)
            shutil.copytree(start, folder)
            cases += 1
            if problem := problem_of(job, folder, Stop(number, how), expected):
                operation = undisturbed.log[number - 1]
                problems.append(f"{name}, {how} operation {number} ({operation}): {problem}")
                print(problems[-1], flush=True)
    return cases, problems


def main() -> None:
    """Disturb commands and say what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("commands", nargs="*", default=list(JOBS), metavar="COMMAND")
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    total = wrong = 0
    for name in arguments.commands:
        cases, problems = disturb(name, arguments.folder.absolute(), arguments.every)
        print(f"{name}: {cases:,} cases, {len(problems):,} wrong", flush=True)
        total, wrong = total + cases, wrong + len(problems)
    print(f"{total:,} cases, {wrong:,} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
