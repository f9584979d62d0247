"""GR's Table 2 on stand-in photographs in the layout of VOC 2012, killed and continued, with two workers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spml.bench.spec import find_spec
from spml.bench.state import read_state
from spml.bench.store import Store
from tests.bench.toys import save_spec
from tests.data.benchmarks import layouts
from tests.helpers.commands import execute


def one_epoch(text: str) -> str:
    """The specification with one epoch and one seed, small images and a tiny untrained network."""
    text = re.sub(r"epochs: \d+", "epochs: 1", text)
    text = text.replace("size: 448", "size: 64").replace("seeds: 3", "seeds: 1\ndraws: 10")
    text = text.replace("resnet50.tv_in1k", "test_resnet\n  model.weights: random")
    text = re.sub(r"(?<=method: )(splc|em_apl)(?=,)", r"\1, hp.warmup: 0", text)
    return re.sub(r"( +)method: (smile_image|mime)\n", r"\g<0>\1hp.warmup: 0\n", text)


@pytest.mark.long
def test_all_rows_of_table_2_are_made_though_the_command_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(layouts, "TRAIN", 40)
    monkeypatch.setattr(layouts, "TEST", 20)
    layouts.voc2012(tmp_path)
    execute("data prepare voc2012 --root", tmp_path)
    path = save_spec(tmp_path, one_epoch(find_spec("paper-voc-table2").text), "table2.yaml")
    output = tmp_path / "out"
    command = [sys.executable, "-m", "spml", "bench", "run", str(path), "--root", str(tmp_path),
               "--output", str(output), "--workers", "2"]  # fmt: skip

    def rows():
        store = output / "store.sqlite"
        return Store(f"sqlite:///{store}").find() if store.exists() else {}

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 300
    while len(rows()) < 2 and time.monotonic() < end:
        time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {row.key: row for group in rows().values() for row in group}
    assert 2 <= len(before) < 14
    again = subprocess.run(command, check=True, timeout=540, stderr=subprocess.PIPE, text=True).stderr
    found = re.search(r"(\d+) of 14 runs are finished", again)
    assert found
    assert len(before) <= int(found[1]) < 14  # a worker may have finished its run after the kill
    spec = find_spec(str(path))
    state = read_state(spec, Store(f"sqlite:///{output / 'store.sqlite'}"), Path(tmp_path))
    assert (spec.runs, len(state.rows), state.missing) == (14, 14, {})
    assert {row.message for row in state.rows} == {""}
    after = {row.key: row for row in state.rows}
    assert all(after[key].finished == row.finished for key, row in before.items())  # none was made again
    report = (output / "report.md").read_text()
    assert "With linear initialisation, whose numbers the row has on VOC and COCO." in report
