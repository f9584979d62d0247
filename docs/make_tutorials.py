"""Run the tutorials as notebooks, and write their pages with everything that they print and draw.

    python docs/make_tutorials.py [SETTINGS]

Each docs/tutorials/NAME.py is a notebook in the percent format of jupytext. SETTINGS, such as
'{"model": {"backbone": "resnet50"}}', take the place of those in the tutorial on photographs.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from nbconvert.filters import strip_ansi
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"


def run_tutorial(source: Path, folder: Path, settings: str = "{}") -> Any:
    """Run a tutorial in an empty folder; the notebook with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    notebook = jupytext.read(source)
    for cell in notebook.cells:
        cell.source = cell.source.replace("SETTINGS = {}", f"SETTINGS = {settings}")
    (folder / "examples").symlink_to(ROOT / "examples")
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=600, coalesce_streams=True, resources=resources)
    # tqdm, which others import, would ask for ipywidgets.
    client.execute(env={**os.environ, "PYTHONWARNINGS": "ignore"})
    return notebook


def write_page(source: Path, notebook: Any, folder: str, made: str) -> None:
    """Write the page of a tutorial that ran in a folder: its text, its code and its outputs."""
    exporter = MarkdownExporter(display_data_priority=["image/png", "text/plain"])
    text, resources = exporter.from_notebook_node(notebook)
    for name, content in resources["outputs"].items():
        picture = f"{source.stem}-{Path(name).stem}.webp"
        with Image.open(io.BytesIO(content)) as image:
            image.convert("RGB").save(TUTORIALS / picture, quality=80, method=6)
        text = text.replace(f"({name})", f"({picture})").replace("![png]", "![What the cell shows]")
    text = re.sub(r"SETTINGS = \{.*\}", "SETTINGS = {}", text)
    text = strip_ansi(text).replace(f"{folder}/", "")
    text = re.sub(r"/[\w/.-]+/(?=[\w.-]+\.safetensors)", "", text)
    text = re.sub(r"\s*\n\s*\n(?= *\S)", "\n\n", text)
    note = f"This page is the notebook [{source.name}]({source.name}), as it ran on {made}."
    title, rest = text.strip().split("\n", 1)
    (source.with_suffix(".md")).write_text(f"{title}\n\n{note}\n{rest}\n", encoding="utf-8")


def main() -> None:
    """Run and write all tutorials."""
    settings = sys.argv[1] if len(sys.argv) > 1 else "{}"
    for source in sorted(TUTORIALS.glob("*.py")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = run_tutorial(source, Path(folder), settings)
        write_page(source, notebook, folder, f"{date.today():%d %B %Y}, on two cores without a GPU")


if __name__ == "__main__":
    main()
