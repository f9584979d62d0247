"""Build the documentation site of this version into a folder that holds the sites of all versions.

    python docs/publish.py FOLDER https://example.org/spml/

FOLDER is what the web server publishes at the address. The site of version 0.1.0 is in FOLDER/0.1.0;
versions.json lists all versions, for the selector in the header; index.html leads to the newest, whose page
for what does not exist is the server's 404.html.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from packaging.version import Version

import spml

ROOT = Path(__file__).resolve().parents[1]
_START = (
    '<!doctype html><title>spml</title><meta http-equiv="refresh" content="0; url={newest}/index.html">\n'
)


def publish(folder: Path, address: str, version: str) -> None:
    """Build the site of a version into a folder, and update what all versions share."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / version)]
    address = f"{address.rstrip('/')}/{version}/"
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "SITE_URL": address})
    list_versions(folder)


def list_versions(folder: Path) -> None:
    """Write the list of the versions in a folder, the newest first, and the pages that lead to the newest."""
    versions = sorted((path.parent.name for path in folder.glob("*/404.html")), key=Version, reverse=True)
    entries = [{"version": version, "title": version, "aliases": []} for version in versions]
    entries[0]["aliases"] = ["latest"]
    (folder / "versions.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(_START.format(newest=versions[0]), encoding="utf-8")
    (folder / "404.html").write_bytes((folder / versions[0] / "404.html").read_bytes())


if __name__ == "__main__":
    publish(Path(sys.argv[1]).resolve(), sys.argv[2], spml.__version__)
