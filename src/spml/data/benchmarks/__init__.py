"""The four benchmarks of the field, read from their official folder layouts; nothing is re-packed."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError, nearest
from .archives import extract
from .coco2014 import COCO2014
from .common import Benchmark, Missing, write_manifest
from .cub200 import CUB200
from .download import Report, fetch
from .nuswide import NUSWIDE
from .voc2012 import VOC2012

BENCHMARKS = {benchmark.name: benchmark for benchmark in (VOC2012, COCO2014, NUSWIDE, CUB200)}


def _silent(line: str) -> None:
    """Tell nobody."""


def prepare(name: str, root: str | Path, *, download: bool = False, report: Report = _silent) -> Path:
    """Check that a benchmark is there, and write its manifest, which `spml train` reads.

    The manifest holds files, labels, the published split and the labels that the published protocol observes
    (`--data.observe protocol`). Images stay where they are.

    Args:
        name: `voc2012`, `coco2014`, `nuswide` or `cub200`.
        root: folder that holds the official folders.
        download: get and unpack what is missing, where its source allows that. A download that was cut goes
            on; archives are kept.
        report: told what takes long, sizes and statistics.

    Returns:
        ROOT/spml-NAME.json.

    Raises:
        InputError: an unknown benchmark; something is missing (the message says what and where to get it);
            a file that is not as it should be.
        SpmlError: a download failed, or a file can't be written.
    """
    if name not in BENCHMARKS:
        raise InputError(f"there is no benchmark {name!r}. {nearest(name, BENCHMARKS)}")
    benchmark, root = BENCHMARKS[name], Path(root)
    missing = benchmark.missing(root)
    if missing and download:
        for archive in dict.fromkeys(item.archive for item in missing if item.archive):
            path = fetch(archive, root, report)
            report(f"{path}: is unpacked into {root}; it may be removed afterwards")
            extract(path, root)
        missing = benchmark.missing(root)
    if missing:
        raise InputError(_what_to_do(benchmark, root, missing, download))
    report(f"{root}: reading {benchmark.title}")
    return write_manifest(benchmark, root, benchmark.read(root), report)


def _what_to_do(benchmark: Benchmark, root: Path, missing: list[Missing], download: bool) -> str:
    found = f"{missing[0].path}: is missing"
    if not root.is_dir():
        found = f"{root}: there is no such folder, so {missing[0].path} is missing"
    if len(missing) > 1:
        found += f" ({len(missing)} in all)"
    archives = dict.fromkeys(item.archive for item in missing if item.archive)
    if not archives:
        return f"{found}. {benchmark.obtain} Official page: {benchmark.page}"
    if download:
        return f"{found}, even after {', '.join(archive.name for archive in archives)} was unpacked."
    urls = ", ".join(f"{archive.url} ({archive.size / 1e9:.1f} GB)" for archive in archives)
    return (
        f"{found}. Say --download to get and unpack {urls}. Or do it yourself: {benchmark.obtain} Official "
        f"page: {benchmark.page}"
    )


__all__ = ["BENCHMARKS", "prepare"]
