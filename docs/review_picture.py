"""Write the pictures of the pages of `spml review`, with the digit scenes that the package embeds.

    python docs/review_picture.py AUDIT SAMPLE

AUDIT is the folder of an audit of `digits` with hidden labels, and SAMPLE the table of a sample of its run,
by whose scores the classes are ordered. The first cards of the audit are answered with the true labels, in a
copy of it. review.png shows the first one after these that asks more than one question, review-grid.png its
class, and review-sample.png a sample.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from PIL import Image
from tests.review.browser import chromium, serving

import spml
from spml.audit.sheets import read_sample, sheet_files
from spml.data.readers import make_digits
from spml.review.queue import Selection
from spml.runs.audits.sample import scores_of_sample

CARDS = 200
FOLDER = Path(__file__).parent


def main() -> None:
    """Answer some cards, and write the pictures."""
    truth = make_digits().labels.to_ternary()
    with tempfile.TemporaryDirectory() as work, chromium() as browser:
        audit = Path(shutil.copytree(sys.argv[1], Path(work) / "audit"))
        page = browser.new_page(viewport={"width": 1200, "height": 750})

        def save(name: str) -> None:
            page.wait_for_load_state("networkidle")
            picture = Image.open(io.BytesIO(page.screenshot()))
            picture.quantize(128).save(FOLDER / name, optimize=True)

        with serving(audit) as site:
            chosen = Selection()
            for number, sample in enumerate(site.review.shown(chosen)[0]):
                (card,) = site.review.cards([sample], chosen)
                if number >= CARDS and len(card.suggestions) > 1:
                    break
                for suggestion in card.suggestions:
                    answer = "yes" if truth[sample, suggestion.column] == 1 else "no"
                    site.review.decide(sample, suggestion.column, answer, chosen)
            page.goto(site.address)
            page.wait_for_selector("#photo:not([hidden])")
            save("review.png")
            page.keyboard.press("g")
            page.wait_for_selector(".tile img")
            save("review-grid.png")
        table = Path(sys.argv[2])
        for path in sheet_files(table):
            shutil.copy(path, work)
        sample = read_sample(table)
        scores = scores_of_sample({run: spml.load(run) for run in sample.runs}, sample.ids, sample.classes)
        with serving(Path(work) / table.name, scores=scores) as site:
            page.goto(site.address)
            page.wait_for_selector("#photo:not([hidden])")
            for key in "4c":
                page.keyboard.press(key)
                page.wait_for_timeout(500)
            save("review-sample.png")


if __name__ == "__main__":
    main()
