"""Small runs of every method and head give the numbers that are stored for this version of the code.

    python -m tests.bench.test_numbers      # store the numbers of a new version, or of a new method

Numbers of a run depend on the whole path from the data to the test score. If they change, stored runs must be
made again, which they are when `spml.bench.plan.CODE_VERSION` is raised.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from spml.bench.plan import CODE_VERSION, all_series, next_trial
from spml.bench.runner import Runner
from spml.bench.spec import read_spec
from tests.bench.toys import save_spec, save_toy

STORED = Path(__file__).parent / "numbers.json"
VECTORS = """
title: every method and head
data:
  toy: {path: toy.npz, unlisted: negative, mean_labels: 1.6}
hiding:
  uniform: {observe: single}
candidates:
  - all: true
    except: [bce, iun, iu, combine, gpr, vlpl, boostlu, ignore, lac, scl]
  - {name: combine, method: combine}
  - {name: mlp, method: an, model.head: mlp}
  - {name: correlated, method: an, model.head: correlated}
  - {name: gaussian, method: an, model.head: gaussian}
  - {name: code per class, method: mime, model.head: gaussian_per_class, model.hidden: 16, model.code: 8}
  - {name: converged, method: an, optim.name: lbfgs}
  - {name: auto, method: auto}
  - {name: ridge, model.head: ridge}
  - {name: lda, model.head: lda}
  - {name: class means, model.head: mean_difference}
  - {name: full, method: bce, labels: full}
  - {name: oracle, method: iun, labels: positive_and_negatives}
  - {name: known negatives, method: iu, labels: positive_and_negatives}
baseline: an
modes: [oracle]
seeds: 1
train: {epochs: 12, batch_size: 32, optim.lr: 1e-2}
"""
PHOTOS = """
title: methods that look at maps or views
data:
  digits: {path: digits, mean_labels: 2.0, sample_rows: 200}
hiding:
  uniform: {observe: single}
candidates:
  - {name: an on photos, method: an}
  - {name: queries on photos, method: an, model.head: queries, optim.lr: 1e-4}  # rounding grows slowly
  - {name: boostlu, method: boostlu}
  - {name: ignore, method: ignore, hp.warmup: 1}
  - {name: plc on photos, method: plc}
  - {name: codes on photos, method: mime, hp.warmup: 1, model.head: queries, optim.lr: 1e-4}
  - {name: lac on photos, method: lac, optim.lr: 1e-4}
  - {name: distributions on photos, method: smile_image, model.head: queries, optim.lr: 1e-4}
  - {name: scl, method: scl}
baseline: an on photos
modes: [oracle]
seeds: 1
train: {epochs: 2, batch_size: 32}
"""


def numbers(folder: Path, text: str) -> dict[str, dict[str, list[float]]]:
    """Scores of each epoch of the run of each candidate, by candidate and column."""
    save_toy(folder)
    spec = read_spec(save_spec(folder, text))
    runner, found = Runner(spec, folder / "features"), {}
    for series in all_series(spec):
        trial = next_trial(spec, series, [], folder)
        assert trial is not None
        row = runner.run(series, trial, [])
        assert row.status == "done", row.message
        found[series.candidate.name] = row.history
    return found


@pytest.mark.long
@pytest.mark.usefixtures("all_trees")
@pytest.mark.parametrize("text", [VECTORS, PHOTOS], ids=["vectors", "photos"])
def test_numbers_are_those_of_this_version(tmp_path, text):
    stored = json.loads(STORED.read_text())
    found = numbers(tmp_path, text)
    changed = [
        f"{candidate}: {column}"
        for candidate, history in found.items()
        for column, values in stored["runs"].get(candidate, {}).items()
        if not np.allclose(history[column], values, rtol=1e-3, atol=1e-3, equal_nan=True)
    ]
    assert {*found} & {*stored["runs"]}
    assert (stored["version"], changed) == (CODE_VERSION, []), (
        "Numbers of runs changed: raise CODE_VERSION in spml/bench/plan.py, then run "
        "python -m tests.bench.test_numbers, and say in the changelog what changed."
    )


def main() -> None:
    """Store the numbers of this version; those that it has already stay."""
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"version": ""}
    runs = stored["runs"] if stored["version"] == CODE_VERSION else {}
    for text in (VECTORS, PHOTOS):
        with tempfile.TemporaryDirectory() as name:
            for candidate, history in numbers(Path(name), text).items():
                rounded = {
                    column: [round(value, 5) for value in values] for column, values in history.items()
                }
                runs.setdefault(candidate, rounded)
    STORED.write_text(json.dumps({"version": CODE_VERSION, "runs": runs}) + "\n")


if __name__ == "__main__":
    main()
