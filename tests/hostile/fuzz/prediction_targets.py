"""Targets for predictions as files, the journal of unfinished ones, and kept features."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spml.config import DataConfig
from spml.data.images.feature_store import FeatureStore
from spml.data.readers import read
from spml.runs.decide.inferred_labels import read_inferred
from spml.runs.predict.unfinished import Unfinished
from tests.helpers.messages import listening
from tests.hostile.fuzz.change import of_bytes, of_json_lines, of_text
from tests.hostile.fuzz.judge import Target
from tests.hostile.fuzz.run_targets import command, make_run, of_file


def predictions(folder: Path) -> list[Target]:
    """Predictions as files, the journal of unfinished ones, and kept features."""
    run = make_run(folder, "ridge", "--head", "ridge")
    (folder / "out").mkdir()
    records = read(DataConfig(path=str(folder / "rows.npz")))
    targets = []
    for form, change in {"csv": of_text(), "parquet": of_bytes()}.items():
        path = folder / "out" / f"p.{form}"
        command(["predict", run, folder / "rows.npz", "--output", path, "--format", form])
        content = path.read_bytes()
        if form != "parquet":
            content = b"".join(content.splitlines(keepends=True)[:6])

        def infer(path: Path = path) -> None:
            read_inferred(path, records)

        targets.append(of_file(f"predictions-{form}", path, change, infer, seeds=[content]))
    return [*targets, _journal(folder), *_kept_features(folder)]


def _journal(folder: Path) -> Target:
    output = folder / "scores.csv"
    content, journal = (Path(f"{output}.partial"), Path(f"{output}.partial.journal"))
    blocks = [b"one\n", b"two\n", b"three\n"]
    with (
        contextlib.suppress(KeyboardInterrupt),
        Unfinished(output, {}, b"head\n") as first,
    ):
        first.add(blocks[0], 1, {})
        first.add(blocks[1], 2, {1: "broken"})
        raise KeyboardInterrupt
    written, seed = content.read_bytes(), journal.read_bytes()

    def attempt(data: bytes) -> Sequence[str]:
        journal.write_bytes(data)
        content.write_bytes(written)
        with listening() as lines, Unfinished(output, {}, b"head\n") as unfinished:
            for number in range(unfinished.samples, 3):
                unfinished.add(blocks[number], number + 1, {1: "broken"} if number == 1 else {})
            unfinished.finish(os.replace)
        assert output.read_bytes() == b"head\none\ntwo\nthree\n"
        assert unfinished.skipped == {1: "broken"}
        return lines

    return Target("journal", ".journal", (seed,), of_json_lines(), attempt)


def _kept_features(folder: Path) -> list[Target]:
    kept = folder / "kept"
    identities = np.arange(4 * 32, dtype=np.uint8).reshape(4, 32)
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    with FeatureStore(kept) as store:
        store.append(identities[:2], rows[:2])
        store.append(identities[2:], rows[2:])
    targets = []
    for suffix in (".index", ".rows"):
        copied = Path(shutil.copytree(kept, folder / f"kept{suffix}"))
        path = next(copied.glob(f"*{suffix}"))

        def look_up(copied: Path = copied) -> None:
            store = FeatureStore(copied)
            positions = store.locate(identities)
            found = positions >= 0
            if found.any():
                assert (store.rows(positions[found]) == rows[found]).all()

        targets.append(of_file(f"features{suffix}".replace(".", "-"), path, of_bytes(), look_up, weight=0.5))
    return targets
