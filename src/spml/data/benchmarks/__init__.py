"""The four benchmarks of the field, read from their official folder layouts without repacking."""

from __future__ import annotations

from pathlib import Path

from ...common.errors import InputError, nearest
from ...common.locks import Report, only_writer
from .coco2014 import COCO2014
from .common import write_manifest
from .cub200 import CUB200
from .nuswide import NUSWIDE, NUSWIDE_MERGED
from .voc2012 import VOC2012

BENCHMARKS = {benchmark.name: benchmark for benchmark in (VOC2012, COCO2014, NUSWIDE, NUSWIDE_MERGED, CUB200)}


def prepare(name: str, root: str | Path, *, report: Report = lambda line: None) -> Path:
    """Check that a benchmark is complete, and write the manifest that `spml train` reads.

    The manifest contains the files, their labels, the published split and the labels that the published
    protocol observes (`--data.observe protocol`). Nothing is downloaded or copied.

    Args:
        name: `voc2012`, `coco2014`, `nuswide`, `nuswide-merged` or `cub200`.
        root: Folder that contains the official folders.
        report: Callback for messages: long steps, sizes and statistics.

    Returns:
        Path of the manifest, ROOT/spml-NAME.json.

    Raises:
        InputError: The benchmark is unknown, incomplete (the message names what is missing and where to get
            it), or one of its files is damaged; or another process prepares it in this folder.
        SpmlError: The manifest can't be written.
    """
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark {name!r}. {nearest(name, BENCHMARKS)}")
    benchmark, root = BENCHMARKS[name], Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder. {benchmark.source}")
    manifest = root / f"spml-{benchmark.name}.json"
    with only_writer(manifest):
        report(f"{root}: reading {benchmark.title}")
        try:
            official = benchmark.read(root)
        except InputError as error:
            raise InputError(f"{error} {benchmark.source}") from error
        write_manifest(benchmark, manifest, official, report)
    return manifest


__all__ = ["BENCHMARKS", "prepare"]
