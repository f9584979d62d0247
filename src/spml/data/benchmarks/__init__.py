"""The four benchmarks of the field, read from their official folder layouts without repacking."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError, nearest
from ...files import make_folder
from ...locks import only_writer
from .archives import extract
from .coco2014 import COCO2014
from .common import Benchmark, Missing, manifest_path, write_manifest
from .cub200 import CUB200
from .download import Report, fetch
from .nuswide import NUSWIDE, NUSWIDE_MERGED
from .voc2012 import VOC2012

BENCHMARKS = {benchmark.name: benchmark for benchmark in (VOC2012, COCO2014, NUSWIDE, NUSWIDE_MERGED, CUB200)}


def _silent(line: str) -> None:
    """Ignore messages."""


def prepare(name: str, root: str | Path, *, download: bool = False, report: Report = _silent) -> Path:
    """Check that a benchmark is complete, and write the manifest that `spml train` reads.

    The manifest contains the files, their labels, the published split and the labels that the published
    protocol observes (`--data.observe protocol`). Images are not copied.

    Args:
        name: `voc2012`, `coco2014`, `nuswide`, `nuswide-merged` or `cub200`.
        root: Folder that contains the official folders.
        download: Whether to download and unpack what is missing, if its source allows that. An interrupted
            download is resumed; archives are kept.
        report: Callback for messages: long steps, sizes and statistics.

    Returns:
        Path of the manifest, ROOT/spml-NAME.json.

    Raises:
        InputError: The benchmark is unknown, incomplete (the message names what is missing and where to get
            it), or one of its files is damaged; or another process prepares it in this folder.
        SpmlError: A download failed, or a file can't be written.
    """
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark {name!r}. {nearest(name, BENCHMARKS)}")
    benchmark, root = BENCHMARKS[name], Path(root)
    missing = benchmark.missing(root)
    if missing and not download:
        raise InputError(_what_to_do(benchmark, root, missing, download))
    make_folder(root)
    with only_writer(manifest_path(root, benchmark), report):
        return _prepare(benchmark, root, download, report)


def _prepare(benchmark: Benchmark, root: Path, download: bool, report: Report) -> Path:
    """Download what is missing, if asked to, and write the manifest."""
    missing = benchmark.missing(root)  # again: another process may have completed it
    if missing and download:
        for archive in dict.fromkeys(item.archive for item in missing if item.archive):
            path = fetch(archive, root, report)
            report(f"{path}: is unpacked into {root}; the archive can be deleted afterwards")
            extract(path, root)
        missing = benchmark.missing(root)
    if missing:
        raise InputError(_what_to_do(benchmark, root, missing, download))
    report(f"{root}: reading {benchmark.title}")
    return write_manifest(benchmark, root, benchmark.read(root), report)


def _what_to_do(benchmark: Benchmark, root: Path, missing: list[Missing], download: bool) -> str:
    problem = f"{missing[0].path}: is missing"
    if not root.is_dir():
        problem = f"{root}: no such folder, so {missing[0].path} is missing"
    if len(missing) > 1:
        problem += f" ({len(missing)} in all)"
    archives = dict.fromkeys(item.archive for item in missing if item.archive)
    if not archives:
        return f"{problem}. {benchmark.obtain} Official page: {benchmark.page}"
    if download:
        return f"{problem}, even after {', '.join(archive.name for archive in archives)} was unpacked."
    urls = ", ".join(f"{archive.url} ({archive.size / 1e9:.1f} GB)" for archive in archives)
    return (
        f"{problem}. Pass --download to download and unpack {urls}, or do it yourself: {benchmark.obtain} "
        f"Official page: {benchmark.page}"
    )


__all__ = ["BENCHMARKS", "prepare"]
