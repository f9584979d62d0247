"""Two local nodes of Ray, one of which is killed in the middle: the files are those of one process."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import spml
from spml.data.images.image_files import ImageFiles
from spml.runs.predict import cluster as stream
from spml.runs.predict.cluster import connected
from spml.runs.predict.unfinished import Unfinished
from tests.helpers.commands import execute
from tests.helpers.photos import make_photos

pytestmark = pytest.mark.long

SETTINGS = {
    "health_check_period_ms": 500, "health_check_failure_threshold": 4,
    "enable_worker_prestart": False, "prestart_worker_first_driver": False,
}  # fmt: skip
"""A node that refuses connections is given up after seconds. One that does not answer keeps the usual ten per
check: a busy machine would lose its own node otherwise, and with it the process of the tests. No process is
started before it is needed.
"""


FINISHED = 4
"""Batches of the first task, after which the node that is killed stays in the middle of the next one."""


class SlowFiles(ImageFiles):
    """Images whose loading notes which node does it, and waits until one node is to be killed."""

    log: Path
    doomed: str

    def load(self, rows, known):
        import ray

        node = ray.get_runtime_context().get_node_id()
        with open(self.log, "a") as stream:
            stream.write(f"{node} {rows[0]}\n")
        if node != self.doomed:
            wait_until(lambda: begun_by(self.doomed, self.log) > FINISHED)
        elif begun_by(node, self.log) > FINISHED:
            time.sleep(60)
        return super().load(rows, known)


def begun_by(node, log):
    """Number of batches that a node has begun."""
    return sum(line.startswith(node) for line in log.read_text().splitlines())


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the second node was given too little work"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cluster():
    """A cluster with one node of one core; a test may add others."""
    utilities = pytest.importorskip("ray.cluster_utils")
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": SETTINGS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        cluster = utilities.Cluster(initialize_head=True, head_node_args=head)
        yield cluster
        cluster.shutdown()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """240 images; one is damaged, and one is a copy of another."""
    folder = make_photos(tmp_path_factory.mktemp("data") / "photos", per_class=80)
    (folder / "green" / "40.png").write_bytes(b"no image")
    shutil.copy(folder / "blue" / "03.png", folder / "red" / "50.png")
    return folder


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    run = spml.train(
        photos, method="an", epochs=1, data={"size": 32, "workers": 0}, threads=1, mean_labels=1.5,
        backbone="small_cnn", weights="random", batch_size=16, quiet=True, pictures=False,
        output=tmp_path_factory.mktemp("runs") / "run",
    )  # fmt: skip
    return run.folder


def predict(run, photos, output, *more):
    arguments = ["--batch_size", "8", "--workers", "0", "--cache", "none", "--output", output, *more]
    execute("predict", run, photos, *arguments)
    return output.read_bytes()


def test_a_node_is_killed_in_the_middle(run, photos, cluster, tmp_path, monkeypatch, capsys):
    expected = predict(run, photos, tmp_path / "one.csv")
    node = cluster.add_node(num_cpus=1)
    log, killed = tmp_path / "log", []
    portable, add = stream.portable, Unfinished.add

    def slow(inputs):
        files = portable(inputs)
        files.__class__, files.log, files.doomed = SlowFiles, log, node.node_id
        return files

    def kill(self, content, samples, skipped):
        add(self, content, samples, skipped)
        if samples == 24:
            wait_until(lambda: begun_by(node.node_id, log) > FINISHED)
            cluster.remove_node(node, allow_graceful=False)
            killed.append(len(log.read_text().splitlines()))

    monkeypatch.setattr(stream, "portable", slow)
    monkeypatch.setattr(Unfinished, "add", kill)
    more = ["--engine", "ray", "--address", cluster.address]
    handler = signal.getsignal(signal.SIGTERM)
    assert predict(run, photos, tmp_path / "ray.csv", *more) == expected
    assert signal.getsignal(signal.SIGTERM) is handler  # Ray's own would abort this process
    (begun,) = killed
    lines = [line.split() for line in log.read_text().splitlines()]
    last = next(row for name, row in reversed(lines[:begun]) if name == node.node_id)
    assert begun < 30  # of 30 batches
    assert [name for name, row in lines if row == last] == [node.node_id, cluster.head_node.node_id]
    printed = capsys.readouterr()
    assert "raylet" not in printed.out
    assert "Traceback" not in printed.err


def test_features_are_sent_to_the_nodes(cluster, tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "train.npz", X=draw.normal(size=(60, 5)), Y=np.arange(60) % 3, classes=list("abc"))
    for number in range(3):
        np.save(tmp_path / f"X_0000{number}.npy", draw.normal(size=(70, 5)).astype(np.float32))
    settings = {"method": "an", "epochs": 1, "quiet": True, "pictures": False, "threads": 1}
    run = spml.train(tmp_path / "train.npz", output=str(tmp_path / "run"), **settings)
    one, matrix = run.predict(tmp_path, batch_size=32), draw.normal(size=(40, 5)).astype(np.float32)
    assert one.scores.shape == (210, 3)
    with connected(cluster.address):  # which both use in place of one of their own
        np.testing.assert_array_equal(run.predict(tmp_path, batch_size=32, engine="ray").scores, one.scores)
        np.testing.assert_array_equal(run.predict(matrix, engine="ray").scores, run.predict(matrix).scores)
