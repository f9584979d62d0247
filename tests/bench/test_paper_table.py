"""GR's Table 2 on stand-in photographs in the layout of VOC 2012."""

from __future__ import annotations

import re

import pytest

from spml.bench.spec import find_spec
from spml.bench.state import read_state
from spml.bench.store import Store, store_url
from tests.bench.toys import save_spec
from tests.data.benchmarks import layouts
from tests.helpers.commands import execute
from tests.helpers.processes import quick_workers


def one_epoch(text: str) -> str:
    """The specification with one epoch and one seed, small images and a tiny untrained network."""
    text = re.sub(r"epochs: \d+", "epochs: 1", text)
    text = text.replace("size: 448", "size: 64").replace("seeds: 3", "seeds: 1\ndraws: 10")
    text = text.replace("resnet50.tv_in1k", "test_resnet\n  model.weights: random")
    text = re.sub(r"(?<=method: )(splc|em_apl)(?=,)", r"\1, hp.warmup: 0", text)
    return re.sub(r"( +)method: (smile_image|mime)\n", r"\g<0>\1hp.warmup: 0\n", text)


@pytest.mark.long
def test_all_rows_of_table_2_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr(layouts, "TRAIN", 40)
    monkeypatch.setattr(layouts, "TEST", 20)
    layouts.voc2012(tmp_path)
    execute("data prepare voc2012 --root", tmp_path)
    path, output = save_spec(tmp_path, one_epoch(find_spec("paper-voc-table2").text)), tmp_path / "out"
    quick_workers(monkeypatch)
    execute("bench run", path, "--root", tmp_path, "--output", output, "--workers 1")
    spec = find_spec(str(path))
    state = read_state(spec, Store(store_url(output)), tmp_path)
    assert (spec.runs, len(state.rows), state.missing) == (14, 14, {})
    assert {row.message for row in state.rows} == {""}
    report = (output / "report.md").read_text()
    assert "With linear initialisation, whose numbers the row has on VOC and COCO." in report
