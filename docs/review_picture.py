"""Write docs/review.png: the page of `spml review`, with the digit scenes that the package embeds.

    python docs/review_picture.py AUDIT

AUDIT is the folder of an audit of `digits` with hidden labels. Its first cards are answered with the true
labels, in a copy of the folder; the picture shows the first one after these that asks more than one question.
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

from spml.data.readers import make_digits
from spml.review.queue import Selection

CARDS = 200
PICTURE = Path(__file__).parent / "review.png"


def main() -> None:
    """Answer some cards, and write the picture."""
    truth = make_digits().labels.to_ternary()
    with tempfile.TemporaryDirectory() as work, chromium() as browser:
        audit = Path(shutil.copytree(sys.argv[1], Path(work) / "audit"))
        with serving(audit) as site:
            chosen = Selection()
            for number, sample in enumerate(site.review.shown(chosen).samples):
                (card,) = site.review.cards([sample], chosen)
                if number >= CARDS and len(card.suggestions) > 1:
                    break
                for suggestion in card.suggestions:
                    answer = "yes" if truth[sample, suggestion.column] == 1 else "no"
                    site.review.decide(sample, suggestion.column, answer, chosen)
            page = browser.new_page(viewport={"width": 1200, "height": 750})
            page.goto(site.address)
            page.wait_for_selector("#photo:not([hidden])")
            page.wait_for_load_state("networkidle")
            picture = Image.open(io.BytesIO(page.screenshot()))
            picture.quantize(128).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
