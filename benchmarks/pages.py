"""Write pages of results again from their numbers, without measuring anything.

python benchmarks/pages.py [SCRIPT ...]    # the pages of all scripts, or of these
"""

from __future__ import annotations

import importlib
import sys

from shared import RESULTS, load_results, save_page


def main(*names):
    """Write NAME.md from NAME.json by the function `page` of the script NAME."""
    for name in names or sorted(path.stem for path in RESULTS.glob("*.json")):
        page = getattr(importlib.import_module(name), "page", None)
        if page:
            save_page(name, page(load_results(name)))


if __name__ == "__main__":
    main(*sys.argv[1:])
