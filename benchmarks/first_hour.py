"""Follow the README and the quick start word by word, as people do in their first hour, and time each step.

    python benchmarks/first_hour.py VOC2012_ANIMALS WEIGHTS FOLDER PYTHON

VOC2012_ANIMALS is a folder of photographs with `labels.csv` (all labels), WEIGHTS the .safetensors file of a
MobileNetV2 (timm's `mobilenetv2_100`), FOLDER takes everything that is written, and PYTHON belongs to an
environment in which the wheel is installed. Run it without a network (`unshare -rn`, `ip link set lo up`):
the weights are a file, as the quick start advises.

300 photographs are copied into a folder per class, by one of their labels that is drawn at random; 20 others
are new. Commands are those of the pages, in their order; only the weights are added to trainings. Where a
page is opened, its questions are answered over HTTP, from the true labels. Then the Python of the README
runs in one process, and a cell of a notebook twice. Left out: `make`, installation, `spml demo` and `spml
bench run`, which have tests of their own.

Writes benchmarks/results/first_hour.json. The first command that fails ends it.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PHOTOS, NEW, LEAST = 300, 20, 200
SKIPPED = (
    "make",
    "python",
    ".",
    ".venv/bin/pip",
    ".venv/bin/spml",
    "spml demo",
    "spml bench",
    "spml serve",
    "spml loop",
)
CELL = """
import numpy as np, spml
X = np.random.default_rng(0).normal(size=(300, 20)).astype("float32")
y = X[:, :4].argmax(1)
for _ in range(2):
    run = spml.train(X, y, head="ridge")
print(repr(run), run.predict(X), run.thresholds, sep="\\n")
assert run.folder.name == "memory-ridge-2" and "<table>" in run.predict(X)._repr_html_()
"""


def copy_photos(source: Path, folder: Path) -> dict[str, set[str]]:
    """Copy photographs into a folder per class, and some new ones; returns the labels of each by its name."""
    with (source / "labels.csv").open(encoding="utf-8") as table:
        labels = {row["file"]: row["labels"].split() for row in csv.DictReader(table)}
    draw = random.Random(0)
    files = sorted(labels)
    draw.shuffle(files)
    drawn = {file: draw.choice(labels[file]) for file in files}
    many = {name for name in drawn.values() if sum(each == name for each in drawn.values()) >= LEAST}
    files = [file for file in files if drawn[file] in many][: PHOTOS + NEW]
    for number, file in enumerate(files):
        place = folder / ("new" if number < NEW else f"photos/{drawn[file]}") / Path(file).name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, place)
    with (folder / "labelled.csv").open("w", newline="", encoding="utf-8") as table:
        rows = [
            ("new/" + Path(file).name, "|".join(each for each in labels[file] if each in many))
            for file in files[:NEW]
        ]
        csv.writer(table).writerows([("file", "labels"), *rows])
    return {Path(file).name: set(labels[file]) for file in files}


def commands(page: str) -> list[list[str]]:
    """Commands of a page, in their order, without comments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [
        block for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M) if not language
    ]
    lines = [line.partition(" #")[0] for block in blocks for line in block.splitlines() if line.strip()]
    return [shlex.split(line) for line in lines if not line.startswith(SKIPPED)]


def answer_page(address: str, truth: dict[str, set[str]]) -> None:
    """Answer all questions of a page of `spml review` from the true labels."""

    def ask(path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{address}api/{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    about = ask("about")
    for sample in ask("queue")["samples"]:
        (card,) = ask(f"cards?samples={sample}")
        right = truth[Path(card["name"]).name]
        for each in card.get("suggestions", ()):  # of an audit
            said = "yes" if about["classes"][each["column"]] in right else "no"
            ask("decide?list=missing", {"samples": [sample], "column": each["column"], "answer": said})
        if "suggestions" in card:
            continue
        for column, name in enumerate(about["classes"]):  # a sample that is labelled in full
            if name in right:
                ask("decide", {"sample": sample, "column": column, "answer": "yes"})
        ask("complete", {"sample": sample, "complete": True})


class Follower:
    """Runs commands in a folder, and keeps their times."""

    def __init__(self, folder: Path, python: Path, weights: list[str], truth: dict[str, set[str]]) -> None:
        self.folder, self.python, self.weights, self.truth = folder, python, weights, truth
        self.steps: list[dict[str, Any]] = []
        self.environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def follow(self, page: str) -> None:
        """Run the commands of a page."""
        for words in commands(page):
            typed, started = shlex.join(words), time.perf_counter()
            call = [str(self.python), "-m", *words]
            if words[1] == "train" and "digits" not in words and "--like" not in words:
                call += self.weights
            if words[1] == "review" and words[2] != "export":
                with subprocess.Popen(
                    call, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
                ) as page_of:
                    assert page_of.stdout is not None
                    answer_page(page_of.stdout.readline().strip(), self.truth)
                    page_of.send_signal(signal.SIGINT)
                    said, _ = page_of.communicate()
                code = page_of.returncode
            else:
                done = subprocess.run(
                    call, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
                )
                code, said = done.returncode, done.stdout + done.stderr
            self.add(page, typed, code, said, started)

    def python_code(self, page: str, code: str) -> None:
        """Run Python in one process."""
        started = time.perf_counter()
        done = subprocess.run(
            [str(self.python), "-c", code],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.add(page, "Python", done.returncode, done.stdout + done.stderr, started)

    def add(self, page: str, typed: str, code: int, said: str, started: float) -> None:
        seconds = round(time.perf_counter() - started, 1)
        print(f"{seconds:7.1f} s  {page}: {typed}", flush=True)
        if code not in (0, 130):
            raise SystemExit(f"exit code {code}\n{said}")
        self.steps.append(
            {"page": page, "command": typed, "seconds": seconds, "lines": len(said.splitlines())}
        )


def main(source: Path, weights: Path, folder: Path, python: Path) -> None:
    """Follow both pages and the Python of the README, and write what each step took."""
    steps: list[dict[str, Any]] = []
    options = ["--backbone", "mobilenetv2_100", "--weights", str(weights)]
    for page in ("README.md", "docs/quickstart.md"):
        own = folder / Path(page).stem
        own.mkdir(parents=True)
        follower = Follower(own, python, options, copy_photos(source, own))
        follower.follow(page)
        steps += follower.steps
        if page == "README.md":
            follower.steps = []
            (code,) = (
                block
                for block in re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)
                if "spml.train" in block
            )
            loaded = (
                "import numpy as np; X = np.random.default_rng(0).normal(size=(300, 20)); X_new = X[:5]\n"
            )
            loaded += "y = X[:, :4].argmax(1)\n"
            stated = f'backbone="mobilenetv2_100", weights={str(weights)!r}, output="runs/python"'
            follower.python_code(page, loaded + code.replace('output="runs/python"', stated))
            follower.python_code("notebook", CELL)
            steps += follower.steps
    result = {
        "photographs": PHOTOS,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[2], 1),  # processes that wanted to run in the last 15 minutes
        "python": platform.python_version(),
        "minutes": round(sum(step["seconds"] for step in steps) / 60, 1),
        "steps": steps,
    }
    path = ROOT / "benchmarks" / "results" / "first_hour.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*(Path(word).absolute() for word in sys.argv[1:5]))
