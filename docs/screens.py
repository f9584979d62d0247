"""Make the pictures of the documentation: what somebody sees who follows the quick start.

    python docs/screens.py FOLDER [OPTION...]

Pages are drawn at the width of a computer and of a telephone, light and dark, and must not scroll sideways.
The photographs are those of examples/scenes. FOLDER takes them and the runs, and OPTIONS go to `spml train`,
such as those that choose the backbone. Questions are answered with the true labels. `spml demo` is run in the
folder, too, unless it was before, and the site is built. Needs Chromium.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from examples.scenes.make_scenes import make_photos
from PIL import Image
from tests.review.browser import chromium, serving
from tests.serve.process import serving as serving_run

import spml
from spml import plots
from spml.audit.sheets import read_sample
from spml.cli.main import main
from spml.review.progress import Selection
from spml.runs.audits.sample import scores_of_sample

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "screens"
PHOTOS, NEW = 1_000, 4
CARDS = 12


def draw_screens(folder: Path, options: list[str]) -> None:
    """Follow the quick start in a folder, and write a picture of everything that it shows."""
    os.chdir(folder)
    make_photos(Path("photos"), PHOTOS)
    make_photos(Path("new"), NEW, seed=1)
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 760})
        main(["data", "inspect", "photos", "--output", "inspected"])
        with Image.open("inspected/inspect.png") as picture:
            picture.thumbnail((1000, 1000))
            write(picture, "inspect")
        main(["train", "photos", "--output", "runs/first", *options])
        main(["audit", "sample", "runs/first", "--rows", "50"])
        label_sample(page)
        main(["audit", "use", "runs/first/sample.csv", "runs/first"])
        main(["thresholds", "runs/first", "--target", "precision=0.8"])
        with Image.open("runs/first/thresholds.png") as picture:
            write(picture, "thresholds")
        page.goto(Path("runs/first/report.html").resolve().as_uri())
        page.locator("h2", has_text="Photos of each class").scroll_into_view_if_needed()
        page.evaluate("window.scrollBy(0, 560)")
        save(page, "report-photos")
        everywhere(browser, Path("runs/first/report.html").resolve().as_uri(), "report")
        main(["audit", "runs/first"])
        review(page)
        with serving(Path("runs/first/audit")) as site:
            everywhere(browser, site.address, "review", "#photo:not([hidden])")
        serve(browser)
        main(["demo", "--output", "demo"])
        everywhere(browser, Path("demo/report.html").resolve().as_uri(), "bench")
        draw_site(browser)
    draw_predictions(spml.load("runs/first"))
    draw_export()


def save(page, name: str) -> None:
    """Write what a page of the browser shows once its images are there."""
    page.wait_for_load_state("networkidle")
    page.wait_for_function(
        "[...document.images].every((image) => image.loading === 'lazy' || image.complete)"
    )
    write(Image.open(io.BytesIO(page.screenshot())), name)


def everywhere(browser, address: str, name: str, ready: str = "body", prepare=lambda page: None) -> None:
    """Draw a page at two widths, light and dark, side by side. None scrolls sideways."""
    sheet = Image.new("RGB", (960, 1010), "#888")
    for row, scheme in enumerate(("light", "dark")):
        for left, width, height in ((0, 1280, 900), (716, 375, 790)):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(address)
            page.wait_for_selector(ready)
            prepare(page)
            page.wait_for_timeout(500)
            if page.evaluate("document.documentElement.scrollWidth") > width:
                raise RuntimeError(f"{name} scrolls sideways at {width} pixels")
            shot = Image.open(io.BytesIO(page.screenshot()))
            shot.thumbnail((712, 502))
            sheet.paste(shot.convert("RGB"), (left, 506 * row))
            page.close()
    write(sheet, f"{name}-pages")


def serve(browser) -> None:
    """Draw the page of the server with the answers to the new photographs."""
    files = [str(file) for file in sorted(Path("new").glob("*/*.jpg"))]

    def send(page) -> None:
        page.set_input_files("#files", files)
        page.wait_for_selector("article table")

    with serving_run(Path("runs/first")) as (address, _):
        everywhere(browser, f"{address}/", "serve", "[data-ready]", send)
        page = browser.new_page(viewport={"width": 960, "height": 700})
        page.goto(f"{address}/")
        page.wait_for_selector("[data-ready]")
        send(page)
        page.locator("article").first.scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.querySelector('article').offsetTop - 20)")
        save(page, "serve")


def draw_site(browser) -> None:
    """Draw the front page of the site and the quick start."""
    folder = Path("site").resolve()
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("index", "quickstart"):
            everywhere(browser, f"http://127.0.0.1:{server.server_port}/{name}.html", f"site-{name}")
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *about) -> None:
        """Say nothing."""


def draw_export() -> None:
    """Draw the speed of exported models, from the committed results."""
    import matplotlib.pyplot as plt

    results = json.loads((ROOT / "benchmarks" / "results" / "export.json").read_text(encoding="utf-8"))
    models = list(results["models"])
    figure, axes = plt.subplots(figsize=(7, 2.4), layout="constrained")
    for row, (name, label) in enumerate((("torch", "PyTorch"), ("onnxruntime", "exported, ONNX Runtime"))):
        speeds = [results["models"][model]["speed"]["decoded, 1"][name] for model in models]
        places = [place + 0.4 * row for place in range(len(models))]
        axes.bar_label(axes.barh(places, speeds, 0.38, label=label), fmt="%.0f", padding=3)
    axes.set_yticks([place + 0.2 for place in range(len(models))], models)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("photographs per second, one at a time, two cores")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig("export.png", dpi=130)
    with Image.open("export.png") as picture:
        write(picture, "export")


def write(picture: Image.Image, name: str) -> None:
    """Write a picture in the format that takes the least space for photographs."""
    picture.convert("RGB").save(PICTURES / f"{name}.webp", quality=80, method=6)


def truth_of(folder: str) -> dict[str, list[str]]:
    """All labels of the photographs of a folder, by their names."""
    with Path(f"{folder}.csv").open(encoding="utf-8") as table:
        return {row["file"].partition("/")[2]: row["labels"].split("|") for row in csv.DictReader(table)}


def label_sample(page) -> None:
    """Label a sample in full, and draw the page in the middle of it."""
    truth, sheet = truth_of("photos"), Path("runs/first/sample.csv")
    sample = read_sample(sheet)
    scores = scores_of_sample({run: spml.load(run) for run in sample.runs}, sample.ids, sample.classes)
    with serving(sheet, scores=scores) as site:
        for number, row in enumerate(site.review.shown()[0]):
            if number == CARDS:
                page.goto(site.address)
                page.wait_for_selector("#photo:not([hidden])")
                save(page, "review-sample")
            (card,) = site.review.cards([row])
            for column, name in enumerate(sample.classes):
                if name in truth[card.name] and column not in card.given:
                    site.review.decide(row, column, "yes")
            site.review.complete(row, complete=True)


def review(page) -> None:
    """Answer some questions about missing labels, and draw the next one and the grid of its class."""
    truth, chosen = truth_of("photos"), Selection()
    with serving(Path("runs/first/audit")) as site:
        for number, row in enumerate(site.review.shown(chosen)[0]):
            (card,) = site.review.cards([row], chosen)
            if number >= CARDS and len(card.suggestions) > 1:
                break
            for suggestion in card.suggestions:
                right = site.review.records.classes[suggestion.column] in truth[card.name]
                answer = "yes" if right else "no"
                site.review.decide(row, suggestion.column, answer, chosen)
        page.goto(site.address)
        page.wait_for_selector("#photo:not([hidden])")
        page.keyboard.press("w")
        save(page, "review")
        page.keyboard.press("g")
        page.wait_for_selector(".tile img")
        page.wait_for_timeout(2_000)  # tiles in sight are loaded one after the other
        save(page, "review-grid")


def draw_predictions(run: spml.Run) -> None:
    """Draw new photographs with the tag that each came with, what is predicted where, and what is true."""
    truth = truth_of("new")
    files = sorted(Path("new").glob("*/*.jpg"), key=lambda path: path.name)
    found = run.predict([str(file) for file in files], where=True)
    column = {name: index for index, name in enumerate(found.classes)}
    labels = [
        [
            plots.ExampleLabel(
                name,
                float(found.scores[row, column[name]]),
                name == file.parent.name,
                name in predicted,
                name in truth[f"{file.parent.name}/{file.name}"],
                places[predicted.index(name)] if name in predicted else (),
            )
            for name in sorted({*predicted, *truth[f"{file.parent.name}/{file.name}"]})
        ]
        for row, (file, predicted, places) in enumerate(zip(files, found.labels, found.where, strict=True))
    ]
    images = np.stack([np.asarray(Image.open(file)).transpose(2, 0, 1) for file in files])
    plots.example_sheet(Path("predictions.png"), images, labels, with_truth=True)
    with Image.open("predictions.png") as picture:
        write(picture, "predictions")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    draw_screens(Path(sys.argv[1]), sys.argv[2:])
