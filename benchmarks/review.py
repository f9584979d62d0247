"""Measure the page of `spml review` in headless Chromium.

    python benchmarks/review.py PHOTOS [WORK_FOLDER]

PHOTOS is a folder of JPEG files. 2,000 of them are copied (each several times if there are fewer) and get
made-up labels and an audit with two entries each, of random probability; answers are made up, too.

Start: seconds from the command to its address, and from opening the address to the first photo, with no
small copies of photos from before. Keyboard: 300 answers, one key each, where the next key is pressed as
soon as the page shows the next question and its photo: what the page allows, not what a person does.
Scrolling: the overview of 10,000 photos (each of the 2,000 five times) from one end to the other in 5
seconds, as the time between two frames; and the time until all photos in sight are there after a jump.

All times are wall times, so they depend on other load, which is recorded. There is no graphics card: frames
are drawn by the processor.

Writes benchmarks/results/review.json.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import save_results, today
from tests.review.browser import Server, chromium

from spml.audit.folder import (
    About,
    Audit,
    MissingLabel,
    data_settings,
    fingerprint,
    read_observed,
    write_audit,
)
from spml.config import DataConfig

PHOTOS, MANY, ANSWERS = 2_000, 10_000, 300
CLASSES = ("animal", "beach", "car", "dog", "person", "tree")

_FRAMES = """async () => {
  const film = document.getElementById("film"), times = [], start = performance.now();
  const end = film.scrollHeight - film.clientHeight;
  let last = start;
  await new Promise((done) => {
    requestAnimationFrame(function step(now) {
      times.push(now - last);
      last = now;
      film.scrollTop = end * (now - start) / 5000;
      now - start < 5000 ? requestAnimationFrame(step) : done();
    });
  });
  return times.slice(2);
}"""
_JUMP = """async () => {
  const film = document.getElementById("film"), start = performance.now();
  film.scrollTop = film.scrollHeight / 2;
  const inSight = () => [...film.querySelectorAll("img")].filter((image) => {
    const { top, bottom } = image.getBoundingClientRect(), box = film.getBoundingClientRect();
    return bottom > box.top && top < box.bottom;
  });
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  const loaded = (image) => image.src && image.complete;
  while (!inSight().every(loaded)) await new Promise((done) => setTimeout(done, 5));
  return performance.now() - start;
}"""


def make_audit(source, work, copies):
    """Copy photos, label them and audit them. Returns the folder of the audit."""
    files = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    data = work / "photos"
    data.mkdir(parents=True)
    names = []
    for number, path in enumerate(itertools.islice(itertools.cycle(files), PHOTOS)):
        shutil.copy(path, data / f"{number:04}-0.jpg")
        names += [f"{number:04}-{copy}.jpg" for copy in range(copies)]
        for name in names[1 - copies :] if copies > 1 else ():
            os.link(data / f"{number:04}-0.jpg", data / name)
    rng = np.random.default_rng(0)
    labels = [rng.permutation(len(CLASSES))[:3] for _ in names]
    rows = [f"{name},{CLASSES[given]}" for name, (given, *_) in zip(names, labels, strict=True)]
    (data / "labels.csv").write_text("\n".join(["file,label", *rows]))
    config = DataConfig(path=str(data / "labels.csv"))
    records = read_observed(config)
    entries = sorted(
        (
            (rng.random(), name, int(column))
            for name, row in zip(names, labels, strict=True)
            for column in row[1:]
        ),
        reverse=True,
    )
    missing = [
        MissingLabel(name, "", CLASSES[column], float(p), rank, rank)
        for rank, (p, name, column) in enumerate(entries, start=1)
    ]
    about = About(
        run="",
        data=data_settings(config),
        fingerprint=fingerprint(records.ids, records.classes, records.labels),
        classes=records.classes,
        mean_labels=2.0,
        mean_labels_source="stated",
        samples=len(names),
        unknown=(len(CLASSES) - 1) * len(names),
        listed=len(missing),
        expected=sum(entry.probability for entry in missing),
        warnings=(),
        how="random numbers",
    )
    write_audit(work / "audit", Audit(about, missing, []))
    return work / "audit"


def open_page(browser, server):
    """Open the page. Returns it and the seconds to its first photo."""
    started = time.perf_counter()
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(server.address)
    page.wait_for_selector("#photo:not([hidden])")
    return page, time.perf_counter() - started


def answer(page):
    """Milliseconds of each of many answers by keyboard."""
    shown = (
        "() => document.getElementById('file').textContent + "
        "document.querySelectorAll('[aria-pressed=true]').length"
    )
    times = []
    for number in range(ANSWERS):
        before = page.evaluate(shown)
        started = time.perf_counter()
        page.keyboard.press("yn"[number % 2])
        page.wait_for_function(
            f"(before) => ({shown})() !== before && !document.getElementById('photo').hidden", arg=before
        )
        times.append(1000 * (time.perf_counter() - started))
    return times


def spread(times):
    """Median, 95th percentile and maximum, in whole milliseconds."""
    return {
        "median": round(statistics.median(times)),
        "95 %": round(float(np.quantile(times, 0.95))),
        "longest": round(max(times)),
    }


def measure(source, work):
    """All results."""
    with chromium() as browser:
        audit = make_audit(source, work / "some", 1)
        started = time.perf_counter()
        server = Server(audit)
        to_address = time.perf_counter() - started
        page, to_photo = open_page(browser, server)
        times = answer(page)
        server.kill()
        audit = make_audit(source, work / "many", MANY // PHOTOS)
        server = Server(audit)
        page, to_photo_of_many = open_page(browser, server)
        frames = page.evaluate(_FRAMES)
        jump = page.evaluate(_JUMP)
        cells = page.locator("#film [role=option]").count()
        server.kill()
    return {
        "seconds from the command to the address": round(to_address, 1),
        "seconds from the address to the first photo": round(to_photo, 2),
        "keyboard": {
            "answers": ANSWERS,
            "answers per minute": round(60_000 * ANSWERS / sum(times)),
            "milliseconds per answer": spread(times),
        },
        f"overview of {MANY} photos": {
            "seconds from the address to the first photo": round(to_photo_of_many, 2),
            "photos in the document": cells,
            "milliseconds between frames while scrolling": spread(frames),
            "milliseconds to all photos in sight after a jump": round(jump),
        },
    }


def main():
    """Measure and write the result."""
    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as work:
        load = os.getloadavg()[0]
        measured = measure(source, Path(work))
    result = {
        **today(),
        "cores": os.cpu_count(),
        "load of other programs at the start": round(load, 1),
        "versions": {name: version(name) for name in ("spml", "fastapi", "uvicorn", "pillow", "playwright")},
        "photos": PHOTOS,
        **measured,
    }
    save_results("review", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
