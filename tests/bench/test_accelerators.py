"""Workers on accelerators: each has one of its own, and processes that decode. The devices are simulated."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from spml.bench.spec import read_spec
from spml.bench.store import store_url
from spml.bench.workers import own_accelerators, run_all, run_on_ray, work
from spml.methods.registry import load_own, source_of
from tests.helpers.commands import execute
from tests.helpers.comparisons import content
from tests.helpers.photo_comparisons import job_in
from tests.helpers.processes import finish_all, quick_workers

SPEC = """
data:
  photos: {path: photos/labels.csv, separator: ' ', unlisted: negative, size: 32, mean_labels: 1.4}
hiding:
  uniform: {observe: single}
candidates: [{name: one, method: "METHOD"}]
baseline: one
seeds: 2
draws: 10
train: {epochs: 1, batch_size: 16, model.backbone: small_cnn, model.weights: random}
"""

METHOD = '''
import multiprocessing
import os
import time
from pathlib import Path

import spml
from spml.losses import an_loss

FOLDER = Path(__file__).parent / "seen"


class Watching(spml.Objective):
    """AN; notes the accelerator and the decoding processes, and waits for the other worker."""

    card = spml.Card(title="AN that notes where it is", paper="none", year=2026, equations="none")

    def forward(self, outputs: spml.Outputs, batch: spml.Batch):
        children = len(multiprocessing.active_children())
        (FOLDER / f"{os.environ.get('CUDA_VISIBLE_DEVICES') or 'none'} {os.getpid()} {children}").touch()
        end = time.monotonic() + 120
        while len({path.name.split()[1] for path in FOLDER.iterdir()}) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        return {"an": an_loss(outputs.logits, batch.target)}
'''


@pytest.fixture
def job(tmp_path):
    """A comparison on images, of a method that notes where it runs, with two seeds."""
    (tmp_path / "seen").mkdir()
    (tmp_path / "mine.py").write_text(METHOD)
    name = f"{tmp_path / 'mine.py'}:Watching"
    source = source_of(load_own(name))
    return replace(job_in(tmp_path, SPEC.replace("METHOD", name)), own={name: source})


def seen(folder):
    """Accelerators, processes, and processes that decode, as the method noted them."""
    notes = [path.name.split() for path in (folder / "seen").iterdir()]
    return [{note[part] for note in notes} for part in range(3)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "cores", "visible", "devices", "decoders"),
    [(2, 4, "5,7", {"5", "7"}, {"1"}), (0, 2, None, set(), {"0"})],
)
def test_a_worker_has_a_device_and_a_process_that_decodes_or_a_core(
    job, tmp_path, monkeypatch, count, cores, visible, devices, decoders
):
    quick_workers(monkeypatch)
    own = os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
    finish_all(os.getpid, processes=1)  # the process that forks the workers begins in this environment
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    state, problems = run_all(job, 0)
    assert (problems, len(state.rows), state.missing) == ([], 2, {})
    assert {row.message for row in state.rows} == {""}
    found, processes, decoding = seen(tmp_path)
    assert (found, len(processes), decoding) == (devices or {own}, 2, decoders)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible


@pytest.mark.long
def test_decoding_processes_change_no_number(tmp_path):
    text = SPEC.replace("METHOD", "an")
    jobs = []
    for decoders in (0, 2):
        folder = tmp_path / str(decoders)
        folder.mkdir()
        jobs.append(job_in(folder, text))
        assert work(jobs[-1], decoders=decoders) == []
    assert content(jobs[0]) == content(jobs[1])


@pytest.mark.parametrize(
    ("count", "visible", "accelerator", "names"),
    [
        (2, None, "auto", ["0", "1"]),
        (2, "3,GPU-abc", "cuda", ["3", "GPU-abc"]),
        (1, "3,-1,4", "auto", ["3"]),  # what follows -1 is hidden
        (2, None, "cpu", []),
        (0, None, "auto", []),
    ],
)
def test_names_of_the_accelerators(tmp_path, monkeypatch, count, visible, accelerator, names):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    text = SPEC.replace("METHOD", "an").replace("train: {", f"train: {{accelerator: {accelerator}, ")
    assert own_accelerators(read_spec(Path("spec.yaml"), text)) == names


@pytest.mark.parametrize(
    ("nodes", "workers", "asked", "tasks", "decoders"),
    [
        ([{"CPU": 8, "GPU": 2}, {"CPU": 4}], 0, {"num_cpus": 4, "num_gpus": 1}, 2, 3),
        ([{"CPU": 9, "GPU": 1}, {"CPU": 6, "GPU": 1}], 4, {"num_cpus": 3, "num_gpus": 0.5}, 4, 2),
        ([{"CPU": 2}, {"CPU": 1}], 0, {"num_cpus": 1, "num_gpus": 0}, 3, 0),
    ],
)
def test_what_a_cluster_is_asked_for(job, monkeypatch, nodes, workers, asked, tasks, decoders):
    made, lost = [], {"Alive": False, "Resources": {"CPU": 1, "GPU": 8}}

    def remote(**settings):
        def start(task, decoders):
            made.append((task, settings, decoders))
            return len(made)

        return lambda function: SimpleNamespace(remote=start)

    ray = SimpleNamespace(
        nodes=lambda: [lost, *({"Alive": True, "Resources": node} for node in nodes)],
        remote=remote,
        wait=lambda started, **_: (started, []),
        get=lambda task: [],
    )
    monkeypatch.setattr("spml.runs.predict.cluster.connected", lambda _: nullcontext(ray))
    state, problems = run_on_ray(job, "", workers)
    assert (problems, state.finished) == ([], 0)
    assert made == [(job, {**asked, "max_retries": 0}, decoders)] * tasks


@pytest.mark.long
def test_a_cluster_of_two_nodes_gives_the_same_rows_and_each_worker_an_accelerator(
    job, tmp_path, monkeypatch
):
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # that each of the nodes on this machine has
    monkeypatch.setattr("spml.cli.bench._write", lambda *_: None)  # the report is the same as of one machine
    node = {"num_cpus": 2, "num_gpus": 1, "include_dashboard": False}
    # Ray would start a process for each core before anything is asked for.
    few = {"enable_worker_prestart": False, "prestart_worker_first_driver": False}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**node, "_system_config": few})
    cluster.add_node(**node)
    (name,) = job.own
    try:
        execute("bench run", job.path, "--root", job.root, "--output", job.folder, "--method", name,
                "--engine ray --address", cluster.address)  # fmt: skip
    finally:
        cluster.shutdown()
    devices, processes, decoders = seen(tmp_path)
    assert (len(processes), decoders) == (2, {"1"})
    assert "none" not in devices
    alone = replace(job, folder=str(tmp_path / "alone"), url=store_url(tmp_path))
    assert work(alone) == []
    assert content(job) == content(alone)
